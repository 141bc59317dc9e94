"""The agent changed tests and nothing else."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.commands import changes_unknown_files, is_test_file
from benchyard.reports.problems.facts import TrialFacts


class OnlyTestChangesSignal(ProblemSignal):
    """Finds trials in which every written file is a test."""

    summary = "the agent changed only tests"
    helps = "say in the problem statement what must change; see docs/guides/scenarios.md"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the tests, if all changes of the work are known and all are tests."""
        actions = facts.actions
        if actions is None or any(each.command and changes_unknown_files(each.command) for each in actions):
            return None
        written = [(path, action.step) for action in actions for path in action.paths]
        if not written or not all(is_test_file(path) for path, _ in written):
            return []
        names = list(dict.fromkeys(path for path, _ in written))
        if facts.n_changed is not None and facts.n_changed > len(names):
            # Something was changed in a way that the calls do not tell.
            return None
        return [SignalFinding(brief(", ".join(names)), [step for _, step in written])]
