"""The agent went in circles."""

from collections import Counter
from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding
from benchyard.reports.problems.facts import TrialFacts

LEAST_ACTIONS = 12
LEAST_SHARE = 0.3


class RepeatedSequenceSignal(ProblemSignal):
    """Finds trials in which many runs of three calls had been made before."""

    summary = "three calls in a row that had been made in the same order before are a third of the work"
    helps = "a limit of steps in the agent's settings; look at the steps for what it waits for"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the share of repeated runs of three calls, and where they are."""
        actions = facts.actions
        if actions is None:
            return None
        if len(actions) < LEAST_ACTIONS:
            return []
        triples = [tuple(each.digest for each in actions[at : at + 3]) for at in range(len(actions) - 2)]
        counts: Counter[tuple[str, ...]] = Counter()
        repeated = []
        for action, triple in zip(actions, triples, strict=False):
            counts[triple] += 1
            if counts[triple] > 1:
                repeated.append(action.step)
        share = len(repeated) / len(triples)
        return (
            [SignalFinding(f"{share:.0%} of {len(triples)} runs of three calls", repeated)]
            if share >= LEAST_SHARE
            else []
        )
