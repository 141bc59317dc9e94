"""Comparison of agents: their score in each scenario, and the scenarios on which they differ."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from benchyard.models.jobs import BenchmarkOutcome, ScenarioOutcome
from benchyard.models.trials import OutcomeState
from benchyard.reports.statistics.differences import Stratum, paired_difference, sign_test, strata_test
from benchyard.reports.statistics.multiple_tests import holm
from benchyard.reports.statistics.verdicts import difference_bounds

_VERSION = re.compile(r"(?<=.)@[^:#]*")


@dataclass(frozen=True)
class ScenarioComparison:
    """A scenario with the score of each agent; None where an agent has no result."""

    scenario_id: str
    scenario_name: str
    scores: tuple[float | None, ...]
    states: tuple[OutcomeState | None, ...]
    suspect: tuple[bool, ...] = ()
    """For each agent, True if its score may not be earned."""

    @property
    def differs(self) -> bool:
        """Tell whether the scenario separates the agents: at least two have scores, and these differ."""
        return len({score for score in self.scores if score is not None}) > 1

    @property
    def spread(self) -> float:
        """Return how far the best agent is from the worst."""
        known = [score for score in self.scores if score is not None]
        return max(known) - min(known) if known else 0.0


@dataclass(frozen=True)
class Suspect:
    """A scenario whose score may not be earned by an agent."""

    label: str
    """Label of the agent."""
    scenario_name: str
    why: str
    """Weightiest reason for the suspicion."""


def suspects(outcomes: Sequence[BenchmarkOutcome]) -> list[Suspect]:
    """Return all suspect scores, agent by agent; listed jobs have no scenarios, and thus none."""
    return [
        Suspect(label, row.scenario_name, why_suspect(row) or "")
        for label, outcome in zip(agent_labels(outcomes), outcomes, strict=True)
        for row in outcome.scenario_outcomes
        if row.n_suspect
    ]


def why_suspect(row: ScenarioOutcome) -> str | None:
    """Return the weightiest reason to suspect a row's score, with the number of attempts, or None."""
    if not row.n_suspect:
        return None
    counting = sum(not attempt.is_superseded for attempt in row.attempts)
    share = f" ({row.n_suspect} of {counting} attempts)" if counting > 1 else ""
    more = f" (and {len(row.suspicions) - 1} more)" if len(row.suspicions) > 1 else ""
    return f"{row.suspicions[0]}{more}{share}"


def agent_labels(outcomes: Sequence[BenchmarkOutcome]) -> list[str]:
    """Return a label `agent@version:model` for each agent; repeated labels get a number."""
    seen: Counter[str] = Counter()
    labels = []
    for outcome in outcomes:
        version = f"@{outcome.version}" if outcome.version else ""
        model = f":{outcome.model_name}" if outcome.model_name else ""
        label = f"{outcome.agent_name}{version}{model}"
        seen[label] += 1
        labels.append(label if seen[label] == 1 else f"{label}#{seen[label]}")
    return labels


def brief(names: Iterable[str]) -> dict[str, str]:
    """Return labels without their versions, for those that stay distinct, by the full label."""
    short_names = {name: _VERSION.sub("", name, count=1) for name in names}
    counts = Counter(short_names.values())
    return {name: short for name, short in short_names.items() if short != name and counts[short] == 1}


def counted_score(row: ScenarioOutcome) -> float | None:
    """Return the score that a row adds to a mean: 0 if only the agent failed (no score on the wire)."""
    if row.score is not None:
        return row.score
    counting = sum(not attempt.is_superseded for attempt in row.attempts)
    return 0.0 if row.unscored < counting else None


def compare_agents(outcomes: Sequence[BenchmarkOutcome]) -> list[ScenarioComparison]:
    """Return a row for each scenario that any agent has, in their order."""
    held = [{row.scenario_definition_id: row for row in outcome.scenario_outcomes} for outcome in outcomes]
    names = {id: row.scenario_name for rows in held for id, row in rows.items()}
    return [
        ScenarioComparison(
            scenario_id=id,
            scenario_name=name,
            scores=tuple(counted_score(rows[id]) if id in rows else None for rows in held),
            states=tuple(rows[id].state if id in rows else None for rows in held),
            suspect=tuple(id in rows and rows[id].n_suspect > 0 for rows in held),
        )
        for id, name in names.items()
    ]


