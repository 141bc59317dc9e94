"""Attempts by agent and scenario, read from a few values of each trial rather than from whole records."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

from benchyard.models.trials import (
    AGENTS_OWN,
    ENDED_TRIALS,
    NEARLY_PASSED,
    AttemptKind,
    SuspectRule,
    TrialState,
)

TRIAL_PATHS: Mapping[str, tuple[str | int, ...]] = {
    "agent": ("agent",),
    "scenario": ("scenario",),
    "scenario_name": ("scenario_name",),
    "state": ("state",),
    "is_superseded": ("is_superseded",),
    "score": ("score",),
    "failure": ("failure", "kind"),
    "suspicion": ("suspicions", 0),
    "start": ("start_time_ms",),
    "end": ("end_time_ms",),
    "preparing": ("preparing_ms",),
    "cost": ("usage", "cost_usd"),
    "calls": ("usage", "model_calls"),
    "input_tokens": ("usage", "input_tokens"),
    "output_tokens": ("usage", "output_tokens"),
    "network": ("network",),
    "scoring_network": ("scoring_network",),
    "isolation": ("isolation",),
    "condition": ("conditions", 0),
}
"""Values of a stored trial that a report is made of."""
STAGE_PATHS: Mapping[str, tuple[str | int, ...]] = {"agent": ("agent",), "stages": ("stages",)}
_FACTS = ("network", "scoring_network", "isolation")
_ENDED = frozenset(state.value for state in ENDED_TRIALS)
_COMPLETED = TrialState.COMPLETED.value


class Cell:
    """The attempts of one agent at one scenario that count."""

    __slots__ = (
        *("cost", "has_ends", "is_graded", "mean", "mean_cost", "mean_working", "n_asked", "n_costs"),
        *("n_working", "passed", "scores", "tokens", "unscored", "working"),
    )

    def __init__(self) -> None:
        self.scores: list[float] = []
        self.mean = 0.0
        self.passed = 0
        self.is_graded = False
        self.has_ends = True
        self.mean_cost: float | None = None
        self.mean_working: float | None = None
        self.unscored = 0
        self.cost = 0.0
        self.n_costs = 0
        self.n_asked = 0
        self.working = 0.0
        self.n_working = 0
        self.tokens = 0.0

    def sum_up(self) -> None:
        """Note the means of its scored attempts, and how many of them passed.

        A cost is known where every attempt that asked a model has one, others cost nothing; a time where all
        have one.
        """
        scores = self.scores
        if not scores:
            return
        tried, passed = len(scores), scores.count(1.0)
        self.is_graded = passed + scores.count(0.0) < tried
        self.mean, self.passed = passed / tried, passed
        if self.is_graded:
            self.mean = fmean(scores)
            self.passed = sum(score >= NEARLY_PASSED for score in scores)
            self.has_ends = min(scores) >= 0.0 and max(scores) <= 1.0
        if self.n_costs >= self.n_asked:
            self.mean_cost = self.cost / tried
        if self.n_working == tried:
            self.mean_working = self.working / tried

    def bound(self, unscored_as: float) -> float:
        """Return the mean with each unscored attempt counted as this."""
        return (sum(self.scores) + unscored_as * self.unscored) / (len(self.scores) + self.unscored)


@dataclass
class AgentCells:
    """All that is known of one agent's attempts."""

    cells: dict[int, Cell] = field(default_factory=dict)
    """Index of a scenario -> its attempts."""
    outcomes: Counter[AttemptKind] = field(default_factory=Counter)
    n_ended: int = 0
    n_suspect: int = 0
    n_retries: int = 0
    total_usd: float = 0.0
    has_all_costs: bool = True
    """True if the cost of every trial with model calls is known."""
    asks_models: bool = False

    @cached_property
    def scored(self) -> dict[int, Cell]:
        """Return the scenarios with at least one scored attempt, in the order of the plan."""
        return {index: self.cells[index] for index in sorted(self.cells) if self.cells[index].scores}


@dataclass
class AttemptCells:
    """The attempts of all agents, with facts about how they were run."""

    agents: list[AgentCells]
    names: dict[int, str] = field(default_factory=dict)
    """Index of a scenario -> its name."""
    facts: dict[str, Counter[Any]] = field(default_factory=dict)
    """Part of the set-up -> number of trials with each value."""
    n_conditions: int = 0
    """Trials that the machine or the network touched."""


