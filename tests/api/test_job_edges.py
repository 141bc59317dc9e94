"""Jobs at their edges: hostile requests, things that go while a job runs, verbs that meet each other."""

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import eventually, good, refusal
from tests.api.jobs import Job, agent, scenarios_spec
from tests.api.scenarios import bash, function, scenario

JOBS = "/v1/benchmark_jobs"
IN_WORK: dict[str, Any] = {"environment_parameters": {"working_directory": "/home/user/work"}}
SCORED_BY_FILE = "cat answer 2>/dev/null || echo 0"


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


def made(http: httpx.Client, script: str = SCORED_BY_FILE, **fields: Any) -> str:
    found: str = scenario(http, function(bash(script)), **{**IN_WORK, **fields})["id"]
    return found


@pytest.mark.parametrize(
    ("config", "metadata", "told"),
    [
        ({"model_name": "a\0b"}, None, "model_name"),
        ({"model_name": "a\x1b[31mb"}, None, "model_name"),
        ({"version": "1\n2"}, None, "version"),
        ({"agent_environment": {"environment_variables": {"A": "x\0y"}}}, None, "environment_variables"),
        ({}, {"key": "\ud800"}, "metadata"),
        ({}, {"key": "x" * 70_000}, "metadata"),
        ({}, {f"key {index}": 1 for index in range(257)}, "metadata"),
        ({}, ["no", "table"], "metadata"),
    ],
)
def test_hostile_requests_are_refused_by_name(
    http: httpx.Client, config: dict[str, Any], metadata: Any, told: str
) -> None:
    spec = scenarios_spec([made(http)], {"name": "nop", **config})
    # Written out here: a surrogate cannot be sent but by its escape.
    body = json.dumps({"spec": spec, "metadata": metadata})
    answer = http.post(JOBS, content=body, headers={"content-type": "application/json"})
    assert told in refusal(answer, 400)


def test_a_job_can_be_cancelled_at_any_moment_of_its_beginning(http: httpx.Client) -> None:
    id = made(http)
    for moment in range(60):
        job = Job(http, scenarios_spec([id], agent("sleep 60"), n_attempts=1 + moment % 2 * 20))
        _pass(moment * 0.0007)
        assert good(job.post("cancel"))["state"] == "cancelled", moment
        assert job.get()["state"] == "cancelled", moment


