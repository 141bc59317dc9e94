"""Every trial at the scenario passed."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding
from benchyard.reports.problems.facts import TrialFacts

LEAST_ATTEMPTS = 3


class SolvedScenarioSignal(ProblemSignal):
    """Finds scenarios that every trial passed."""

    summary = "every attempt at the scenario passed, so it tells agents apart no longer"
    helps = "leave it out of comparisons: `--exclude`, or raise its difficulty"
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
        return [SignalFinding(f"all {len(passed)} attempts passed")] if all(passed) else []
