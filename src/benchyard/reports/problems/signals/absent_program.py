"""A program that the agent wanted is not there."""

import re
from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts

_MISSING = re.compile(
    r"\b([\w.+-]{1,60}): (?:command )?not found\b|command not found: ([\w.+-]{1,60})"
    r"|exec: \"([\w.+/-]{1,100})\": executable file not found"
    r"|No module named '?([\w.]{1,100})|Cannot find module '([^'\n]{1,100})'"
)


class AbsentProgramSignal(ProblemSignal):
    """Finds programs and modules that were not found."""

    summary = "a program or module that the agent called is not installed"
    helps = "install it in the scenario's image or blueprint; see docs/guides/images.md"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each missing program once, with the steps."""
        if facts.actions is None:
            return None
        steps: dict[str, list[int]] = {}
        for action, output in facts.outputs():
            for found in _MISSING.finditer(output):
                name = next(group for group in found.groups() if group is not None)
                steps.setdefault(name, []).append(action.step)
        return [SignalFinding(brief(name), places) for name, places in steps.items()]