LEVEL = 0.05
_MOST_ATTEMPTS_EXACT = 2_000
"""Attempts of two agents up to which their test is exact, as in reports."""


@dataclass(frozen=True)
class AgentDifference:
    """An agent against the first of its job, on the scenarios that both have scored."""

    label: str
    first: str
    mean: float
    low: float | None
    high: float | None
    """None where nothing bounds it: scores outside of 0 and 1 that do not vary."""
    p: float
    """Corrected for the number of agents that are held against the first (Holm)."""
    n: int

    @property
    def text(self) -> str:
        """Return it with its interval: `+0.025 (+0.004 to +0.046)`."""
        if self.low is None or self.high is None:
            return f"{self.mean:+.3f}"
        return f"{self.mean:+.3f} ({self.low:+.3f} to {self.high:+.3f})"

    @property
    def is_general(self) -> bool:
        """Tell whether the interval leaves out 0, so that other scenarios like these would show it too."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    @property
    def is_real(self) -> bool:
        """Tell whether it is more than chance makes in one of 20 cases."""
        return self.p <= LEVEL


def differences_to_first(outcomes: Sequence[BenchmarkOutcome]) -> list[AgentDifference]:
    """Return the difference of each agent to the first, tested on the scenarios that both have scored."""
    labels = agent_labels(outcomes)
    held = [{row.scenario_definition_id: row for row in outcome.scenario_outcomes} for outcome in outcomes]
    found = []
    for label, rows in zip(labels[1:], held[1:], strict=True):
        pairs = [(held[0][id], rows[id]) for id in held[0] if id in rows]
        if (difference := _difference(label, labels[0], pairs)) is not None:
            found.append(difference)
    adjusted = holm([each.p for each in found])
    return [replace(each, p=p) for each, p in zip(found, adjusted, strict=True)]


def _difference(
    label: str, first: str, pairs: Sequence[tuple[ScenarioOutcome, ScenarioOutcome]]
) -> AgentDifference | None:
    values: list[float] = []
    strata: list[Stratum | None] = []
    has_ends = True
    for before, after in pairs:
        a, b = counted_score(before), counted_score(after)
        if a is not None and b is not None:
            values.append(b - a)
            has_ends = has_ends and 0.0 <= a <= 1.0 and 0.0 <= b <= 1.0
            strata.append(_stratum(before, a, after, b))
    difference, bounds = paired_difference(values), difference_bounds(values, is_bounded=has_ends)
    if difference is None:
        return None
    known = [each for each in strata if each is not None]
    p = strata_test(known, _MOST_ATTEMPTS_EXACT).p
    if len(known) < len(strata):
        # Graded scores are no counts of passes.
        p = sign_test(values) if difference.p is None else difference.p
    low, high = (bounds.low, bounds.high) if bounds else (None, None)
    return AgentDifference(label, first, difference.mean, low, high, p, difference.n)


def _stratum(before: ScenarioOutcome, a: float, after: ScenarioOutcome, b: float) -> Stratum | None:
    """Return the passes of both at a scenario; None where scores between 0 and 1 were given."""
    passed_a, tried_a = _passes(before, a)
    passed_b, tried_b = _passes(after, b)
    is_plain = abs(passed_a - a * tried_a) < _CLOSE and abs(passed_b - b * tried_b) < _CLOSE
    return Stratum(passed_a, tried_a, passed_b, tried_b) if is_plain else None


_CLOSE = 1e-6


def _passes(row: ScenarioOutcome, score: float) -> tuple[int, int]:
    counts = Counter(attempt.outcome for attempt in row.attempts if not attempt.is_superseded)
    tried = counts["passed"] + counts["not_passed"] + counts["crashed"]
    # Servers of other makes list no attempts.
    return (counts["passed"], tried) if tried else (round(score), 1)
