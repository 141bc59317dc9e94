"""The agent's work became monotonous."""

import zlib
from collections.abc import Iterable, Sequence

from benchyard.reports.problems.base import ProblemSignal, SignalFinding
from benchyard.reports.problems.facts import AgentTurn, TrialFacts

LEAST_TURNS = 15
_SHARE = 0.4
_MOST_BYTES = 400_000


class NoveltyLossSignal(ProblemSignal):
    """Finds trials whose last third says much less that is new than the first."""

    summary = "the last third of the work has much less that is new than the first"
    helps = "a limit of steps or a smaller `--trial-budget`; look where it stops getting anywhere"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return where the last third begins, and how much less new it is by its compressed size."""
        if facts.turns is None:
            return None
        turns = [turn for turn in facts.turns if turn.is_main]
        if len(turns) < LEAST_TURNS:
            return []
        third = len(turns) // 3
        first, last = _novelty(turns[:third]), _novelty(turns[-third:])
        if not first or last is None or last / first >= _SHARE:
            return []
        return [SignalFinding(f"{last / first:.0%} of the first third", [turns[-third].step, turns[-1].step])]


def _novelty(turns: Sequence[AgentTurn]) -> float | None:
    """Return the compressed part of what was said and done."""
    words = (
        "\n".join([turn.message, *(f"{each.tool} {each.arguments}" for each in turn.actions)])
        for turn in turns
    )
    text = "\n".join(words).encode(errors="replace")[:_MOST_BYTES]
    return len(zlib.compress(text)) / len(text) if text.strip() else None
