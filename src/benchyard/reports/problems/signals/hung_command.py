"""A command of the agent did not end."""

import re
from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts

_HUNG = re.compile(
    r"\b(?:command|process|execution|tool call|it) (?:has |was )?(?:timed out|killed after)"
    r"|\btimed out after \d"
    r"|timeout (?:of [\w. ]{1,20})?exceeded|exceeded (?:the )?(?:time limit|timeout)|^Timeout\b",
    re.I | re.M,
)
_TIMED_OUT = 124
_EDGE = 600


class HungCommandSignal(ProblemSignal):
    """Finds commands that were ended by a time limit of the agent."""

    summary = "a command did not end, and was killed after its time"
    helps = "run servers in the background and slow tests in parts; a longer limit in the agent's settings"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each such command."""
        if facts.actions is None:
            return None
        return [
            SignalFinding(brief(action.command), [action.step])
            for action, output in facts.outputs()
            if action.command is not None
            and (
                action.exit_status == _TIMED_OUT
                or _HUNG.search(output[:_EDGE])
                or _HUNG.search(output[-_EDGE:])
            )
        ]
