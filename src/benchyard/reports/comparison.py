"""Comparison of agents: their score in each scenario, and the scenarios on which they differ."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchyard.models.jobs import BenchmarkOutcome, ScenarioOutcome
from benchyard.models.trials import OutcomeState

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
