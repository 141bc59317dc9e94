"""What a run scores after each of its rounds, and what comes next."""

import asyncio
from typing import Any

import pytest

from benchyard.engine.runs.results import Outcome, first_round, outcome_after_round
from benchyard.engine.runs.suspicions import with_suspicions
from benchyard.models.runs import ContractResult, ScenarioRun, TamperReport
from benchyard.models.scenarios import Scenario, of_round
from benchyard.workers.workers import call_once

FUNCTION = {"name": "it", "weight": 1.0, "scorer": {"type": "command_scorer", "command": "true"}}


def a_scenario(**fields: Any) -> Scenario:
    given = {
        "id": "scn_1",
        "create_time_ms": 0,
        "name": "a scenario",
        "input_context": {"problem_statement": "Do it."},
        "scoring_contract": {"scoring_function_parameters": [FUNCTION]},
        **fields,
    }
    return Scenario.model_validate(given)


def steps(*names: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, "problem_statement": f"Do {name}.", **fields} for name in names]


def rounded(scenario: Scenario, run: ScenarioRun, result: ContractResult) -> Outcome:
    """What the scoring of a round led to."""
    return asyncio.run(outcome_after_round(scenario, run, Outcome(result, TamperReport()), call_once))


class Rounds:
    """A run that is scored again and again."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.run = ScenarioRun(
            id="scr_1",
            create_time_ms=0,
            scenario_id="scn_1",
            devbox_id="dbx_1",
            next_round=first_round(scenario),
        )

    def scored(self, score: float, **changes: Any) -> ContractResult:
        number = self.run.next_round.number if self.run.next_round else self.run.round
        run = self.run.model_copy(update={"round": number})
        given = {"scoring_function_name": "it", "score": score, "state": "complete", "output": "no"}
        rewards = changes.pop("rewards", {})
        result = ContractResult.model_validate(
            {"score": score, "scoring_function_results": [{**given, **changes}], "rewards": rewards}
        )
        outcome = rounded(self.scenario, run, result)
        update = {"result": outcome.result, "next_round": outcome.next_round}
        self.run = run.model_copy(update=update)
        return outcome.result

    @property
    def next(self) -> int | None:
        return self.run.next_round.number if self.run.next_round else None


def test_result_of_a_single_round_is_unchanged() -> None:
    rounds = Rounds(a_scenario())
    result = rounds.scored(0.5, rewards={"speed": 3.0})
    assert (result.score, result.rewards, result.rounds, rounds.next) == (0.5, {"speed": 3.0}, [], None)


def test_tries_score_what_the_last_one_does() -> None:
    rounds = Rounds(a_scenario(tries=3, retry_prompt="It said {output}; {mend} it."))
    assert rounds.scored(0.25).rewards == {"pass_1": 0.25, "pass_2": 0.25, "pass_3": 0.25}
    assert rounds.run.next_round is not None
    assert rounds.run.next_round.problem_statement == "It said no; {mend} it."
    result = rounds.scored(1.0, rewards={"speed": 2.0})
    assert result.rewards == {"speed": 2.0, "pass_1": 0.25, "pass_2": 1.0, "pass_3": 1.0}
    assert (result.score, result.round, rounds.next) == (1.0, 2, None)


def test_several_scorers_are_distinguished_and_those_that_are_content_say_nothing() -> None:
    scenario = a_scenario(tries=2)
    run = Rounds(scenario).run
    told = [
        {"scoring_function_name": name, "score": score, "state": "complete", "output": f"by {name}"}
        for name, score in (("one", 0.0), ("two", 1.0), ("three", 0.5))
    ]
    result = ContractResult.model_validate({"score": 0.5, "scoring_function_results": told})
    following = rounded(scenario, run, result).next_round
    assert following is not None
    assert "## one\n\nby one\n\n## three\n\nby three" in following.problem_statement
    assert "two" not in following.problem_statement


@pytest.mark.parametrize(("strategy", "score"), [(None, 0.75), ("mean", 0.75), ("final", 0.5)])
def test_steps_come_to_their_mean_or_to_the_last(strategy: str | None, score: float) -> None:
    rounds = Rounds(a_scenario(steps=steps("one", "two"), reward_strategy=strategy))
    rounds.scored(1.0, rewards={"speed": 4.0})
    result = rounds.scored(0.5, rewards={"size": 2.0})
    wanted = {"size": 2.0} if strategy == "final" else {"speed": 2.0, "size": 1.0}
    assert (result.score, result.rewards, rounds.next) == (score, wanted, None)


@pytest.mark.parametrize(
    ("least", "follows"),
    [(None, True), (0.5, True), (0.6, False), ({"safe": 1}, True), ({"safe": 2}, False), ({"fun": 0}, False)],
)
def test_a_step_below_its_least_reward_ends_it(least: Any, follows: bool) -> None:
    rounds = Rounds(a_scenario(steps=steps("one", "two", min_reward=least)))
    result = rounds.scored(0.5, rewards={"safe": 1.0})
    assert (rounds.next == 2) is follows
    assert result.score == 0.5, "what was never begun is left out"


def test_a_round_whose_scorer_failed_is_still_to_be_scored() -> None:
    rounds = Rounds(a_scenario(steps=steps("one", "two")))
    rounds.scored(1.0)
    assert rounds.scored(0.0, state="error").round == 2
    assert rounds.next == 2
    assert rounds.scored(1.0).score == 1.0


def test_the_last_round_may_be_scored_again() -> None:
    rounds = Rounds(a_scenario(steps=steps("one", "two")))
    rounds.scored(1.0)
    rounds.scored(1.0)
    result = rounds.scored(0.0)
    assert (result.score, [each.score for each in result.rounds]) == (0.5, [1.0, 0.0])


def test_a_step_takes_from_its_scenario_what_it_does_not_say() -> None:
    own = {"scoring_function_parameters": [{**FUNCTION, "name": "other"}]}
    given = [*steps("one"), *steps("two", scoring_contract=own, reference_output="x", agent_timeout_sec=5)]
    scenario = a_scenario(steps=given, reference_output="all", agent_timeout_sec=9)
    first, second = of_round(scenario, 1), of_round(scenario, 2)
    assert (first.input_context.problem_statement, first.reference_output) == ("Do one.", None)
    assert (first.scoring_contract, first.agent_timeout_sec) == (scenario.scoring_contract, 9)
    assert (second.reference_output, second.agent_timeout_sec) == ("x", 5)
    assert second.scoring_contract.scoring_function_parameters[0].name == "other"


@pytest.mark.parametrize(("strategy", "told"), [("mean", ["forged", "late"]), ("final", ["late"])])
def test_a_mean_is_suspect_by_each_of_its_steps(strategy: str, told: list[str]) -> None:
    rounds = Rounds(a_scenario(steps=steps("one", "two", "three"), reward_strategy=strategy))
    for line in ("forged", "late"):
        result = with_suspicions(rounds.scored(1.0), [line])
        rounds.run = rounds.run.model_copy(update={"result": result})
    assert result.suspicions == told


def test_the_next_try_is_not_told_what_the_answer_printed() -> None:
    rounds = Rounds(a_scenario(tries=2))
    said = "E assert 1 == 2\n---- Captured stdout call ----\nthe hidden tests\n=== 1 failed ==="
    rounds.scored(0.0, output=said)
    assert rounds.run.next_round is not None
    told = rounds.run.next_round.problem_statement
    assert "hidden" not in told
    assert "E assert 1 == 2" in told
