"""The agent repeated one call again and again."""

from collections.abc import Iterable
from itertools import groupby

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts

LEAST_REPEATS = 3


class RepeatedCallSignal(ProblemSignal):
    """Finds the same tool with the same arguments three times or more in a row."""

    summary = "the agent called the same tool with the same arguments three times or more in a row"
    helps = "a limit of steps in the agent's settings, or a `--trial-budget`; see docs/guides/jobs.md"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each row of equal calls."""
        if facts.actions is None:
            return None
        rows = (list(row) for _, row in groupby(facts.actions, key=lambda action: action.digest))
        return [
            SignalFinding(
                f"{len(row)} times: {brief(row[0].command or f'{row[0].tool} {row[0].arguments}', 150)}",
                [action.step for action in row],
            )
            for row in rows
            if len(row) >= LEAST_REPEATS
        ]
