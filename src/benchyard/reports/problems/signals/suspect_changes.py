"""Suspicions about the score."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts


class SuspectChangesSignal(ProblemSignal):
    """Finds trials whose tamper report or scorers make the score suspect."""

    summary = "the score may not be earned: something was changed that the scorers rest on"
    helps = "`benchyard trial show TRIAL` lists the files; see docs/guides/suspect-scores.md"
    depends_on_outcome = True

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each suspicion."""
        return [SignalFinding(brief(line)) for line in facts.suspicions]
