"""The agent did not run tests after its last change."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.commands import changes_unknown_files, runs_tests
from benchyard.reports.problems.facts import TrialFacts


class UntestedChangeSignal(ProblemSignal):
    """Finds work whose last change was followed by no run of tests."""

    summary = "the agent ran no tests after its last change"
    helps = "ask for it in the problem statement, and have the tests' programs in the image"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the last change, if no tests were run after it."""
        actions = facts.actions
        if actions is None:
            return None
        for action in reversed(actions):
            if action.command and runs_tests(action.command):
                return []
            if action.is_edit or action.paths or changes_unknown_files(action.command or ""):
                told = ", ".join(action.paths) or action.command or action.tool
                return [SignalFinding(brief(told), [action.step])]
        return []
