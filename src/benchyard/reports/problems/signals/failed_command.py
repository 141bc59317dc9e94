"""Commands of the agent failed."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts


class FailedCommandSignal(ProblemSignal):
    """Finds tool calls that ended with an exit status other than 0, or as an error."""

    summary = "a command or tool of the agent failed"
    helps = "look at the first one: a missing file or tool belongs into the image; docs/guides/scenarios.md"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each failed call."""
        if facts.actions is None:
            return None
        return [
            SignalFinding(
                f"{f'exit status {action.exit_status}' if action.exit_status else 'error'}: "
                f"{brief(action.command or action.tool, 150)}",
                [action.step],
            )
            for action in facts.actions
            if action.is_error or action.exit_status
        ]