def read_cells(
    rows: Sequence[Sequence[Any]], n_agents: int, n_scenarios: int, rule: SuspectRule, *, is_over: bool
) -> AttemptCells:
    """Return the attempts by agent and scenario, of rows with the values of `TRIAL_PATHS`.

    A row that makes no sense is left out. Once the job is over, what never ended counts as unscored.
    """
    found = AttemptCells([AgentCells() for _ in range(n_agents)])
    rows = [
        row
        for row in rows
        if type(row[0]) is type(row[1]) is int and 0 <= row[0] < n_agents and 0 <= row[1] < n_scenarios
    ]
    _note_usage_and_facts(found, rows)
    for agent, scenario, name, state, is_superseded, score, failure, suspicion, *amounts in rows:
        own = found.agents[agent]
        if is_superseded:
            own.n_retries += 1
            continue
        cell = own.cells.get(scenario)
        if cell is None:
            cell = own.cells[scenario] = Cell()
            found.names[scenario] = name
        if state == _COMPLETED:
            counted = score
        elif state in _ENDED or is_over:
            counted = 0.0 if state in _ENDED and failure in AGENTS_OWN else None
        else:
            continue
        own.n_ended += 1
        if counted is None:
            cell.unscored += 1
            own.outcomes["unscored"] += 1
            continue
        if suspicion is not None and counted:
            own.n_suspect += 1
            counted = 0.0 if rule == "zero" else counted
        # Rounding may leave a weighted sum of full marks slightly below 1.
        cell.scores.append(1.0 if NEARLY_PASSED <= counted < 1.0 else float(counted))
        _add_amounts(cell, amounts)
        own.outcomes[_outcome(state, counted)] += 1
    for own in found.agents:
        for cell in own.cells.values():
            cell.sum_up()
    return found


def _outcome(state: str, counted: float) -> AttemptKind:
    if state != _COMPLETED:
        return "crashed"
    return "passed" if counted >= NEARLY_PASSED else "not_passed"


def _is_index(value: Any, count: int) -> bool:
    return isinstance(value, int) and 0 <= value < count


def _add_amounts(cell: Cell, amounts: Sequence[Any]) -> None:
    start, end, preparing, cost, calls, input_tokens, output_tokens, *_ = amounts
    if start is not None and end is not None:
        cell.working += max(0, end - start - (preparing or 0))
        cell.n_working += 1
    if calls:
        cell.n_asked += 1
    if cost is not None:
        cell.cost += cost
        cell.n_costs += 1
    cell.tokens += (input_tokens or 0) + (output_tokens or 0)


def _note_usage_and_facts(found: AttemptCells, rows: Sequence[Sequence[Any]]) -> None:
    """Note what all trials cost, those included that do not count, and how they were run."""
    columns = list(zip(*rows, strict=True))
    if not columns:
        return
    for name, values in zip(_FACTS, columns[15:18], strict=True):
        found.facts[name] = Counter(values)
        found.facts[name].pop(None, None)
    found.n_conditions = len(rows) - columns[18].count(None)
    for agent, cost, calls in zip(columns[0], columns[11], columns[12], strict=True):
        if cost is not None:
            found.agents[agent].total_usd += cost
            found.agents[agent].asks_models = True
        elif calls:
            found.agents[agent].has_all_costs = False


def stage_lengths(rows: Sequence[Sequence[Any]], n_agents: int) -> list[dict[str, list[float]]]:
    """Return the milliseconds of each stage by agent, of rows with the values of `STAGE_PATHS`."""
    found: list[dict[str, list[float]]] = [defaultdict(list) for _ in range(n_agents)]
    for agent, stages in rows:
        if not _is_index(agent, n_agents) or not isinstance(stages, list):
            continue
        for name, length in _lengths(stages):
            found[agent][name].append(length)
    return found


def _lengths(stages: Sequence[Any]) -> Iterator[tuple[str, float]]:
    for stage in stages:
        try:
            yield str(stage["name"]), max(0.0, float(stage["end_ms"] - stage["start_ms"]))
        except (TypeError, KeyError, ValueError):
            continue
