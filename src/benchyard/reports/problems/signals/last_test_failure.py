"""The last run of tests failed."""

import re
from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.commands import runs_tests
from benchyard.reports.problems.facts import ToolAction, TrialFacts

_FAILED = re.compile(
    r"\b[1-9]\d{0,6} (?:failed|failing|failures?|errors?)\b|\bFAILED\b|^FAIL\b|--- FAIL:|test result: FAILED"
    r"|\bBUILD FAIL(?:ED|URE)|Tests: {0,10}[1-9]\d{0,6} failed|(?:Failures|Errors): [1-9]|\bfailures=[1-9]",
    re.M,
)


class LastTestFailureSignal(ProblemSignal):
    """Finds trials whose last test run did not succeed."""

    summary = "the agent's last run of tests failed"
    helps = "more time or a larger budget; `benchyard trial steps TRIAL --step N` shows the failing tests"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the last run of tests, if it failed."""
        if facts.actions is None:
            return None
        runs = [action for action in facts.actions if action.command and runs_tests(action.command)]
        if not runs or not _failed(runs[-1]):
            return []
        return [SignalFinding(brief(runs[-1].command or ""), [runs[-1].step])]


def _failed(run: ToolAction) -> bool:
    if run.exit_status is not None:
        return run.exit_status != 0
    return run.is_error or bool(run.output and _FAILED.search(run.output))
