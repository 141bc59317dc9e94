"""Agents side by side: what each made of each scenario, and where they differ."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchyard.models.jobs import BenchmarkOutcome, ScenarioOutcome
from benchyard.models.trials import OutcomeState

_VERSION = re.compile(r"(?<=.)@[^:#]*")


@dataclass(frozen=True)
class ScenarioComparison:
    """One scenario, and what each agent made of it; None where an agent has nothing to show."""

    scenario_id: str
    scenario_name: str
    scores: tuple[float | None, ...]
    states: tuple[OutcomeState | None, ...]
    suspect: tuple[bool, ...] = ()
    """Whether a score of theirs may not be earned."""

    @property
    def differs(self) -> bool:
        """Whether it tells the agents apart: two of them have scores, and not the same."""
        return len({score for score in self.scores if score is not None}) > 1


@dataclass(frozen=True)
class Suspect:
    """A scenario whose score may not be earned by an agent."""

    label: str
    """Of the agent."""
    scenario_name: str
    why: str
    """The weightiest reason."""


def suspects(outcomes: Sequence[BenchmarkOutcome]) -> list[Suspect]:
    """All suspect scores, agent by agent; lists of jobs, which leave out the scenarios, have none."""
    return [
        Suspect(label, row.scenario_name, why_suspect(row) or "")
        for label, outcome in zip(agent_labels(outcomes), outcomes, strict=True)
        for row in outcome.scenario_outcomes
        if row.n_suspect
    ]


def why_suspect(row: ScenarioOutcome) -> str | None:
    """The weightiest reason why a row's score may not be earned, and how often; None where nothing is."""
    if not row.n_suspect:
        return None
    counting = sum(not each.is_superseded for each in row.attempts)
    share = f" ({row.n_suspect} of {counting} attempts)" if counting > 1 else ""
    more = f" (and {len(row.suspicions) - 1} more)" if len(row.suspicions) > 1 else ""
    return f"{row.suspicions[0]}{more}{share}"


def agent_labels(outcomes: Sequence[BenchmarkOutcome]) -> list[str]:
    """What to call each agent, `agent@version:model`; the second of a name gets a number."""
    seen: Counter[str] = Counter()
    found = []
    for each in outcomes:
        version = f"@{each.version}" if each.version else ""
        model = f":{each.model_name}" if each.model_name else ""
        label = f"{each.agent_name}{version}{model}"
        seen[label] += 1
        found.append(label if seen[label] == 1 else f"{label}#{seen[label]}")
    return found


def brief(names: Iterable[str]) -> dict[str, str]:
    """What agents' labels come to without their versions, for those that are still told apart so."""
    found = {name: _VERSION.sub("", name, count=1) for name in names}
    counts = Counter(found.values())
    return {name: short for name, short in found.items() if short != name and counts[short] == 1}


def counted_score(row: ScenarioOutcome) -> float | None:
    """What a row counts in a mean: 0 where only the agent failed, which the wire shows as no score."""
    if row.score is not None:
        return row.score
    counting = sum(not each.is_superseded for each in row.attempts)
    return 0.0 if row.unscored < counting else None


def compare_agents(outcomes: Sequence[BenchmarkOutcome]) -> list[ScenarioComparison]:
    """One row for each scenario that any of them has, in their order."""
    held = [{row.scenario_definition_id: row for row in each.scenario_outcomes} for each in outcomes]
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
