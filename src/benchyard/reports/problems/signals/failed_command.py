"""Commands of the agent failed."""

from collections.abc import Iterable

from benchyard.reports.problems.base import Finding, Signal, brief
from benchyard.reports.problems.facts import TrialFacts


class FailedCommandSignal(Signal):
    """Finds tool calls that ended with an exit status other than 0, or as an error."""

    summary = "a command or tool of the agent failed"
    helps = "look at the first one: a missing file or tool belongs into the image; docs/guides/scenarios.md"

    def find(self, facts: TrialFacts) -> Iterable[Finding] | None:
        """Return each failed call."""
        if facts.actions is None:
            return None
        return [
            Finding(
                f"{f'exit status {action.exit_status}' if action.exit_status else 'error'}: "
                f"{brief(action.command or action.tool, 150)}",
                [action.step],
            )
            for action in facts.actions
            if action.is_error or action.exit_status
        ]
