"""The agent looked for the answer instead of working it out."""

import re
from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts

_LOOKS = re.compile(
    r"\bgit (?:-\S{1,40} )?(?:log|show|rev-list|reflog|branch|tag)\b[^\n;|&]{0,200}(?:--all\b"
    r"|--remotes\b|origin/)|\bgit reflog\b"
    r"|\bgit fetch\b|\bgit fsck --lost-found|\bgit stash list\b"
    r"|https?://(?:api\.)?github\.com/[\w./-]{1,200}(?:/(?:pull|pulls|commit|commits|issues|compare"
    r"|releases|archive))\b"
    r"|raw\.githubusercontent\.com/|\.patch\b(?= *['\"]?https?)"
    r"|(?:^|[ '\"=])/(?:tests|solution|oracle|verifier|scorer|grader|logs/verifier)/"
    r"|\b(?:reference_output|expected_output|solution\.(?:sh|patch)|gold(?:en)?[_.]patch|test[_.]patch)\b"
    r"|\bpip3? download\b[^\n;|&]{0,100}--no-deps",
    re.M,
)


class AnswerSearchSignal(ProblemSignal):
    """Finds commands that look at later history, upstream pages, or where scorers and solutions lie."""

    summary = "the agent looked where the answer may be: later commits, upstream pages, paths of scorers"
    helps = "cut the history and the network of the scenario; see docs/guides/trusting-scores.md"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each such command or call."""
        if facts.actions is None:
            return None
        return [
            SignalFinding(brief(action.command or f"{action.tool} {action.arguments}"), [action.step])
            for action in facts.actions
            if _LOOKS.search(action.command or action.arguments)
        ]
