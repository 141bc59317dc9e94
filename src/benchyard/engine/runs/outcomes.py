"""What becomes of a run's record: when its devbox ends, when it is scored, when it cannot be."""

from dataclasses import dataclass, replace

from benchyard.engine.journal import now_ms
from benchyard.engine.scrubbing import Scrubber
from benchyard.models.devboxes import Devbox, DevboxStatus
from benchyard.models.rounds import NextRound, SetupCause
from benchyard.models.runs import ENDED_RUNS, ContractResult, FinalState, RunState, ScenarioRun, ScorerResult
from benchyard.models.scenarios import Scenario
from benchyard.models.tampering import TamperReport

_S = RunState


@dataclass(frozen=True)
class Outcome:
    """What a scoring led to."""

    result: ContractResult
    tamper: TamperReport
    final: FinalState | None = None
    gone: str | None = None
    """Why there is no final state."""
    next_round: NextRound | None = None


def scrubbed(outcome: Outcome, scrubber: Scrubber) -> Outcome:
    """What a scoring led to without secrets: scorers may print them, and agents may call files after them."""
    result, tamper, text = outcome.result, outcome.tamper, scrubber.text
    told = [
        each.model_copy(
            update={
                "output": text(each.output),
                "reason": each.reason and text(each.reason),
                "suspect": each.suspect and text(each.suspect),
                "facts": {name: text(fact) for name, fact in each.facts.items()},
            }
        )
        for each in result.scoring_function_results
    ]
    found: dict[str, object] = {}
    for name in ("changed_outside", "special_inside"):
        files = getattr(tamper, name)
        found[name] = files and [each.model_copy(update={"path": text(each.path)}) for each in files]
    for name in (
        "opened_by_scorers",
        "unwatched_outside",
        "changed_while_scored",
        "refused",
        "unknown",
        "notes",
    ):
        lines = getattr(tamper, name)
        found[name] = lines and [text(each) for each in lines]
    left = tamper.processes
    found["processes"] = left and [
        each.model_copy(update={"command": text(each.command), "user": text(each.user)}) for each in left
    ]
    return replace(
        outcome,
        result=result.model_copy(
            update={
                "scoring_function_results": told,
                "suspicions": [text(each) for each in result.suspicions],
            }
        ),
        tamper=tamper.model_copy(update=found),
    )


def ended(run: ScenarioRun, state: RunState, reason: str | None = None) -> ScenarioRun:
    """A run that is over."""
    return run.model_copy(update={"state": state, "end_time_ms": now_ms(), "failure_reason": reason})


def after_devbox(devbox: Devbox, run: ScenarioRun) -> ScenarioRun:
    """A run whose devbox has ended: scored is completed; else it depends on why."""
    if run.state in ENDED_RUNS or run.state is _S.SCORING:
        return run
    if run.state is _S.SCORED:
        return ended(run, _S.COMPLETED)
    if devbox.status is DevboxStatus.FAILURE:
        detail = devbox.state_transitions[-1].detail or devbox.failure_reason
        return ended(run, _S.FAILED, f"its devbox failed: {detail}")
    if devbox.shutdown_reason == "api_shutdown":
        return ended(run, _S.CANCELED, "its devbox was shut down")
    return ended(run, _S.TIMEOUT, f"its devbox ended before it was scored: {devbox.shutdown_reason}")


def scored(scoring: int, outcome: Outcome, run: ScenarioRun) -> ScenarioRun:
    """A run with a new result; one that was canceled meanwhile, or is scored anew, stays as it is."""
    if run.state is not _S.SCORING or run.scorings != scoring:
        return run
    earlier = [*run.earlier_results, run.result] if run.result else run.earlier_results
    is_ready = outcome.next_round is None or outcome.next_round.is_prepared
    return run.model_copy(
        update={
            # Noted before the devbox is made ready for what comes next: that changes what was scored.
            "state": _S.SCORED if is_ready else _S.SCORING,
            "next_round": outcome.next_round,
            "result": outcome.result,
            "earlier_results": earlier,
            "tamper": outcome.tamper,
            "final_state": outcome.final,
            "final_state_gone": outcome.gone,
        }
    )


def prepared(scoring: int, failure: str | None, cause: SetupCause | None, run: ScenarioRun) -> ScenarioRun:
    """A run that was scored, and whose devbox is ready for the next round, or never will be."""
    if run.state is not _S.SCORING or run.scorings != scoring or run.next_round is None:
        return run
    ready = run.next_round.model_copy(
        update={"is_prepared": True, "failure": failure, "failure_cause": cause}
    )
    return run.model_copy(update={"state": _S.SCORED, "next_round": ready})


def rescored(scoring: int, found: Outcome | str, run: ScenarioRun) -> ScenarioRun:
    """A run that was scored again from its final state, or the reason why that could not be done."""
    if run.rescoring is None or run.scorings != scoring:
        return run
    if isinstance(found, str):
        return run.model_copy(update={"rescoring": None, "rescoring_failure": found})
    earlier = [*run.earlier_results, run.result] if run.result else run.earlier_results
    # What was done to the devbox is as it was told when it was there.
    return run.model_copy(update={"rescoring": None, "result": found.result, "earlier_results": earlier})


def failed(run: ScenarioRun, scenario: Scenario, reason: str) -> Outcome:
    """What is noted when nothing could be graded, which no scorer saw: each has an error with the reason."""
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
