"""The trial took far longer than others at the scenario."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding
from benchyard.reports.problems.facts import TrialFacts
from benchyard.reports.problems.outliers import is_outlier, middle


class TimeOutlierSignal(ProblemSignal):
    """Finds trials whose time is far above that of the agent's other trials at the scenario."""

    summary = "the trial took far longer than the others at this scenario"
    helps = "look at its stages with `benchyard trial show TRIAL`; a shorter time limit bounds it"
    needs_peers = True

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the time of this trial and in the middle."""
        if facts.peers is None or facts.working_ms is None:
            return None
        known = [each.working_ms for each in facts.peers.of_agent(facts.agent) if each.working_ms is not None]
        verdict = is_outlier(facts.working_ms, known)
        if not verdict:
            return None if verdict is None else []
        own, usual = f"{facts.working_ms / 1000:.0f}s", f"{middle(known) / 1000:.0f}s"
        return [SignalFinding(f"{own}; the middle is {usual}")]
