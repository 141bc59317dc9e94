"""The model answered nothing."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding
from benchyard.reports.problems.facts import TrialFacts


class EmptyAnswerSignal(ProblemSignal):
    """Finds answers without words and without calls."""

    summary = "the model answered with neither words nor calls"
    helps = "another model, or a larger limit of output tokens: its reasoning may have used them all"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each empty answer."""
        if facts.turns is None:
            return None
        empty = [turn.step for turn in facts.turns if not turn.message.strip() and not turn.actions]
        return [SignalFinding("neither words nor calls", empty)] if empty else []
