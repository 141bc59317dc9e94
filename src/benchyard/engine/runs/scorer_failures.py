"""Failures of scorers: whether the answer, the scorer itself or the machine is to blame."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from benchyard.engine.runs.scoring_room import GradingRoom
from benchyard.errors import (
    BenchyardError,
    DevboxError,
    ScorerFailed,
    StillWaiting,
    StoreError,
    UsageError,
    from_os,
)
from benchyard.models.runs import ContractResult, FailureCause, ScorerResult
from benchyard.models.scenarios import ScoringFunction
from benchyard.scorers.base import Verdict

TRIES = 2
"""Number of failures of a kind after which a scorer is not tried again."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScorerFailure:
    """Failed try of a scorer, without a score."""

    reason: str
    output: str = ""
    cause: FailureCause | None = None
    """None if the answer may be the cause, which is decided later."""
    facts: Mapping[str, str] = field(default_factory=dict)
    rewards: Mapping[str, float] = field(default_factory=dict)
    is_devbox: bool = False
    """True if the devbox failed, because of either the answer or the machine."""


@dataclass(frozen=True)
class ReferenceVerdict:
    """Results of a scenario's scorers with its reference, by their index in the contract."""

    failures: dict[int, str]
    """Reasons of the scorers that failed."""
    with_start: bool = False
    """True if the untouched start was graded, because no reference could be applied."""
    unknown: str | None = None
    """Reason why there is no verdict."""
    next_setup: str | None = None
    """Reason why the next step could not be prepared after it; None if it could, or was not reached."""

    @property
    def name(self) -> str:
        """Return the graded thing in words."""
        return "the start, untouched," if self.with_start else "the reference"


def failure_of(error: Exception, seconds: float) -> ScorerFailure:
    """Return the failure that an error means for a scorer's try with this time limit."""
    match error:
        case ScorerFailed():
            details = error.details
            known = {"facts": details.get("facts", {}), "rewards": details.get("rewards", {})}
            return ScorerFailure(error.message, str(details.get("output", "")), error.cause, **known)
        case TimeoutError():
            return ScorerFailure(f"the scorer was not done after {seconds:g} s")
        case OSError():
            return ScorerFailure(f"the scorer could not run: {from_os(error).message}", cause="machine")
        case StoreError():
            return ScorerFailure(f"the scorer could not run: {error.message}", cause="machine")
        case DevboxError() | UsageError() | StillWaiting():
            return ScorerFailure(f"the scorer could not run: {error.message}", is_devbox=True)
        case BenchyardError():
            return ScorerFailure(f"the scorer could not run: {error.message}", cause="machine")
    # Untrusted input may cause a scorer's bugs.
    return ScorerFailure(f"the scorer made a mistake: {type(error).__name__}")


async def try_scorer(
    grade: Callable[[], Awaitable[Verdict]], room: GradingRoom, seconds: float, label: str
) -> Verdict | ScorerFailure:
    """Return a scorer's verdict, with retries after failures; else its last failure."""
    seen: Counter[FailureCause | None] = Counter()
    while True:
        # The boundary of scorers.
        try:
            async with asyncio.timeout(seconds):
                return await grade()
        except (BenchyardError, OSError) as error:
            failure = failure_of(error, seconds)
        except Exception as error:  # noqa: BLE001
            # Scorers read untrusted input, and some are plug-ins: a broken one needs a verdict too.
            _log.exception("%s made a mistake", label)
            failure = failure_of(error, seconds)
        seen[failure.cause] += 1
        if failure.cause == "scorer" or seen[failure.cause] == TRIES:
            break
        _log.warning("%s failed and is tried again: %s", label, failure.reason)
    if failure.is_devbox and not await room.has_sound_machine():
        reason = f"{failure.reason}; nor did a devbox without the answer come up"
        return replace(failure, reason=reason, cause="machine")
    return failure


def failed_result(function: ScoringFunction, failure: ScorerFailure, duration_ms: int = 0) -> ScorerResult:
    """Return the result of a failed scorer; the cause may still have to be decided."""
    return ScorerResult(
        scoring_function_name=function.name,
        weight=function.weight,
        score=0.0,
        state="error",
        # Clients of the original show only the output.
        output=f"{failure.output.rstrip()}\n[benchyard] {failure.reason}\n".lstrip(),
        reason=failure.reason,
        duration_ms=duration_ms,
        facts=dict(failure.facts),
        rewards=dict(failure.rewards),
        cause=failure.cause,
    )


def is_undecided(result: ScorerResult) -> bool:
    """Tell whether a scorer failed for a reason not yet decided."""
    return result.state == "error" and result.cause is None


def judge_by_reference(result: ContractResult, verdict: ReferenceVerdict) -> ContractResult:
    """Return a result in which every failure has a cause, by the reference's results."""
    found = [
        _judge_one(each, index, verdict) if is_undecided(each) else each
        for index, each in enumerate(result.scoring_function_results)
    ]
    return result.model_copy(update={"scoring_function_results": found})


def _judge_one(result: ScorerResult, index: int, verdict: ReferenceVerdict) -> ScorerResult:
    if verdict.unknown is not None:
        reason = f"whether {verdict.name} makes it fail too could not be found out: {verdict.unknown}"
        return _with_reason(result, reason, {"cause": "machine"})
    if index in verdict.failures:
        failure = verdict.failures[index]
        how = "too, in the same way" if failure == result.reason else f"too ({failure})"
        reason = f"{verdict.name} makes it fail {how}, so the scorer is to blame"
        return _with_reason(result, reason, {"cause": "scorer"})
    reason = f"{verdict.name} does not make it fail, so the answer counts 0"
    return _with_reason(result, reason, {"cause": "answer", "state": "complete"})


def _with_reason(result: ScorerResult, why: str, changes: dict[str, str]) -> ScorerResult:
    texts = {"reason": f"{result.reason}; {why}", "output": f"{result.output}[benchyard] {why}\n"}
    return result.model_copy(update={**texts, **changes})
