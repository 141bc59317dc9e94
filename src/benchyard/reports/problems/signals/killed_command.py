"""A command was killed, usually for its memory."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts

_KILLED = 137


class KilledCommandSignal(ProblemSignal):
    """Finds commands, and agents, with exit status 137."""

    summary = "a command or the agent was killed (exit status 137), usually because memory was short"
    helps = "more memory in the scenario's launch parameters; see docs/guides/devboxes.md"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each killed command, and the agent if it was killed."""
        if facts.actions is None and facts.exit_status is None:
            return None
        found = [
            SignalFinding(brief(action.command or action.tool), [action.step])
            for action in facts.actions or ()
            if action.exit_status == _KILLED
        ]
        if facts.exit_status == _KILLED and facts.ended_by is None:
            last = facts.last_turn
            found.append(SignalFinding("the agent itself", [last.step] if last else []))
        return found
