"""The agent gave up early."""

from collections.abc import Iterable
from statistics import median

from benchyard.reports.problems.base import ProblemSignal, SignalFinding
from benchyard.reports.problems.facts import TrialFacts

LEAST_PEERS = 4
_SHARE = 0.25


class EarlyEndSignal(ProblemSignal):
    """Finds trials with far fewer calls of tools than the same agent usually makes at the scenario."""

    summary = "the agent did less than a quarter of the work it usually does at this scenario"
    helps = "read its last message; `benchyard job retry JOB --only not-passed` tries again"
    needs_peers = True

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the numbers of calls, of this trial and in the middle."""
        if facts.peers is None:
            return None
        known = {each.trial_id: each.n_actions for each in facts.peers.of_agent(facts.agent)}
        counts = [count for count in known.values() if count is not None]
        own = known.get(facts.trial_id)
        if own is None or len(counts) < LEAST_PEERS:
            return None
        usual = median(counts)
        is_early = facts.ended_by is None and own < _SHARE * usual
        return [SignalFinding(f"{own} calls of tools; its median here is {usual:g}")] if is_early else []
