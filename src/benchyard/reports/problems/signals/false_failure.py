"""The agent said that it had failed, and passed."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.claims import claims_failure
from benchyard.reports.problems.facts import TrialFacts


class FalseFailureSignal(ProblemSignal):
    """Finds last messages that admit a failure in trials that passed."""

    summary = "the agent said that it had failed, and the trial passed"
    helps = "look whether the scorers ask for enough: `benchyard scenario validate SCENARIO`"
    depends_on_outcome = True

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the admission."""
        if facts.turns is None or facts.passed is None:
            return None
        last = facts.last_turn
        if last is None or not facts.passed or not claims_failure(last.message):
            return []
        return [SignalFinding(brief(last.message), [last.step])]
