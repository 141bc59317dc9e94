"""The agent called a tool with arguments that it does not take."""

import re
from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts

_INVALID = re.compile(
    r"\binvalid (?:arguments?|parameters?|input|params)\b|InputValidationError"
    r"|failed to parse (?:function )?arguments"
    r"|missing (?:a )?required (?:argument|parameter|property|field)|required parameter\b[^\n]{0,80}\bmissing"
    r"|params must have required property|arguments? (?:must be|is not) valid JSON|validation error for",
    re.I,
)
_EDGE = 500


class InvalidArgumentsSignal(ProblemSignal):
    """Finds calls of tools with missing or invalid arguments."""

    summary = "the model called a tool with arguments that it does not take"
    helps = "another model, or a simpler tool in the agent's settings"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each such call."""
        if facts.actions is None:
            return None
        return [
            SignalFinding(brief(f"{action.tool}: {output}"), [action.step])
            for action, output in facts.outputs()
            if (action.command is None or action.is_error) and _INVALID.search(output[:_EDGE])
        ]
