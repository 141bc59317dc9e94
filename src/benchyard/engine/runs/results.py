"""Results of runs: changes to a run's record after a scoring, over all rounds, and the next round."""

import asyncio
import marshal
from dataclasses import dataclass, replace
from statistics import fmean

from benchyard.engine.clock import now_ms
from benchyard.engine.redaction import Scrubber
from benchyard.engine.runs.final_states import FinalStateFate
from benchyard.engine.runs.suspicions import with_suspicions
from benchyard.engine.runs.tamper import TamperFindings
from benchyard.errors import BenchyardError
from benchyard.models.devboxes import Devbox, DevboxStatus
from benchyard.models.runs import (
    ENDED_RUNS,
    ContractResult,
    FinalState,
    RunState,
    ScenarioRun,
    ScorerResult,
    TamperReport,
)
from benchyard.models.scenarios import NextRound, RoundScore, Scenario, SetupCause, Step
from benchyard.workers.workers import WorkerCall

_S = RunState


@dataclass(frozen=True)
class Outcome:
    """Outcome of a scoring."""

    result: ContractResult
    tamper: TamperReport
    final: FinalState | None = None
    gone: str | None = None
    """Reason why there is no final state."""
    next_round: NextRound | None = None


async def report_outcome(
    result: ContractResult, findings: TamperFindings, final: FinalStateFate, scrubber: Scrubber
) -> Outcome:
    """Return the outcome of a scoring, without secrets; the loop does not wait for megabytes of names."""

    def reported() -> Outcome:
        return _scrub(Outcome(result, findings.report(), final.state, final.gone), scrubber)

    return await asyncio.to_thread(reported)


def _scrub(outcome: Outcome, scrubber: Scrubber) -> Outcome:
    """Return an outcome without secrets, which outputs of scorers and names of files may contain."""
    result, tamper, text = outcome.result, outcome.tamper, scrubber.text
    scrubbed = [
        function_result.model_copy(
            update={
                "output": text(function_result.output),
                "reason": function_result.reason and text(function_result.reason),
                "suspect": function_result.suspect and text(function_result.suspect),
                "facts": {name: text(fact) for name, fact in function_result.facts.items()},
            }
        )
        for function_result in result.scoring_function_results
    ]
    found: dict[str, object] = {}
    for name in ("changed_outside", "special_inside"):
        files = getattr(tamper, name)
        found[name] = files and [file.model_copy(update={"path": text(file.path)}) for file in files]
    for name in (
        "opened_by_scorers",
        "unwatched_outside",
        "changed_while_scored",
        "refused",
        "unknown",
        "notes",
    ):
        lines = getattr(tamper, name)
        found[name] = lines and [text(line) for line in lines]
    left = tamper.processes
    found["processes"] = left and [
        each.model_copy(update={"command": text(each.command), "user": text(each.user)}) for each in left
    ]
    return replace(
        outcome,
        result=result.model_copy(
            update={
                "scoring_function_results": scrubbed,
                "suspicions": [text(suspicion) for suspicion in result.suspicions],
            }
        ),
        tamper=tamper.model_copy(update=found),
    )


def ended_run(run: ScenarioRun, state: RunState, reason: str | None = None) -> ScenarioRun:
    """Return a run that has ended."""
    return run.model_copy(update={"state": state, "end_time_ms": now_ms(), "failure_reason": reason})


def run_after_devbox(devbox: Devbox, run: ScenarioRun) -> ScenarioRun:
    """Return a run whose devbox has ended: a scored run is completed; else the devbox's end decides."""
    if run.state in ENDED_RUNS or run.state is _S.SCORING:
        return run
    if run.state is _S.SCORED:
        return ended_run(run, _S.COMPLETED)
    if devbox.status is DevboxStatus.FAILURE:
        detail = devbox.state_transitions[-1].detail or devbox.failure_reason
        return ended_run(run, _S.FAILED, f"its devbox failed: {detail}")
    if devbox.shutdown_reason == "api_shutdown":
        return ended_run(run, _S.CANCELED, "its devbox was shut down")
    return ended_run(run, _S.TIMEOUT, f"its devbox ended before it was scored: {devbox.shutdown_reason}")


def scored_run(scoring: int, outcome: Outcome, run: ScenarioRun) -> ScenarioRun:
    """Return a run with a new result; a canceled run, or one in a newer scoring, stays as it is."""
    if run.state is not _S.SCORING or run.scorings != scoring:
        return run
    earlier = [*run.earlier_results, run.result] if run.result else run.earlier_results
    is_ready = outcome.next_round is None or outcome.next_round.is_prepared
    return run.model_copy(
        update={
            # Stored before the devbox is prepared for the next round, which changes the scored disk.
            "state": _S.SCORED if is_ready else _S.SCORING,
            "next_round": outcome.next_round,
            "result": outcome.result,
            "earlier_results": earlier,
            "tamper": outcome.tamper,
            "final_state": outcome.final,
            "final_state_gone": outcome.gone,
        }
    )


def prepared_run(
    scoring: int, failure: str | None, cause: SetupCause | None, run: ScenarioRun
) -> ScenarioRun:
    """Return a scored run whose devbox is ready for the next round, or has failed to be."""
    if run.state is not _S.SCORING or run.scorings != scoring or run.next_round is None:
        return run
    ready = run.next_round.model_copy(
        update={"is_prepared": True, "failure": failure, "failure_cause": cause}
    )
    return run.model_copy(update={"state": _S.SCORED, "next_round": ready})


