"""A command waited for input that nobody gives."""

import re
from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts

_WAITS = re.compile(
    r"\((?:END|q to quit)\)\s*$|--More--|WARNING: terminal is not fully functional|^\(Pdb\) ?$"
    r"|\[[yY](?:es)?/[nN]o?\][?:]?\s*$|\(y(?:es)?/n(?:o)?\)[?:]?\s*$|[Pp]assword(?: for [^\n:]{1,60})?: ?$"
    r"|Username for '[^'\n]{1,100}|Do you want to continue\? \[Y/n\]|Press (?:any key|ENTER|RETURN)"
    r"|Are you sure you want to continue connecting",
    re.M,
)


class UnansweredPromptSignal(ProblemSignal):
    """Finds pagers, debuggers and prompts."""

    summary = "a command waited for input: a pager, a password or a question"
    helps = "`GIT_PAGER=cat PAGER=cat DEBIAN_FRONTEND=noninteractive` in the scenario's environment variables"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each command whose result ends in such a wait."""
        if facts.actions is None:
            return None
        return [
            SignalFinding(brief(action.command or action.tool), [action.step])
            for action, output in facts.outputs()
            if _WAITS.search(output.rstrip()[-300:])
        ]
