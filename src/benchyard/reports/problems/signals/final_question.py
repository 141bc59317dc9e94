"""The agent ended with a question or a refusal."""

import re
from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts

_ASKS = re.compile(
    r"\b(?:would you like|do you want|shall I|should I|could you|can you (?:provide|confirm|clarify)"
    r"|please (?:provide|confirm|clarify|let me know)|let me know (?:if|how|which|what))\b",
    re.I,
)
_REFUSES = re.compile(
    r"\bI(?: am|'m|\u2019m)? ?(?:sorry|afraid|unable to|not able to)|\bI (?:can ?not|can't|can\u2019t"
    r"|won't|will not) "
    r"(?:help|assist|do|complete|continue|comply|provide)",
    re.I,
)
_END = 300


class FinalQuestionSignal(ProblemSignal):
    """Finds a last message that asks somebody, or declines."""

    summary = "the agent ended with a question or a refusal, and nobody answers"
    helps = "an agent setting for unattended work, or a sentence in the problem statement that nobody answers"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the end of the last message, if it asks or declines."""
        if facts.turns is None:
            return None
        last = facts.last_turn
        if last is None or last.actions:
            return []
        end = last.message.strip()[-_END:]
        if not (end.endswith("?") or _ASKS.search(end) or _REFUSES.search(last.message[:_END])):
            return []
        return [SignalFinding(brief(end), [last.step])]
