"""Rounds: what a run scores after one of them, and what is to be done in the next."""

import marshal
from dataclasses import replace
from statistics import fmean

from benchyard.engine.runs.outcomes import Outcome
from benchyard.engine.runs.suspicions import with_suspicions
from benchyard.errors import BenchyardError
from benchyard.models.rounds import NextRound, RoundScore
from benchyard.models.runs import ContractResult, ScenarioRun
from benchyard.models.scenarios import Scenario, Step
from benchyard.workers.workers import Call

FULL = 1.0 - 1e-9
"""A weighted sum of full marks may miss 1 by what floats leave out."""
RETRY_PROMPT = """\
What you left was graded, and it is not right yet. The grader said:

{output}

Mend what is wrong, in the same place.
"""
"""What is said between two tries, where a scenario has no words of its own."""
_OUTPUT = "{output}"
_SAID = "benchyard.engine.runs.cleaning:said"


def first_round(scenario: Scenario) -> NextRound | None:
    """What a run begins with; None where there is but one round."""
    if scenario.n_rounds == 1:
        return None
    if scenario.steps:
        # The devbox is made ready for it before it is anybody's.
        return _step(scenario.steps, 1).model_copy(update={"is_prepared": True})
    return NextRound(number=1, problem_statement=scenario.input_context.problem_statement)


async def after_round(scenario: Scenario, run: ScenarioRun, outcome: Outcome, call: Call) -> Outcome:
    """What the scoring of a round led to, with the score of all rounds until then, and what comes next."""
    if scenario.n_rounds == 1:
        return outcome
    result = joined(scenario, run, outcome.result)
    if any(each.state == "error" for each in result.scoring_function_results):
        # The same round may be scored again.
        return replace(outcome, result=result, next_round=run.next_round)
    return replace(outcome, result=result, next_round=await _following(scenario, result, call))


def joined(scenario: Scenario, run: ScenarioRun, result: ContractResult) -> ContractResult:
    """The result of a round, with the score and the rewards of all rounds until then."""
    if scenario.n_rounds == 1:
        return result
    name = scenario.steps[run.round - 1].name if scenario.steps else None
    own = RoundScore(number=run.round, name=name, score=result.score, rewards=result.rewards)
    earlier = run.result.rounds if run.result else []
    rounds = [*(each for each in earlier if each.number < run.round), own]
    if scenario.steps and scenario.reward_strategy != "final":
        score, rewards = round(fmean(each.score for each in rounds), 9), _means(rounds)
    elif scenario.steps:
        score, rewards = own.score, own.rewards
    else:
        score, rewards = own.score, {**own.rewards, **_passes(rounds, scenario.n_rounds)}
    update = {"score": score, "rewards": rewards, "round": run.round, "rounds": rounds}
    result = result.model_copy(update=update)
    if scenario.steps and scenario.reward_strategy != "final" and run.result and run.result.round < run.round:
        # The score has a part of theirs in it.
        return with_suspicions(result, run.result.suspicions)
    return result


def _means(rounds: list[RoundScore]) -> dict[str, float]:
    """By name; a step that counted nothing under a name counts 0, one that was never begun is left out."""
    names = dict.fromkeys(name for each in rounds for name in each.rewards)
    return {name: fmean(each.rewards.get(name, 0.0) for each in rounds) for name in names}


def _passes(rounds: list[RoundScore], tries: int) -> dict[str, float]:
    """What it had reached after so many tries; tries that were not needed, or not made, changed nothing."""
    scores = [each.score for each in rounds]
    return {f"pass_{number}": scores[min(number, len(scores)) - 1] for number in range(1, tries + 1)}


async def _following(scenario: Scenario, result: ContractResult, call: Call) -> NextRound | None:
    own = result.rounds[-1]
    if own.number >= scenario.n_rounds:
        return None
    if scenario.steps:
        is_reached = _reaches(own, scenario.steps[own.number - 1].min_reward)
        return _step(scenario.steps, own.number + 1) if is_reached else None
    if own.score >= FULL:
        return None
    said = await _said(scenario, result, call)
    told = (scenario.retry_prompt or RETRY_PROMPT).replace(_OUTPUT, said)
    return NextRound(number=own.number + 1, problem_statement=told)


def _step(steps: list[Step], number: int) -> NextRound:
    step = steps[number - 1]
    return NextRound(
        number=number,
        name=step.name,
        problem_statement=step.problem_statement,
        is_prepared=step.preparation(None) is None,
    )


def _reaches(own: RoundScore, wanted: float | dict[str, float] | None) -> bool:
    if wanted is None:
        return True
    if isinstance(wanted, dict):
        return all(name in own.rewards and own.rewards[name] >= least for name, least in wanted.items())
    return own.score >= wanted


async def _said(scenario: Scenario, result: ContractResult, call: Call) -> str:
    """What the scorers said that were not content."""
    results = result.scoring_function_results
    wrong = [each for each in results if each.score < FULL] or results
    outputs = [(each.scoring_function_name, each.output) for each in wrong]
    content = marshal.dumps([scenario.working_directory or "", outputs])
    try:
        said: bytes = await call(_SAID, content)
    except BenchyardError as error:
        return f"[benchyard] what the graders printed cannot be told: {error}"
    return said.decode(errors="replace")
