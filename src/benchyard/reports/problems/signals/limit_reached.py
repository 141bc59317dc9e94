"""A limit of time or of money ended the agent."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding
from benchyard.reports.problems.facts import TrialFacts


class LimitReachedSignal(ProblemSignal):
    """Finds trials that their time limit or budget ended."""

    summary = "the agent was ended by its time limit or its budget"
    helps = "`--timeout-multiplier` or a larger `--trial-budget` of the job; see docs/guides/jobs.md"
    depends_on_outcome = True

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the limit, with the agent's last step."""
        limit = facts.ended_by or (
            facts.failure_kind if facts.failure_kind in ("timeout", "budget") else None
        )
        last = facts.last_turn
        return [SignalFinding(f"ended by {limit}", [last.step] if last else [])] if limit else []
