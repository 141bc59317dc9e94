"""The provider of the model failed."""

from collections import defaultdict
from collections.abc import Iterable

from benchyard.gateway.records.call_summaries import CallSummary
from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts

_TOO_MANY = 429


class ProviderErrorSignal(ProblemSignal):
    """Finds calls that the provider refused for their number, failed or did not answer."""

    summary = "the model's provider failed or refused calls (429, 5xx, no answer)"
    helps = "fewer trials at the same time: `job run --n-concurrent-trials N`; then `benchyard job retry JOB`"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each status once, with the steps before the calls."""
        if facts.calls is None:
            return None
        groups: dict[int, list[CallSummary]] = defaultdict(list)
        for call in facts.calls:
            if call.status == _TOO_MANY or call.status >= 500 or call.status == 0:
                groups[call.status].append(call)
        return [
            SignalFinding(
                brief(f"{status or 'no answer'}, {len(calls)} calls: {calls[0].error or ''}"),
                [step for call in calls for step in facts.steps_before(call)],
            )
            for status, calls in groups.items()
        ]
