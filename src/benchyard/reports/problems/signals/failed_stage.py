"""A stage of the trial failed."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts


class FailedStageSignal(ProblemSignal):
    """Finds trials that failed before they had a score."""

    summary = "the trial failed in one of its stages, so that it has no score of its own"
    helps = "`benchyard trial show TRIAL` has the stage and its logs; `benchyard job retry JOB` tries again"
    depends_on_outcome = True

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the stage, the party at fault and the message."""
        if facts.failure_kind is None or facts.failure_kind == "cancelled":
            return []
        last = facts.last_turn
        told = (
            f"{facts.stage or 'no stage'}, {facts.failure_kind}: {facts.failure or facts.failure_type or ''}"
        )
        return [SignalFinding(brief(told), [last.step] if last and facts.failure_kind == "agent" else [])]
