"""The model's context was full."""

import re
from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts

_FULL = re.compile(
    r"context_length_exceeded|maximum context length|context (?:window|length)[^\n]{0,40}(?:exceed|full"
    r"|too long)"
    r"|prompt is too long|input is too long|input token count[^\n]{0,60}exceeds|exceed(?:s|ed)? the context",
    re.I,
)


class FullContextSignal(ProblemSignal):
    """Finds calls that a provider refused because the context was too long."""

    summary = "the conversation did not fit into the model's context any more"
    helps = "an agent that compacts its context, or a larger window; see docs/guides/models-and-keys.md"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each refused call; such an error becomes no step, so the last step before it is named."""
        if facts.calls is None:
            return None
        return [
            SignalFinding(brief(call.error), facts.steps_before(call))
            for call in facts.calls
            if call.error is not None and _FULL.search(call.error)
        ]
