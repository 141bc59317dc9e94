"""What scorers printed between two tries, made to take long: the loop does not feel it."""

import asyncio

import pytest

from benchyard.engine.runs.results import Outcome, outcome_after_round
from benchyard.models.runs import ContractResult, ScenarioRun, TamperReport
from benchyard.testing.loop_probe import loop_probe
from benchyard.workers.workers import Workers
from tests.engine.runs.test_results import Rounds, a_scenario

KIB_64 = 64 * 1024


@pytest.mark.parametrize(
    "output",
    [" " * KIB_64, "time: " * 11_000, "\x1b]" * 32_000, "(in 1.5 s" * 7_000, "1" * KIB_64, "---" * 21_000],
)
def test_no_output_is_felt_when_it_becomes_a_prompt(output: str) -> None:
    scenario = a_scenario(tries=2)
    run: ScenarioRun = Rounds(scenario).run
    told = [
        {"scoring_function_name": f"{at}", "score": 0.0, "state": "complete", "output": output}
        for at in range(8)
    ]
    result = ContractResult.model_validate({"score": 0.0, "scoring_function_results": told})

    async def live() -> str:
        async with Workers() as workers:
            assert await workers.call("json:load", b"[]") == []
            with loop_probe() as probe:
                outcome = await outcome_after_round(
                    scenario, run, Outcome(result, TamperReport()), workers.call
                )
            assert probe.slow == []
        assert outcome.next_round is not None
        return outcome.next_round.problem_statement

    assert "was graded" in asyncio.run(live())
