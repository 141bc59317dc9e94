"""An edit of the agent was not applied."""

import re
from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts

_UNAPPLIED = re.compile(
    r"no (?:match|replacement)(?:es)? (?:was |were )?(?:found|performed|made)|did not appear verbatim"
    r"|string (?:to replace )?(?:was )?not found|could not find (?:the )?(?:string|match|old_string)"
    r"|failed to find (?:expected lines|context)|failed to apply|patch does not apply|hunk #?\d{0,5} ?failed"
    r"|multiple (?:occurrences|matches)|is not unique|has not been read yet|0 occurrences found"
    r"|invalid (?:patch|context|hunk)|patch failed",
    re.I,
)


class UnappliedEditSignal(ProblemSignal):
    """Finds edits and patches that were refused."""

    summary = "an edit of a file was not applied"
    helps = (
        "an edit tool that suits the model, in the agent's settings; look at the step for the text it missed"
    )

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each refused edit with its file."""
        if facts.actions is None:
            return None
        return [
            SignalFinding(brief(f"{', '.join(action.paths) or action.tool}: {output}"), [action.step])
            for action, output in facts.outputs()
            if (action.is_edit or _is_patch(action.command)) and _UNAPPLIED.search(output)
        ]


def _is_patch(command: str | None) -> bool:
    return command is not None and ("patch" in command or "git apply" in command)
