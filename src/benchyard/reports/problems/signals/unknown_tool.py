"""The agent called a tool that does not exist."""

import re
from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts

_UNKNOWN = re.compile(
    r"\b(?:unknown|no such|invalid|unsupported|unrecognized) (?:tool|function)\b"
    r"|\b(?:tool|function) [^\n]{0,80}(?:not found|does not exist|is not available|is not registered)"
    r"|unsupported call: ",
    re.I,
)
_EDGE = 500


class UnknownToolSignal(ProblemSignal):
    """Finds calls of tools that the agent program does not have."""

    summary = "the model called a tool that the agent does not have"
    helps = "another model or an agent made for it; `benchyard job compare` shows whether that helps"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each such call."""
        if facts.actions is None:
            return None
        return [
            SignalFinding(brief(f"{action.tool}: {output}"), [action.step])
            for action, output in facts.outputs()
            if action.command is None and _UNKNOWN.search(output[:_EDGE])
        ]
