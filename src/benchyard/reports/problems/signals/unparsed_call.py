"""A call of a tool could not be read."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, stopped_by
from benchyard.reports.problems.facts import TrialFacts

_WORDS = frozenset(
    {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "malformed_function_call", "tool_use_failed"}
)


class UnparsedCallSignal(ProblemSignal):
    """Finds answers whose tool call the provider could not read."""

    summary = "the model wrote a call of a tool that could not be read"
    helps = "another model; small ones often write broken calls"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each such answer."""
        return stopped_by(facts, _WORDS)
