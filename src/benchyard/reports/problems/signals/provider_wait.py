"""The agent waited for the provider of its model."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding
from benchyard.reports.problems.facts import TrialFacts

_SHARE = 0.1


class ProviderWaitSignal(ProblemSignal):
    """Finds trials that waited for a rate limit during a tenth of their time or more."""

    summary = "the agent waited for its provider's rate limit during a tenth of the trial or more"
    helps = "fewer trials at the same time: `job run --n-concurrent-trials N`, or a key with a higher limit"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the time waited, and its share."""
        if facts.calls is None or not facts.working_ms:
            return None
        waited = facts.rate_limited_ms or 0
        share = waited / facts.working_ms
        steps = facts.steps_of(call for call in facts.calls if call.waited_ms)
        return (
            [SignalFinding(f"waited {waited / 1000:.0f}s, {share:.0%} of the trial", steps)]
            if share >= _SHARE
            else []
        )
