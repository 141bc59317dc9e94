"""The agent left nothing behind."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding
from benchyard.reports.problems.facts import TrialFacts


class NoChangeSignal(ProblemSignal):
    """Finds trials whose devbox has no changed file."""

    summary = "the agent changed no file"
    helps = (
        "read its last message with `benchyard trial steps TRIAL`; the task may ask for an answer elsewhere"
    )

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return that nothing was changed, with the last step."""
        if facts.n_changed is None:
            return None
        last = facts.last_turn
        return [] if facts.n_changed else [SignalFinding("no file was changed", [last.step] if last else [])]
