"""The disk was full."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts

_FULL = ("No space left on device", "ENOSPC", "Disk quota exceeded", "disk is full")


class FullDiskSignal(ProblemSignal):
    """Finds commands that ran out of disk."""

    summary = "the devbox's disk was full"
    helps = "a larger disk in the scenario's launch parameters; see docs/guides/devboxes.md"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each such command, and the trial's failure if it is that."""
        if facts.actions is None and facts.failure is None:
            return None
        found = [
            SignalFinding(brief(action.command or action.tool), [action.step])
            for action, output in facts.outputs()
            if any(words in output for words in _FULL)
        ]
        if facts.failure and any(words in facts.failure for words in (*_FULL, "out_of_disk")):
            found.append(SignalFinding(brief(facts.failure)))
        return found
