"""The model refused to answer."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, stopped_by
from benchyard.reports.problems.facts import TrialFacts

_WORDS = frozenset({"refusal", "content_filter", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "RECITATION"})


class ModelRefusalSignal(ProblemSignal):
    """Finds answers that the model or its provider refused."""

    summary = "the model or its provider refused to answer"
    helps = "another model, or a problem statement without what its filter takes for harmful"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each such answer."""
        return stopped_by(facts, _WORDS)
