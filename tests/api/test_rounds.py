"""Scenarios with several rounds: tries and steps, in jobs and by hand."""

import io
import tarfile
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import good, refusal
from tests.api.jobs import Job, agent, scenarios_spec
from tests.api.scenarios import bash, command, function, scenario, scenario_body, start

IN_WORK: dict[str, Any] = {"environment_parameters": {"working_directory": "/home/user/work"}}
WRONG = "echo '/tmp/tmp12/x.py: it is '$(cat answer)' in 0.12s'"
RIGHT_IS_TWO = bash(f'{WRONG}; test "$(cat answer)" = 2 && echo 1 || echo 0')


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


def contract(scorer: dict[str, Any]) -> dict[str, Any]:
    return {"scoring_function_parameters": [function(scorer)]}


def step(name: str, scorer: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "problem_statement": f"Do {name}.",
        "scoring_contract": contract(scorer),
        **fields,
    }


def only_attempt(job: Job) -> dict[str, Any]:
    row = job.row()
    (attempt,) = row["attempts"]
    return {**attempt, "row": row}


def test_a_second_try_is_told_what_the_first_one_got_wrong(http: httpx.Client) -> None:
    run = (
        "echo $BENCHYARD_ROUND > answer; cp $BENCHYARD_PROMPT_FILE $BENCHYARD_LOGS/prompt; "
        "echo round $BENCHYARD_ROUND; date +%s%N > $BENCHYARD_LOGS/again"
    )
    made = scenario(http, function(RIGHT_IS_TWO), **IN_WORK, tries=2)
    found = only_attempt(Job(http, scenarios_spec([made["id"]], agent(run))))
    assert (found["state"], found["score"]) == ("COMPLETED", 1.0)
    assert found["rewards"] == {"pass_1": 0.0, "pass_2": 1.0}
    assert [(each["number"], each["score"], each["exit_status"]) for each in found["rounds"]] == [
        (1, 0.0, 0),
        (2, 1.0, 0),
    ]
    first, second = found["rounds"]
    assert first["start_time_ms"] <= first["end_time_ms"] <= second["start_time_ms"]
    view = good(http.get(f"/v1/scenarios/runs/{found['scenario_run_id']}"))
    assert [each["round"] for each in view["earlier_results"]] == [1]
    told = http.get(f"/v1/scenarios/runs/{view['id']}/traces/round-2__prompt").text
    assert told.startswith("Do it.\n\n")
    assert "x.py: it is 1\n" in told
    assert "/tmp" not in told


def test_tries_end_with_the_first_that_passes_and_with_the_last(http: httpx.Client) -> None:
    made = scenario(http, function(RIGHT_IS_TWO), **IN_WORK, tries=3, retry_prompt="Again: {output}")
    agents = agent("echo 2 > answer"), {"name": "nop"}
    job = Job(http, scenarios_spec([made["id"]], *agents))
    passed, failed = (each["scenario_outcomes"][0] for each in job.completed()["benchmark_outcomes"])
    assert (passed["score"], len(passed["attempts"][0]["rounds"])) == (1.0, 1)
    assert passed["attempts"][0]["rewards"] == {"pass_1": 1.0, "pass_2": 1.0, "pass_3": 1.0}
    assert (failed["score"], len(failed["attempts"][0]["rounds"])) == (0.0, 3)
    outcomes = job.completed()["benchmark_outcomes"]
    assert [each["rewards"]["pass_2"] for each in outcomes] == [1.0, 0.0]


def test_tries_share_the_time_of_the_agent(http: httpx.Client) -> None:
    made = scenario(http, function(RIGHT_IS_TWO), **IN_WORK, tries=5)
    config = agent("echo 1 > answer; sleep 2.5", timeout_seconds=3)
    found = only_attempt(Job(http, scenarios_spec([made["id"]], config)))
    assert (found["score"], len(found["rounds"])) == (0.0, 1), "with what is left nobody tries again"


def test_an_agent_that_fails_in_a_later_round_has_failed(http: httpx.Client) -> None:
    made = scenario(http, function(RIGHT_IS_TWO), **IN_WORK, tries=2)
    found = only_attempt(Job(http, scenarios_spec([made["id"]], agent("exit $((BENCHYARD_ROUND - 1))"))))
    assert (found["state"], found["failure_reason"]["stage"]) == ("FAILED", "agent-2")
    assert found["rounds"][0]["score"] == 0.0