def _pass(seconds: float) -> None:
    """Let so little time pass that a sleep would be too long."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_an_agent_that_is_deleted_meanwhile_is_nobodys_failure(http: httpx.Client) -> None:
    body = {"name": f"own-{uuid.uuid4().hex[:8]}", "version": "1", "run_command": "sleep 2"}
    own = good(http.post("/v1/agents", json=body))
    ids = [made(http), made(http)]
    spec = scenarios_spec(ids, {"name": own["name"]}, n_concurrent_trials=1, max_retries=0)
    job = Job(http, spec)
    job.running()
    good(http.post(f"/v1/agents/{own['id']}/delete"))
    first, second = job.completed()["benchmark_outcomes"][0]["scenario_outcomes"]
    assert first["state"] == "COMPLETED"
    reason = second["failure_reason"]
    assert (reason["kind"], reason["exception_type"], second["unscored"]) == (
        "infrastructure",
        "AgentGone",
        1,
    )
    assert own["name"] in reason["exception_message"]


def test_a_secret_that_is_deleted_meanwhile_leaves_trials_out_and_the_rest_can_be_scored_again(
    http: httpx.Client,
) -> None:
    name = f"S{uuid.uuid4().hex}"
    good(http.post("/v1/secrets", json={"name": name, "value": "hidden"}))
    given = {"secrets": {"TOKEN": name}}
    config = agent("echo 1 > answer; sleep 2", agent_environment=given)
    job = Job(http, scenarios_spec([made(http), made(http)], config, n_concurrent_trials=1, max_retries=0))
    job.running()
    good(http.post(f"/v1/secrets/{name}/delete"))
    outcome = job.completed()["benchmark_outcomes"][0]
    first, second = outcome["scenario_outcomes"]
    assert (first["score"], outcome["mean_score"], outcome["unscored"]) == (1.0, 1.0, 1)
    reason = second["failure_reason"]
    assert (reason["kind"], reason["exception_type"]) == ("infrastructure", "SecretGone")
    assert "scenario_run_id" not in second
    good(job.post("rescore"))
    eventually(lambda: job.get().get("rescoring_state") == "completed", "the end of the rescoring")
    assert job.get()["rescoring"]["trial_ids"] == [first["attempts"][0]["trial_id"]]


def test_nothing_else_is_done_with_a_job_that_is_scored_again(http: httpx.Client) -> None:
    slow = Job(http, scenarios_spec([made(http, "sleep 2; echo nonsense")], {"name": "nop"}))
    slow.completed()
    good(slow.post("rescore"))
    for verb in ("retry", "rescore"):
        assert "being scored again" in refusal(slow.post(verb), 409)
    eventually(lambda: slow.get().get("rescoring_state") == "completed", "the end of the rescoring")
    good(slow.post("retry"))
    row = slow.row()
    assert [each["is_superseded"] for each in row["attempts"]] == [True, False]


def test_a_retry_of_what_failed_leaves_what_waits_alone(http: httpx.Client) -> None:
    ids = [made(http) for _ in range(3)]
    first = 'test "$(cat)" = "Fail." && exit 1; sleep 600'
    ids[0] = made(http, input_context={"problem_statement": "Fail."})
    job = Job(http, scenarios_spec(ids, agent(first), n_concurrent_trials=1))
    eventually(lambda: "failed" in job.get()["progress"][0]["by_state"], "the first to fail")
    job.running()
    good(job.post("cancel"))
    good(job.post("retry", {"only": "failed"}))
    rows = job.completed()["benchmark_outcomes"][0]["scenario_outcomes"]
    assert [each["state"] for each in rows] == ["FAILED", "CANCELED", "CANCELED"]
    assert [len(each["attempts"]) for each in rows] == [2, 1, 1]


def test_a_resumed_job_has_its_whole_time_once_more(http: httpx.Client) -> None:
    job = Job(http, scenarios_spec([made(http)], agent("sleep 600"), deadline_seconds=2))
    first = job.reaches("timeout")["deadline_ms"]
    assert good(job.post("resume"))["deadline_ms"] >= first + 2000
    assert job.reaches("timeout")["deadline_ms"] > first


def test_requests_that_come_late_and_twice_change_nothing(http: httpx.Client) -> None:
    job = Job(http, scenarios_spec([made(http)], agent("sleep 600")))
    job.running()

    def post(verb: str, id: str) -> str:
        found: str = good(job.post(verb, headers={"x-request-id": id}))["state"]
        return found

    assert post("cancel", "one") == "cancelled"
    assert post("resume", "two") == "queued"
    job.running()
    assert post("cancel", "one") == "running"
    assert post("cancel", "three") == "cancelled"
    assert post("resume", "two") == "cancelled"


def test_scorers_have_their_time_times_the_multiplier(http: httpx.Client) -> None:
    slow = made(http, "sleep 3; echo 1.0", scorer_timeout_sec=1)
    short = Job(http, scenarios_spec([slow], {"name": "nop"}))
    long = Job(http, scenarios_spec([slow], {"name": "nop"}, timeout_multiplier=20))
    assert short.row()["failure_reason"]["kind"] == "scorer"
    assert long.row()["score"] == 1.0


def test_jobs_and_trials_are_counted_for_whoever_watches(http: httpx.Client) -> None:
    def numbers() -> dict[str, float]:
        lines = (line for line in http.get("/metrics").text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    job = Job(http, scenarios_spec([made(http)], agent("sleep 600"), n_attempts=2, n_concurrent_trials=1))
    job.running()
    now = numbers()
    assert now['benchyard_jobs{state="running"}'] >= 1
    assert now['benchyard_trials{state="running"}'] >= 1
    assert now['benchyard_trials{state="queued"}'] >= 1
    cancelled = now['benchyard_jobs{state="cancelled"}']
    good(job.post("cancel"))
    assert numbers()['benchyard_jobs{state="cancelled"}'] == cancelled + 1


def test_the_longest_names_leave_room_for_the_agents(http: httpx.Client) -> None:
    name = "\U00020000" * 650
    spec = scenarios_spec([made(http)], {"name": "nop", "model_name": "m" * 100})
    job = Job(http, spec, name=name)
    assert job.completed()["name"] == name
    assert "2600 bytes" in refusal(http.post(JOBS, json={"spec": spec, "name": f"{name}x"}), 400)


def test_secrets_that_an_agent_tells_are_not_in_its_failure(
    http: httpx.Client, server: RunningServer
) -> None:
    name, value = f"S{uuid.uuid4().hex}", f"hidden-{uuid.uuid4().hex}"
    good(http.post("/v1/secrets", json={"name": name, "value": value}))
    config = agent("echo key $TOKEN is wrong >&2; exit 1", agent_environment={"secrets": {"TOKEN": name}})
    job = Job(http, scenarios_spec([made(http)], config))
    assert "is wrong" in job.row()["failure_reason"]["exception_message"]
    run = f"/v1/scenarios/runs/{job.row()['scenario_run_id']}"
    paths = (f"{JOBS}/{job.id}", f"{JOBS}/{job.id}/trials", f"{JOBS}/{job.id}/events", run)
    for path in paths:
        assert value not in http.get(path).text, path
    assert value not in server.log


def test_a_retry_that_was_cut_short_goes_on_with_the_next(http: httpx.Client) -> None:
    name = f"MODE_{uuid.uuid4().hex[:8]}"
    good(http.post("/v1/secrets", json={"name": name, "value": "fail"}))
    run = 'case "$MODE" in fail) exit 3;; hang) sleep 600;; esac; echo 1 > answer'
    config = agent(run, agent_environment={"secrets": {"MODE": name}})
    job = Job(http, scenarios_spec([made(http), made(http)], config, n_concurrent_trials=1))
    assert [each["state"] for each in _rows(job)] == ["FAILED", "FAILED"]
    good(http.post(f"/v1/secrets/{name}", json={"value": "hang"}))
    good(job.post("retry", {"only": "failed"}))
    (begun,) = job.running()
    good(job.post("cancel"))
    good(http.post(f"/v1/secrets/{name}", json={"value": "work"}))
    good(job.post("retry", {"only": "failed"}))
    rows = {each["scenario_definition_id"]: each for each in _rows(job)}
    cancelled = rows.pop(begun["scenario_id"])
    (other,) = rows.values()
    assert (cancelled["state"], other["state"], other["score"]) == ("CANCELED", "COMPLETED", 1.0)
    assert "nothing to retry" in refusal(job.post("retry", {"only": "failed"}), 409)


def test_the_benchmark_run_of_an_agent_that_was_cut_short_is_cancelled(http: httpx.Client) -> None:
    job = Job(http, scenarios_spec([made(http)], agent("true"), agent("sleep 600")))

    def states() -> list[str]:
        ids = [each["benchmark_run_id"] for each in job.get()["benchmark_outcomes"]]
        return [good(http.get(f"/v1/benchmark_runs/{id}"))["state"] for id in ids]

    eventually(lambda: bool(job.get("/trials", status="completed")["trials"]), "the end of the first agent")
    job.running()
    good(job.post("cancel"))
    eventually(lambda: states() == ["completed", "canceled"], "the end of both")


def _rows(job: Job) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = job.completed()["benchmark_outcomes"][0]["scenario_outcomes"]
    return rows
