"""Different calls brought the same result."""

from collections import defaultdict
from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import ToolAction, TrialFacts

LEAST_REPEATS = 3
_LEAST_CHARACTERS = 40


class SameObservationSignal(ProblemSignal):
    """Finds a result that came back three times or more."""

    summary = "the agent was given the same result three times or more"
    helps = "an agent that keeps notes of what it tried; compare versions with `benchyard job compare`"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each repeated result; short ones, such as `ok`, say nothing."""
        if facts.actions is None:
            return None
        groups: dict[str, list[tuple[ToolAction, str]]] = defaultdict(list)
        for action, output in facts.outputs():
            if len(output.strip()) >= _LEAST_CHARACTERS and action.output_digest:
                groups[action.output_digest].append((action, output))
        return [
            SignalFinding(
                f"{len(group)} times: {brief(group[0][1], 150)}", [action.step for action, _ in group]
            )
            for group in groups.values()
            if len(group) >= LEAST_REPEATS
        ]
