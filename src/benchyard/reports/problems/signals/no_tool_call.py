"""The agent called no tool."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts


class NoToolCallSignal(ProblemSignal):
    """Finds trajectories without any call of a tool."""

    summary = "the agent called no tool at all"
    helps = "check that the model supports tools: `benchyard trial show TRIAL` has its answers"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the steps of the agent, if none has a call."""
        if not facts.turns:
            return None
        if facts.actions:
            return []
        last = facts.turns[-1]
        return [SignalFinding(brief(last.message) or "no words either", [last.step])]