@pytest.mark.parametrize(
    "leaves",
    [
        "sudo rm -rf /run/benchyard; sudo touch /run/benchyard",
        "sudo rm -rf /run/benchyard; sudo mkdir -p /run/benchyard/prompt.md/in-the-way",
        "mkdir /dev/shm/t; sudo rm -r /run/benchyard; sudo ln -s /dev/shm/t /run/benchyard;"
        " cat /dev/zero > /dev/shm/all; true",
        "sudo sed -i /^user:/d /etc/passwd",
        "sudo ln -sf /bin/false /bin/sh",
    ],
    ids=["file-in-the-way", "folder-in-the-way", "full-memory", "no-user", "no-shell"],
)
def test_a_devbox_in_which_no_next_try_can_begin_counts(http: httpx.Client, leaves: str) -> None:
    made = scenario(http, function(RIGHT_IS_TWO), **IN_WORK, tries=2)
    job = Job(http, scenarios_spec([made["id"]], agent(leaves)))
    (outcome,) = job.completed()["benchmark_outcomes"]
    assert (outcome["unscored"], outcome["mean_score"]) == (0, 0.0), job.trials()


@pytest.mark.parametrize("says", ["", "No space left on device"])
def test_a_devbox_in_which_no_next_step_can_begin_counts(http: httpx.Client, says: str) -> None:
    steps = [step("first", command("true")), step("second", command("true"), setup="touch ready")]
    made = scenario(http, **IN_WORK, steps=steps)
    broken = f"printf '#!/bin/sh\\necho \"{says}\" >&2; exit 1' > x; chmod 755 x; sudo cp x /usr/bin/touch"
    job = Job(http, scenarios_spec([made["id"]], agent(broken)))
    (outcome,) = job.completed()["benchmark_outcomes"]
    assert outcome["unscored"] == 0, job.trials()


def test_steps_follow_each_other_in_one_devbox(http: httpx.Client) -> None:
    steps = [
        step("first", command("test -e ready && grep -q 'Do first' log"), setup="touch ready"),
        step(
            "second",
            bash("grep -q 'Do second' log && test $(cat root) = 0 && echo 0.5"),
            setup="id -u > root",
            setup_as_root=True,
        ),
    ]
    made = scenario(http, **IN_WORK, steps=steps)
    found = only_attempt(Job(http, scenarios_spec([made["id"]], agent("cat >> log"))))
    assert (found["score"], [(each["name"], each["score"]) for each in found["rounds"]]) == (
        0.75,
        [("first", 1.0), ("second", 0.5)],
    )


@pytest.mark.parametrize(("strategy", "score"), [("mean", 0.5), ("final", 0.0)])
def test_a_step_that_is_not_good_enough_is_the_last(http: httpx.Client, strategy: str, score: float) -> None:
    steps = [
        step("one", command("true")),
        step("two", command("false"), min_reward=0.5),
        step("three", command("true")),
    ]
    made = scenario(http, **IN_WORK, steps=steps, reward_strategy=strategy)
    found = only_attempt(Job(http, scenarios_spec([made["id"]], {"name": "nop"})))
    assert (found["score"], [each["name"] for each in found["rounds"]]) == (score, ["one", "two"])


def test_each_step_has_its_own_time_and_its_own_reference(http: httpx.Client) -> None:
    steps = [
        step("slow", command("true"), agent_timeout_sec=1),
        step("quick", command("test -e done"), reference_output="touch done", agent_timeout_sec=60),
    ]
    made = scenario(http, **IN_WORK, steps=steps)
    run = 'test "$BENCHYARD_ROUND" = 1 && sleep 30; sleep 1.5; touch done'
    found = only_attempt(Job(http, scenarios_spec([made["id"]], agent(run))))
    assert (found["score"], [each.get("ended_by") for each in found["rounds"]]) == (1.0, ["timeout", None])
    steps[0] |= {"reference_output": "true"}
    made = scenario(http, **IN_WORK, steps=steps)
    found = only_attempt(Job(http, scenarios_spec([made["id"]], {"name": "oracle"})))
    assert (found["score"], len(found["rounds"])) == (1.0, 2)


@pytest.mark.parametrize("reference", [None, "touch flour"], ids=["start", "reference"])
def test_a_step_that_cannot_be_prepared_any_more_counts_and_says_why(
    http: httpx.Client, reference: str | None
) -> None:
    """What an agent did before is the reason, so it is no way out of the mean."""
    steps = [
        step("one", command("true"), **({"reference_output": reference} if reference else {})),
        step("two", command("true"), setup=f"test -e {'flour' if reference else 'x'} || {NO_FLOUR}"),
    ]
    environment = {"working_directory": "/home/user/work"}
    launch = {"launch_commands": ["cd; mkdir -p work; touch work/x"]}
    made = scenario(http, environment_parameters={**environment, "launch_parameters": launch}, steps=steps)
    found = only_attempt(Job(http, scenarios_spec([made["id"]], agent("rm -f x"))))
    assert (found["state"], found["failure_reason"]["kind"]) == ("FAILED", "agent"), found
    assert "no flour" in found["failure_reason"]["exception_message"]


