"""Trials: how each can end, and what that counts."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import eventually, good, refusal
from tests.api.jobs import Job, agent, scenarios_spec
from tests.api.scenarios import bash, command, function, scenario

IN_WORK: dict[str, Any] = {"environment_parameters": {"working_directory": "/home/user/work"}}
SCORED_BY_FILE = bash("cat answer 2>/dev/null || echo 0")


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


def made(http: httpx.Client, scorer: dict[str, Any] = SCORED_BY_FILE, **fields: Any) -> str:
    found: str = scenario(http, function(scorer), **{**IN_WORK, **fields})["id"]
    return found


def outcome(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = job.completed()["benchmark_outcomes"][0]
    return found


def test_an_agent_that_fails_counts_nothing_and_is_not_scored(http: httpx.Client) -> None:
    job = Job(http, scenarios_spec([made(http)], agent("echo 1 > answer; echo oh no >&2; exit 3")))
    row = job.row()
    reason = row["failure_reason"]
    assert (row["state"], row.get("score"), reason["kind"], reason["stage"]) == (
        "FAILED",
        None,
        "agent",
        "agent",
    )
    assert "exit status 3" in reason["exception_message"]
    assert "oh no" in reason["exception_message"]
    assert (outcome(job)["mean_score"], outcome(job)["unscored"]) == (0.0, 0)
    assert outcome(job).get("average_score") is None
    run = good(http.get(f"/v1/scenarios/runs/{row['scenario_run_id']}"))
    assert (run["state"], run["failure_reason"]) == ("failed", reason["exception_message"])


def test_an_agent_that_does_nothing_is_known_to_have_changed_nothing(http: httpx.Client) -> None:
    row = Job(http, scenarios_spec([made(http)], {"name": "nop"})).row()
    report = good(http.get(f"/v1/scenarios/runs/{row['scenario_run_id']}"))["tamper_report"]
    assert (report["unknown"], report["changed_inside_total"], report["changed_outside_total"]) == ([], 0, 0)


def test_time_that_is_over_kills_everything_and_what_is_left_is_scored(http: httpx.Client) -> None:
    late = "setsid sh -c 'while true; do sleep 0.2; date +%s.%N > /home/user/work/late; done' & "
    run = f"echo 0.5 > answer; {late} trap '' TERM; sleep 100"
    scorer = bash('sleep 1; a=$(cat late); sleep 1; test "$a" = "$(cat late)" && cat answer')
    job = Job(http, scenarios_spec([made(http, scorer)], agent(run, timeout_seconds=2)))
    row = job.row()
    assert (row["state"], row["score"], row["attempts"][0]["ended_by"]) == ("COMPLETED", 0.5, "timeout")
    assert outcome(job)["mean_score"] == 0.5


def test_the_least_limit_holds_times_the_multiplier(http: httpx.Client) -> None:
    id = made(http, agent_timeout_sec=4)
    # Two seconds, not four and not a hundred: the answer comes in between.
    config = agent("sleep 3; echo 1 > answer; sleep 30", timeout_seconds=100)
    row = Job(http, scenarios_spec([id], config, timeout_multiplier=0.5)).row()
    assert (row["score"], row["attempts"][0]["ended_by"]) == (0.0, "timeout")


def test_a_scorer_that_fails_leaves_its_trial_out(http: httpx.Client) -> None:
    job = Job(http, scenarios_spec([made(http, bash("echo nonsense"))], {"name": "nop"}))
    row = job.row()
    assert (row["state"], row["failure_reason"]["kind"]) == ("FAILED", "scorer")
    found = outcome(job)
    assert (found["unscored"], found.get("mean_score"), found["n_failed"]) == (1, None, 1)


def test_time_that_is_over_does_not_make_a_broken_scorer_the_agents(http: httpx.Client) -> None:
    config = agent("sleep 30", timeout_seconds=1)
    job = Job(http, scenarios_spec([made(http, bash("echo nonsense"))], config))
    row = job.row()
    assert (row["state"], row["failure_reason"]["kind"]) == ("FAILED", "scorer")
    assert (outcome(job)["unscored"], outcome(job).get("mean_score")) == (1, None)


def test_time_that_is_over_with_nothing_to_score_counts_0(http: httpx.Client) -> None:
    id = made(http, bash("cat answer"), reference_output="echo 1 > answer")
    job = Job(http, scenarios_spec([id], agent("sleep 30", timeout_seconds=1)))
    (attempt,) = job.row()["attempts"]
    assert (attempt["score"], attempt["ended_by"]) == (0.0, "timeout")
    assert "printed nothing" in attempt["answer_failure"]


def test_a_scenario_that_cannot_be_prepared_is_nobodys_failure(http: httpx.Client) -> None:
    launch = {"launch_parameters": {"launch_commands": ["echo not here >&2; false"]}}
    id = made(http, environment_parameters=launch)
    job = Job(http, scenarios_spec([id], {"name": "nop"}))
    row = job.row()
    assert row["failure_reason"]["kind"] == "scenario"
    assert "not here" in row["failure_reason"]["exception_message"]
    assert (outcome(job)["unscored"], len(job.trials())) == (1, 1)


def test_an_oracle_without_a_reference_says_so(http: httpx.Client) -> None:
    row = Job(http, scenarios_spec([made(http)], {"name": "oracle"})).row()
    assert row["failure_reason"]["kind"] == "scenario"
    assert "reference" in row["failure_reason"]["exception_message"]


def test_a_devbox_that_somebody_shut_down_cancels_its_trial(http: httpx.Client) -> None:
    job = Job(http, scenarios_spec([made(http)], agent("sleep 600")))
    (trial,) = job.running()
    good(http.post(f"/v1/devboxes/{trial['devbox_id']}/shutdown"))
    row = job.row()
    assert (row["state"], row["failure_reason"]["kind"], row["unscored"]) == ("CANCELED", "cancelled", 1)


def test_a_cancelled_job_stops_and_goes_on_when_resumed(http: httpx.Client) -> None:
    wait = 'test "$BENCHYARD_MODEL" = none; echo 1 > answer; sleep 600'
    ids = [made(http) for _ in range(4)]
    job = Job(http, scenarios_spec(ids, agent(wait, timeout_seconds=5), n_concurrent_trials=2))
    running = job.running(2)
    view = good(job.post("cancel"))
    assert view["state"] == "cancelled"
    for trial in running:
        eventually(lambda trial=trial: _status(http, trial) == "shutdown", "the end of a devbox")  # type: ignore[misc]
    rows = view["benchmark_outcomes"][0]["scenario_outcomes"]
    assert [each["state"] for each in rows] == ["CANCELED"] * 4
    assert good(job.post("cancel"))["state"] == "cancelled"
    assert good(job.post("resume"))["state"] in ("queued", "running")
    rows = job.completed()["benchmark_outcomes"][0]["scenario_outcomes"]
    assert [each["state"] for each in rows] == ["COMPLETED"] * 4
    assert [len(each["attempts"]) for each in rows] == [2, 2, 1, 1]
    assert "nothing to resume" in refusal(job.post("resume"), 409)


def _status(http: httpx.Client, trial: dict[str, Any]) -> str:
    found: str = good(http.get(f"/v1/devboxes/{trial['devbox_id']}"))["status"]
    return found


def test_retries_are_new_attempts_of_what_failed(http: httpx.Client) -> None:
    ids = [made(http), made(http, bash("echo nonsense"))]
    job = Job(http, scenarios_spec(ids, agent("exit 1")))
    job.completed()
    assert "unscored" in refusal(job.post("retry"), 409)
    assert good(job.post("retry", {"only": "failed"}))["state"] in ("queued", "running")
    view = job.completed()
    rows = view["benchmark_outcomes"][0]["scenario_outcomes"]
    assert [[each["is_superseded"] for each in row["attempts"]] for row in rows] == [[True, False]] * 2
    assert view["progress"][0]["retries"] == 2


def test_a_deadline_ends_the_whole_job(http: httpx.Client) -> None:
    ids = [made(http) for _ in range(3)]
    job = Job(http, scenarios_spec(ids, agent("sleep 600"), n_concurrent_trials=1, deadline_seconds=3))
    view = job.reaches("timeout")
    rows = view["benchmark_outcomes"][0]["scenario_outcomes"]
    assert [each["state"] for each in rows] == ["CANCELED"] * 3


def test_a_small_job_is_not_stuck_behind_a_large_one(http: httpx.Client) -> None:
    id = made(http, command("true"))
    large = Job(http, scenarios_spec([id], {"name": "nop"}, n_attempts=40, n_concurrent_trials=4))
    small = Job(http, scenarios_spec([id], {"name": "nop"}))
    small.completed()
    assert large.get()["state"] == "running"
    assert large.completed()["benchmark_outcomes"][0]["n_trials"] == 40


def test_a_job_is_scored_again_by_a_better_scorer(http: httpx.Client) -> None:
    good_one, live_one = made(http), made(http, scoring_isolation="live")
    job = Job(http, scenarios_spec([good_one, live_one], agent("echo 0.5 > answer")))
    before = job.completed()["benchmark_outcomes"][0]
    assert before["mean_score"] == 0.5
    better = {"scoring_function_parameters": [function(bash("grep -q 0.5 answer && echo 1"))]}
    good(http.post(f"/v1/scenarios/{good_one}", json={"scoring_contract": better}))
    asked = good(job.post("rescore"))
    assert (asked["state"], asked["rescoring_state"]) == ("completed", "running")
    eventually(lambda: job.get()["rescoring_state"] == "completed", "the end of the rescoring")
    view = job.get()
    trials = {each["scenario_id"]: each for each in job.trials()}
    assert view["rescoring"]["pruned"] == [trials[live_one]["id"]]
    assert view["benchmark_outcomes"][0]["mean_score"] == 0.75
    again = trials[good_one]
    assert (again["score"], again["scored_revision"], again["earlier_scores"]) == (
        1.0,
        2,
        [{"score": 0.5, "scenario_revision": 1}],
    )
    run = good(http.get(f"/v1/scenarios/runs/{again['scenario_run_id']}"))
    assert [each["score"] for each in run["earlier_results"]] == [0.5]
    assert run["scoring_contract_result"]["score"] == 1.0
    benchmark_run = view["benchmark_outcomes"][0]["benchmark_run_id"]
    assert good(http.get(f"/v1/benchmark_runs/{benchmark_run}"))["score"] == 0.75


def test_a_broken_scorer_is_mended_and_the_job_scored_again(http: httpx.Client) -> None:
    id = made(http, bash("echo nonsense"))
    job = Job(http, scenarios_spec([id], agent("echo 1 > answer")))
    assert job.row()["failure_reason"]["kind"] == "scorer"
    mended = {"scoring_function_parameters": [function(SCORED_BY_FILE)]}
    good(http.post(f"/v1/scenarios/{id}", json={"scoring_contract": mended}))
    good(job.post("rescore"))
    eventually(lambda: job.get()["rescoring_state"] == "completed", "the end of the rescoring")
    assert (job.row()["state"], job.row()["score"]) == ("COMPLETED", 1.0)
