"""An installation of the agent failed."""

import re
from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.commands import installs
from benchyard.reports.problems.facts import TrialFacts

_FAILED = re.compile(
    r"^ERROR: |Could not find a version|Unable to locate package|npm ERR!|npm error|E: Failed to fetch"
    r"|Could not resolve"
    r"|Connection refused|Network is unreachable|error: failed to (?:get|fetch|download|compile)"
    r"|Permission denied"
    r"|externally-managed-environment|No matching distribution",
    re.M,
)


class FailedInstallSignal(ProblemSignal):
    """Finds installations of packages that failed."""

    summary = "an installation of packages failed"
    helps = (
        "install it in the scenario's image or blueprint, or allow the registry; see docs/guides/images.md"
    )

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each failed installation."""
        if facts.actions is None:
            return None
        return [
            SignalFinding(brief(action.command), [action.step])
            for action, output in facts.outputs()
            if action.command
            and installs(action.command)
            and (
                action.exit_status
                or action.is_error
                or (action.exit_status is None and _FAILED.search(output))
            )
        ]
