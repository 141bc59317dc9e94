"""An answer of the model was cut."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, stopped_by
from benchyard.reports.problems.facts import TrialFacts

_WORDS = frozenset({"length", "max_tokens", "max_output_tokens", "MAX_TOKENS"})


class CutAnswerSignal(ProblemSignal):
    """Finds answers that reached the limit of tokens."""

    summary = "an answer of the model was cut at its limit of tokens"
    helps = "a larger limit of output tokens in the agent's settings"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each such answer."""
        return stopped_by(facts, _WORDS)
