"""The trial cost far more than others at the scenario."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding
from benchyard.reports.problems.facts import TrialFacts
from benchyard.reports.problems.outliers import is_outlier, middle


class CostOutlierSignal(ProblemSignal):
    """Finds trials whose cost is far above that of the agent's other trials at the scenario."""

    summary = "the trial cost far more than the others at this scenario"
    helps = "a `--trial-budget` of the job bounds it; see docs/guides/jobs.md"
    needs_peers = True

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the cost of this trial and in the middle."""
        if facts.peers is None or facts.cost_usd is None:
            return None
        known = [each.cost_usd for each in facts.peers.of_agent(facts.agent) if each.cost_usd is not None]
        verdict = is_outlier(facts.cost_usd, known)
        if not verdict:
            return None if verdict is None else []
        own, usual = f"${facts.cost_usd / 1:.4f}", f"${middle(known) / 1:.4f}"
        return [SignalFinding(f"{own}; the middle is {usual}")]
