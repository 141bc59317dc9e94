"""Agents that are better elsewhere are worse at the scenario."""

from collections.abc import Iterable
from itertools import combinations
from statistics import fmean

from benchyard.reports.problems.base import ProblemSignal, SignalFinding
from benchyard.reports.problems.facts import TrialFacts

LEAST_AGENTS = 4


class ReversedScenarioSignal(ProblemSignal):
    """Finds scenarios whose order of the agents is opposite to that of all others (Kendall's tau below 0)."""

    summary = "agents that are better elsewhere are worse at this scenario"
    helps = "its scorers may be wrong: read passed and failed trials with `benchyard trial show`"
    subject = "scenario"
    needs_peers = True
    depends_on_outcome = True

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return Kendall's tau between the agents' scores here and elsewhere, if it is below 0."""
        if facts.peers is None:
            return None
        rows = []
        for agent, elsewhere in facts.peers.agent_means.items():
            scores = [each.score for each in facts.peers.of_agent(agent) if each.score is not None]
            if scores:
                rows.append((fmean(scores), elsewhere))
        if len(rows) < LEAST_AGENTS:
            return None
        signs = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in combinations(rows, 2)]
        ordered = sum(sign > 0 for sign in signs) - sum(sign < 0 for sign in signs)
        told = f"tau {ordered / len(signs):+.2f} over {len(rows)} agents"
        return [SignalFinding(told)] if ordered < 0 else []