@pytest.mark.parametrize("reference", [None, "true"], ids=["start", "reference"])
def test_a_step_that_can_never_be_prepared_is_the_scenarios_failure(
    http: httpx.Client, reference: str | None
) -> None:
    steps = [
        step("one", command("true"), **({"reference_output": reference} if reference else {})),
        step("two", command("true"), setup=NO_FLOUR),
    ]
    made = scenario(http, **IN_WORK, steps=steps)
    found = only_attempt(Job(http, scenarios_spec([made["id"]], {"name": "nop"})))
    assert (found["state"], found["failure_reason"]["kind"]) == ("FAILED", "scenario"), found
    assert "so the scenario is to blame" in found["failure_reason"]["exception_message"]


def test_live_rounds_keep_what_runs(http: httpx.Client) -> None:
    alive = bash('kill -0 "$(cat pid)" && echo 1 || echo 0')
    made = scenario(http, **IN_WORK, scoring_isolation="live", steps=[step("one", alive), step("two", alive)])
    run = 'test "$BENCHYARD_ROUND" = 2 || { setsid sleep 600 > /dev/null 2>&1 & echo $! > pid; }'
    found = only_attempt(Job(http, scenarios_spec([made["id"]], agent(run))))
    assert [each["score"] for each in found["rounds"]] == [1.0, 1.0]


NO_FLOUR = "{ echo no flour >&2; exit 3; }"


def packed(name: str, content: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def stored(http: httpx.Client, content: bytes) -> str:
    body = {"name": "files.tgz", "content_type": "tgz"}
    made = good(http.post("/v1/objects", json=body))
    assert httpx.put(made["upload_url"], content=content).status_code == 200
    good(http.post(f"/v1/objects/{made['id']}/complete"))
    return str(made["id"])


def test_by_hand_the_run_tells_which_step_is_next(http: httpx.Client) -> None:
    files = stored(http, packed("given/data", b"flour"))
    attached = {"attachments": {"pantry": files}}
    steps = [
        step("one", command("true")),
        step("two", command("grep -q flour given/data && test -e baked"), files="pantry"),
    ]
    steps[0] |= {"files": files}
    made = scenario(http, **IN_WORK, **attached, steps=steps)
    run = start(http, made["id"])
    first = run.view()["next_round"]
    assert (first["number"], first["name"], first["problem_statement"]) == (1, "one", "Do one.")
    run.devbox.run("rm work/given/data")
    second = run.scored()["next_round"]
    assert (second["number"], second["name"], second["is_prepared"]) == (2, "two", True)
    run.devbox.run("cat work/given/data && touch work/baked")
    view = run.scored()
    assert "next_round" not in view
    result = view["scoring_contract_result"]
    assert (result["score"], result["round"]) == (1.0, 2)
    assert [(each["number"], each["name"], each["score"]) for each in result["rounds"]] == [
        (1, "one", 1.0),
        (2, "two", 1.0),
    ]
    run.devbox.run("rm work/baked")
    again = run.scored()["scoring_contract_result"]
    assert (again["round"], again["score"]) == (2, 0.5)
    good(run.post("complete"))
    good(run.post("rescore"))
    assert run.reaches("completed")["scoring_contract_result"]["score"] == 0.5


def test_a_round_whose_scorer_fails_can_be_scored_again(http: httpx.Client) -> None:
    made = scenario(http, function(bash("test -e ok && echo 0 || echo nonsense")), **IN_WORK, tries=2)
    run = start(http, made["id"])
    view = run.scored()
    assert (view["scoring_contract_result"]["round"], view["next_round"]["number"]) == (1, 1)
    run.devbox.run("touch work/ok")
    view = run.scored()
    assert (view["scoring_contract_result"]["round"], view["next_round"]["number"]) == (1, 2)
    run.end()


def test_rounds_of_a_scenario_are_validated(http: httpx.Client) -> None:
    one = step("one", command("true"))
    wrong: list[dict[str, Any]] = [
        {"tries": 9},
        {"tries": 2, "steps": [one]},
        {"steps": [one, one]},
        {"steps": [{**one, "scoring_contract": contract({"type": "nonsense"})}]},
        {
            "steps": [one, {**one, "name": "two", "setup": "true"}],
            "scoring_isolation": "answer",
            "answer_paths": ["a"],
        },
        {"metadata": {"benchyard.tries": "many"}},
    ]
    for fields in wrong:
        assert refusal(http.post("/v1/scenarios", json=scenario_body(**fields)), 400), fields
    said = scenario(http, metadata={"benchyard.tries": "2", "benchyard.retry_prompt": "Once more."})
    assert (said["tries"], said["retry_prompt"]) == (2, "Once more.")
    changed = good(http.post(f"/v1/scenarios/{said['id']}", json={"steps": [one], "tries": 1}))
    assert changed["steps"][0]["name"] == "one"
    assert good(http.post(f"/v1/scenarios/{said['id']}", json={"steps": []}))["steps"] == []
