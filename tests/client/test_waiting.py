"""Waits that never give up unless they are told to."""

from typing import Any

import pytest

from benchyard.errors import Conflict, StillWaiting
from tests.client.stub import Answer, error, in_turn, talking

NOT_YET = error(408, "still_waiting", "not yet")


def scenario_run(state: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": "scr_1",
        "devbox_id": "dbx_1",
        "scenario_id": "scn_1",
        "state": state,
        "metadata": {},
        "start_time_ms": 1,
        **fields,
    }


def benchmark_run(state: str) -> dict[str, Any]:
    return {"id": "bmr_1", "benchmark_id": "bmd_1", "state": state, "metadata": {}, "start_time_ms": 1}


def scored(state: str) -> Answer:
    return Answer(scenario_run(state, scoring_contract_result={"score": 1, "scoring_function_results": []}))


def test_a_score_is_waited_for_as_long_as_it_takes() -> None:
    with talking(in_turn(*[NOT_YET] * 12, scored("scored"))) as (client, server):
        assert client.scenarios.runs.await_scored("scr_1").state == "scored"
    assert len(server.asked) == 13
    assert {asked.path for asked in server.asked} == {"/v1/scenarios/runs/scr_1/wait_for_state"}
    assert "scoring" not in server.asked[0].json["states"]
    assert 0 < server.asked[0].json["timeout_seconds"] <= 25


def test_a_run_that_was_completed_meanwhile_has_its_score() -> None:
    with talking(in_turn(scored("completed"))) as (client, _server):
        assert client.scenarios.runs.await_scored("scr_1").state == "completed"


@pytest.mark.parametrize("state", ["completed", "canceled", "timeout", "failed"])
def test_a_run_that_ended_without_a_score_is_reported(state: str) -> None:
    answer = Answer(scenario_run(state, failure_reason="its devbox failed"))
    with (
        talking(in_turn(answer)) as (client, _server),
        pytest.raises(Conflict, match=f"scr_1 is {state} and has no score: its devbox failed"),
    ):
        client.scenarios.runs.await_scored("scr_1")


def test_ends_are_waited_for_as_long_as_they_take() -> None:
    completed = Answer(scenario_run("completed"))
    with talking(in_turn(*[NOT_YET] * 8, completed)) as (client, _server):
        assert client.scenarios.runs.complete("scr_1").state == "completed"
    with talking(in_turn(*[NOT_YET] * 8, Answer(benchmark_run("completed")))) as (client, _server):
        assert client.benchmark_runs.complete("bmr_1").state == "completed"
    with talking(in_turn(*[NOT_YET] * 8, Answer(benchmark_run("canceled")))) as (client, _server):
        assert client.benchmark_runs.cancel("bmr_1").state == "canceled"


def test_a_timeout_ends_a_wait() -> None:
    with talking(lambda asked: NOT_YET) as (client, _server):
        for wait in (
            client.scenarios.runs.await_scored,
            client.scenarios.runs.complete,
            client.benchmark_runs.complete,
            client.benchmark_runs.cancel,
        ):
            with pytest.raises(StillWaiting, match="not yet"):
                wait("an_id", timeout=0.2)
