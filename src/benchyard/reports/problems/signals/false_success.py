"""The agent said that it was done, and failed."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.claims import claims_failure, claims_success
from benchyard.reports.problems.facts import TrialFacts


class FalseSuccessSignal(ProblemSignal):
    """Finds last messages that claim success in trials that did not pass."""

    summary = "the agent said that it was done, and the trial did not pass"
    helps = "compare what it checked with what the scorers check: `benchyard trial show TRIAL`"
    depends_on_outcome = True

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the claim."""
        if facts.turns is None or facts.passed is None:
            return None
        last = facts.last_turn
        if last is None or facts.passed or claims_failure(last.message) or not claims_success(last.message):
            return []
        return [SignalFinding(brief(last.message), [last.step])]
