"""The agent went back and forth between two calls."""

from collections.abc import Iterable, Sequence

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import ToolAction, TrialFacts

LEAST_LENGTH = 4


class CallAlternationSignal(ProblemSignal):
    """Finds two different calls in turns: A, B, A, B."""

    summary = "the agent went back and forth between the same two calls"
    helps = "a limit of steps in the agent's settings, or a `--trial-budget`; see docs/guides/jobs.md"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each stretch of alternating calls, as long as it goes."""
        actions = facts.actions
        if actions is None:
            return None
        found, begin = [], 0
        for place in range(1, len(actions) + 1):
            goes_on = place < len(actions) and actions[place].digest != actions[place - 1].digest
            if goes_on and (place - begin < 2 or actions[place].digest == actions[place - 2].digest):
                continue
            if place - begin >= LEAST_LENGTH:
                found.append(_finding(actions[begin:place]))
            begin = place - 1 if goes_on else place
        return found


def _finding(row: Sequence[ToolAction]) -> SignalFinding:
    names = " and ".join(brief(each.command or each.tool, 70) for each in row[:2])
    return SignalFinding(f"{len(row)} calls in turns: {names}", [action.step for action in row])