def rescored_run(scoring: int, found: Outcome | str, run: ScenarioRun) -> ScenarioRun:
    """Return a run scored again from its final state, or with the reason why that failed."""
    if run.rescoring is None or run.scorings != scoring:
        return run
    if isinstance(found, str):
        return run.model_copy(update={"rescoring": None, "rescoring_failure": found})
    earlier = [*run.earlier_results, run.result] if run.result else run.earlier_results
    # The tamper report stays: it was made while the devbox existed.
    return run.model_copy(update={"rescoring": None, "result": found.result, "earlier_results": earlier})


def failed_outcome(run: ScenarioRun, scenario: Scenario, reason: str) -> Outcome:
    """Return an outcome without grading: each scorer has an error with this reason."""
    results = [
        ScorerResult(
            scoring_function_name=function.name,
            weight=function.weight,
            score=0.0,
            state="error",
            output=f"[benchyard] {reason}\n",
            reason=reason,
            cause="machine",
        )
        for function in scenario.scoring_contract.scoring_function_parameters
    ]
    result = ContractResult(
        score=0.0,
        scoring_function_results=results,
        scored_time_ms=now_ms(),
        isolation=scenario.isolation,
        isolation_reason=scenario.isolation_reason,
        scenario_revision=run.scenario_revision,
    )
    tamper = TamperReport(notes=[f"nothing could be looked at: {reason}"])
    return Outcome(result, tamper, gone=f"its last scoring failed: {reason}")


FULL = 1.0 - 1e-9
"""Least score that counts as full: a weighted sum of full marks may miss 1 by a rounding error."""
RETRY_PROMPT = """\
What you left was graded, and it is not right yet. The grader said:

{output}

Mend what is wrong, in the same place.
"""
"""Default prompt between two tries."""
_OUTPUT = "{output}"
_CLEAN_OUTPUTS = "benchyard.engine.runs.scorer_output:clean_outputs"


def first_round(scenario: Scenario) -> NextRound | None:
    """Return the first round of a run; None if the scenario has only one."""
    if scenario.n_rounds == 1:
        return None
    if scenario.steps:
        # The first step is prepared before the run begins.
        return _step(scenario.steps, 1).model_copy(update={"is_prepared": True})
    return NextRound(number=1, problem_statement=scenario.input_context.problem_statement)


async def outcome_after_round(
    scenario: Scenario, run: ScenarioRun, outcome: Outcome, call: WorkerCall
) -> Outcome:
    """Return the outcome of a round with the score of all rounds so far, and the next round."""
    if scenario.n_rounds == 1:
        return outcome
    result = join_rounds(scenario, run, outcome.result)
    if any(function_result.state == "error" for function_result in result.scoring_function_results):
        # The same round may be scored again.
        return replace(outcome, result=result, next_round=run.next_round)
    return replace(outcome, result=result, next_round=await _next_round(scenario, result, call))


def join_rounds(scenario: Scenario, run: ScenarioRun, result: ContractResult) -> ContractResult:
    """Return the result of a round, with the score and the rewards of all rounds so far."""
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
        # The score includes a part of theirs.
        return with_suspicions(result, run.result.suspicions)
    return result


def _means(rounds: list[RoundScore]) -> dict[str, float]:
    """Return the means by name; a step without a name counts 0 for it, steps never begun are left out."""
    names = dict.fromkeys(name for each in rounds for name in each.rewards)
    return {name: fmean(each.rewards.get(name, 0.0) for each in rounds) for name in names}


def _passes(rounds: list[RoundScore], tries: int) -> dict[str, float]:
    """Return the score after each number of tries; tries that were not made change nothing."""
    scores = [each.score for each in rounds]
    return {f"pass_{number}": scores[min(number, len(scores)) - 1] for number in range(1, tries + 1)}


async def _next_round(scenario: Scenario, result: ContractResult, call: WorkerCall) -> NextRound | None:
    own = result.rounds[-1]
    if own.number >= scenario.n_rounds:
        return None
    if scenario.steps:
        is_reached = _reaches(own, scenario.steps[own.number - 1].min_reward)
        return _step(scenario.steps, own.number + 1) if is_reached else None
    if own.score >= FULL:
        return None
    said = await _scorer_outputs(scenario, result, call)
    prompt = (scenario.retry_prompt or RETRY_PROMPT).replace(_OUTPUT, said)
    return NextRound(number=own.number + 1, problem_statement=prompt)


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


async def _scorer_outputs(scenario: Scenario, result: ContractResult, call: WorkerCall) -> str:
    """Return the outputs of the scorers that gave less than full marks."""
    results = result.scoring_function_results
    wrong = [each for each in results if each.score < FULL] or results
    outputs = [(each.scoring_function_name, each.output) for each in wrong]
    content = marshal.dumps([scenario.working_directory or "", outputs])
    try:
        said: bytes = await call(_CLEAN_OUTPUTS, content)
    except BenchyardError as error:
        return f"[benchyard] the output of the graders is not available: {error}"
    return said.decode(errors="replace")
