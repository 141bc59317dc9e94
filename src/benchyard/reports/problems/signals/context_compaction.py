"""The agent threw parts of its context away."""

from collections.abc import Iterable
from itertools import pairwise

from benchyard.reports.problems.base import ProblemSignal, SignalFinding
from benchyard.reports.problems.facts import TrialFacts

LEAST_TOKENS = 8_000
_SHARE = 0.5


class ContextCompactionSignal(ProblemSignal):
    """Finds prompts that are far shorter than the one before."""

    summary = "the agent compacted its context: the prompt shrank to less than half"
    helps = "a model with a larger window, or shorter outputs of tools; see docs/guides/models-and-keys.md"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each step whose prompt is far shorter than the one before it."""
        known = [turn for turn in facts.turns or () if turn.is_main and turn.prompt_tokens]
        if facts.turns is None or not known:
            return None
        return [
            SignalFinding(
                f"the prompt went from {before.prompt_tokens} to {after.prompt_tokens} tokens", [after.step]
            )
            for before, after in pairwise(known)
            if (before.prompt_tokens or 0) >= LEAST_TOKENS
            and (after.prompt_tokens or 0) < _SHARE * (before.prompt_tokens or 0)
        ]
