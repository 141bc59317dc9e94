"""The agent changed tests, or files that decide how tests are run."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.commands import is_protected_file, is_test_file
from benchyard.reports.problems.facts import TrialFacts


class TestChangesSignal(ProblemSignal):
    """Finds writes to tests, their settings and the repository's history."""

    summary = "the agent changed tests or files that decide how they are run"
    helps = "a stricter isolation keeps its tests out of the scoring; see docs/guides/trusting-scores.md"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each such file with the steps that wrote it."""
        if facts.actions is None:
            return None
        steps: dict[str, list[int]] = {}
        for action in facts.actions:
            for path in action.paths:
                if is_test_file(path) or is_protected_file(path):
                    steps.setdefault(path, []).append(action.step)
        return [SignalFinding(brief(path), places) for path, places in steps.items()]
