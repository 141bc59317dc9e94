"""Jobs over the wire: asked for, followed, listed, refused."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import good, refusal
from tests.api.jobs import Job, agent, scenarios_spec
from tests.api.scenarios import bash, function, scenario

JOBS = "/v1/benchmark_jobs"


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


@pytest.fixture
def easy(http: httpx.Client) -> str:
    """A scenario that is solved by a file."""
    made = scenario(
        http,
        function(bash("cat answer 2>/dev/null || echo 0")),
        name=f"easy {uuid.uuid4().hex[:8]}",
        reference_output="#!/bin/sh\necho 1.0 > answer\n",
        environment_parameters={"working_directory": "/home/user/work"},
        metadata={"level": "easy"},
    )
    found: str = made["id"]
    return found


def test_a_job_over_a_benchmark_compares_agents(http: httpx.Client) -> None:
    spec = {
        "type": "benchmark",
        "benchmark_id": "quickstart",
        "agent_configs": [{"name": "oracle"}, {"name": "nop", "type": "job_agent"}],
        "orchestrator_config": {"n_concurrent_trials": 4, "n_attempts": 0, "quiet": False},
        "selection": {"limit": 2},
    }
    job = Job(http, spec, metadata={"count": 3, "who": "me"})
    view = job.completed()
    assert view["name"].startswith("quickstart ")
    assert view["metadata"] == {"count": "3", "who": "me"}
    assert view["job_source"]["type"] == "benchmark"
    assert view["job_source"]["benchmark_name"] == "quickstart"
    assert len(view["job_spec"]["scenario_ids"]) == 2
    assert [each["name"] for each in view["job_spec"]["agent_configs"]] == ["oracle", "nop"]
    assert (view["in_progress_runs"], view["n_trials"]) == ([], 4)
    oracle, nop = view["benchmark_outcomes"]
    assert (oracle["average_score"], oracle["mean_score"], oracle["n_completed"]) == (1.0, 1.0, 2)
    assert (nop["average_score"], nop["n_completed"], nop["n_failed"], nop["n_timeout"]) == (0.0, 2, 0, 0)
    row = oracle["scenario_outcomes"][0]
    assert (row["state"], row["score"], row["scenario_name"][:11]) == ("COMPLETED", 1.0, "quickstart/")
    run = good(http.get(f"/v1/benchmark_runs/{oracle['benchmark_run_id']}"))
    assert (run["state"], run["score"], run["benchmark_id"]) == (
        "completed",
        1.0,
        view["job_source"]["benchmark_id"],
    )
    children = good(http.get(f"/v1/benchmark_runs/{oracle['benchmark_run_id']}/scenario_runs"))["runs"]
    assert {each["id"] for each in children} == {
        each["scenario_run_id"] for each in oracle["scenario_outcomes"]
    }
    assert {each["state"] for each in children} == {"completed"}


def test_attempts_are_one_row_for_each_scenario(http: httpx.Client, easy: str) -> None:
    job = Job(http, scenarios_spec([easy], agent("echo 0.5 > answer"), n_attempts=3))
    row = job.row()
    assert (row["state"], row["score"]) == ("COMPLETED", 0.5)
    assert [each["attempt"] for each in row["attempts"]] == [1, 2, 3]
    assert len({each["scenario_run_id"] for each in row["attempts"]}) == 3
    outcome = job.get()["benchmark_outcomes"][0]
    assert (outcome["n_completed"], outcome["n_trials"], outcome["n_passed"]) == (1, 3, 0)


def test_the_contract_every_agent_gets(http: httpx.Client, easy: str) -> None:
    good(http.post("/v1/secrets", json={"name": (name := f"S{uuid.uuid4().hex}"), "value": "hidden"}))
    checks = (
        'test "$(cat)" = "Do it."',
        'test "$BENCHYARD_PROMPT" = "Do it."',
        'test "$(cat {prompt_file})" = "Do it."',
        'test "$(cat $BENCHYARD_PROMPT_FILE)" = "Do it."',
        'test "$BENCHYARD_MODEL" = some/model',
        'test "$PWD" = /home/user/work',
        'test "$GIVEN" = "a b"',
        'test "$(printf %s "$TOKEN" | base64)" = aGlkZGVu',
        "echo one > $BENCHYARD_LOGS/own.log",
        """echo '{"schema_version": "ATIF-v1.4", "steps": []}' > $BENCHYARD_TRAJECTORY""",
        "echo said; echo 1.0 > answer",
    )
    environment = {"environment_variables": {"GIVEN": "a b"}, "secrets": {"TOKEN": name}}
    config = agent(" && ".join(checks), model_name="some/model", agent_environment=environment)
    job = Job(http, scenarios_spec([easy], config))
    row = job.row()
    assert row.get("score") == 1.0, row
    run = good(http.get(f"/v1/scenarios/runs/{row['scenario_run_id']}"))
    assert {(each["name"], each["kind"]) for each in run["traces"]} == {
        ("own.log", "file"),
        ("trajectory.json", "atif"),
    }
    kept = job.get("/artifacts")["artifacts"]
    assert {each["name"] for each in kept} == {"own.log", "trajectory.json"}
    assert "hidden" not in json.dumps(job.get())


def test_a_part_of_the_scenarios(http: httpx.Client, easy: str) -> None:
    made = [easy, *(scenario(http, name=f"other-{index}")["id"] for index in range(4))]

    def chosen(**selection: Any) -> list[str]:
        spec = {**scenarios_spec(made, {"name": "nop"}), "selection": selection}
        job = Job(http, spec)
        job.post("cancel")
        found: list[str] = job.get()["job_spec"]["scenario_ids"]
        return found

    assert chosen(limit=2) == made[:2]
    assert chosen(filters={"level": "easy"}) == [easy]
    assert chosen(filters={"name": "other-[13]"}) == [made[2], made[4]]
    sample = chosen(sample=3, seed=7)
    assert len(sample) == 3
    assert chosen(sample=3, seed=7) == sample == [each for each in made if each in sample]
    assert sample in ([made[i] for i in range(5) if i not in out] for out in _pairs(5))


def _pairs(count: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(count) for b in range(a + 1, count)]


def test_jobs_are_listed_newest_first_and_lists_are_short(http: httpx.Client, easy: str) -> None:
    first = Job(http, scenarios_spec([easy], {"name": "nop"}), name="the first of all")
    second = Job(http, scenarios_spec([easy], {"name": "nop"}), name="the second of all")
    first.completed(), second.completed()
    page = good(http.get(JOBS, params={"limit": 2}))
    assert [each["id"] for each in page["jobs"]] == [second.id, first.id]
    assert page["has_more"] in (True, False)
    assert page["jobs"][0]["benchmark_outcomes"][0]["scenario_outcomes"] == []
    found = good(http.get(JOBS, params={"search": "first of"}))["jobs"]
    assert [each["id"] for each in found] == [first.id]
    assert good(http.get(JOBS, params={"status": "failed,running", "search": "first of"}))["jobs"] == []
    assert "unknown state" in refusal(http.get(JOBS, params={"status": "odd"}), 400)


def test_events_tell_everything_in_order_and_end(http: httpx.Client, easy: str) -> None:
    job = Job(http, scenarios_spec([easy], {"name": "oracle"}))

    def events(after: int) -> list[dict[str, Any]]:
        with http.stream("GET", f"{JOBS}/{job.id}/events", params={"after": after}) as answer:
            lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
        return [json.loads(line.removeprefix("data: ")) for line in lines]

    told = events(0)
    states = [each["trial"]["state"] if each["type"] == "trial" else each["state"] for each in told]
    assert states == [
        "queued",
        "running",
        "provisioning",
        "setting_up",
        "running",
        "scoring",
        "completed",
        "completed",
    ]
    assert [each["seq"] for each in told] == sorted(each["seq"] for each in told)
    assert events(told[3]["seq"]) == told[4:]


def test_the_same_request_makes_one_job(http: httpx.Client, easy: str) -> None:
    body = {"spec": scenarios_spec([easy], {"name": "nop"})}
    headers = {"x-request-id": uuid.uuid4().hex}
    first, second = (good(http.post(JOBS, json=body, headers=headers)) for _ in range(2))
    assert first["id"] == second["id"]
    other = {"spec": scenarios_spec([easy], {"name": "oracle"})}
    assert "another body" in refusal(http.post(JOBS, json=other, headers=headers), 400)


_AGENT = {"name": "nop"}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"type": "benchmark", "benchmark_id": "no such", "agent_configs": [_AGENT]}, "no benchmark"),
        ({"type": "scenarios", "scenario_ids": ["scn_none"], "agent_configs": [_AGENT]}, "no scenario"),
        ({"type": "benchmark", "benchmark_id": "quickstart", "agent_configs": []}, "agent_configs"),
        ({"type": "odd"}, "type"),
        (
            {"type": "benchmark", "benchmark_id": "quickstart", "agent_configs": [{"name": "nopp"}]},
            "no agent",
        ),
        (
            {
                "type": "benchmark",
                "benchmark_id": "quickstart",
                "agent_configs": [{"name": "command", "kwargs": {"rum": "x"}}],
            },
            "rum",
        ),
        (
            {
                "type": "benchmark",
                "benchmark_id": "quickstart",
                "agent_configs": [_AGENT],
                "selection": {"filters": {"level": "none"}},
            },
            "no scenario fits",
        ),
        (
            {
                "type": "benchmark",
                "benchmark_id": "quickstart",
                "agent_configs": [_AGENT],
                "orchestrator_config": {"n_concurrent_trials": 0},
            },
            "n_concurrent_trials",
        ),
        (
            {
                "type": "benchmark",
                "benchmark_id": "quickstart",
                "agent_configs": [{**_AGENT, "agent_environment": {"secrets": {"A": "no-such-secret"}}}],
            },
            "no secret",
        ),
    ],
)
def test_invalid_job_is_refused_and_changes_nothing(
    http: httpx.Client, spec: dict[str, Any], told: str
) -> None:
    before = good(http.get(JOBS, params={"limit": 1}))["total_count"]
    assert told in refusal(http.post(JOBS, json={"spec": spec}), 400)
    assert good(http.get(JOBS, params={"limit": 1}))["total_count"] == before


def test_gates_hold_before_anything_begins(http: httpx.Client) -> None:
    made = scenario(http, required_environment_variables=["NEEDED"])
    spec = scenarios_spec([made["id"]], {"name": "nop"})
    assert "NEEDED" in refusal(http.post(JOBS, json={"spec": spec}), 400)
    given = {"environment_variables": {"NEEDED": "1"}}
    spec = scenarios_spec([made["id"]], {"name": "nop", "agent_environment": given})
    assert Job(http, spec).row()["score"] == 1.0
