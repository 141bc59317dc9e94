"""No trial at the scenario passed."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding
from benchyard.reports.problems.facts import TrialFacts

LEAST_ATTEMPTS = 3


class UnsolvedScenarioSignal(ProblemSignal):
    """Finds scenarios that no trial passed."""

    summary = "no attempt at the scenario passed"
    helps = "the oracle shows whether it can be solved: `benchyard job run --agent oracle`"
    subject = "scenario"
    needs_peers = True
    depends_on_outcome = True

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the number of attempts, if there are enough to tell."""
        if facts.peers is None:
            return None
        passed = [each.passed for each in facts.peers.trials if each.passed is not None]
        if len(passed) < LEAST_ATTEMPTS:
            return None
        return [SignalFinding(f"none of {len(passed)} attempts passed")] if not any(passed) else []
