"""Attempts of many jobs and runs, from a few values of each record: what trends and histories are made of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from benchyard.models.jobs import JOB_KEY
from benchyard.models.reports.trends import SourceKind
from benchyard.models.results.run_trials import SDK_AGENT, run_agent
from benchyard.models.runs import RunState
from benchyard.models.trials import AGENTS_OWN, ENDED_TRIALS, NEARLY_PASSED, SuspectRule

_ENDED = frozenset(each.value for each in ENDED_TRIALS)
_OVER = frozenset({RunState.SCORED, RunState.COMPLETED})


@dataclass(frozen=True)
class Source:
    """An agent's part of a job, or a benchmark run of the SDK: one point of a series."""

    id: str
    """Of the job or the benchmark run."""
    agent: int
    kind: SourceKind
    name: str
    time_ms: int
    agent_name: str
    """The agent with its model, without its version."""
    label: str
    version: str | None = None
    rule: SuspectRule = "keep"


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """An attempt that has ended."""

    source: tuple[str, int]
    scenario_id: str
    scenario_name: str
    score: float | None
    """The value it adds to a mean; None where it is left out."""
    cost: float | None
    has_cost: bool
    """True if its cost is known, or it asked no model."""
    working_ms: float | None
    revision: int | None
    end_time_ms: int
    earlier: tuple[float, ...] = ()
    """Earlier scores of the same final state by the same revision."""
    id: str = ""
    is_suspect: bool = False
    """True if it has a score above 0 that may not be earned."""


def sources_of_jobs(rows: Iterable[Sequence[Any]]) -> list[Source]:
    """Return a source for each agent of each job."""
    found = []
    for id, name, created, ended, configs, choices, rule in rows:
        versions = choices if isinstance(choices, list) else []
        for index, config in enumerate(configs if isinstance(configs, list) else []):
            agent, model = str(config.get("name")), config.get("model_name")
            version = config.get("version") or (
                versions[index].get("version") if index < len(versions) else None
            )
            own = f"{agent}:{model}" if model else agent
            found.append(
                Source(
                    id=id,
                    agent=index,
                    kind="job",
                    name=str(name),
                    time_ms=int(ended or created),
                    agent_name=own,
                    label=f"{agent}@{version}{f':{model}' if model else ''}" if version else own,
                    version=version,
                    rule="zero" if rule == "zero" else "keep",
                )
            )
    return found


def sources_of_groups(rows: Iterable[Sequence[Any]]) -> list[Source]:
    """Return the benchmark runs that code made: those of jobs are jobs.

    Metadata `agent`, `version` and `model` say which agent it was.
    """
    found = []
    for id, name, created, ended, metadata in rows:
        told = metadata if isinstance(metadata, dict) else {}
        if JOB_KEY in told:
            continue
        agent = run_agent(told)
        found.append(
            Source(
                id=id,
                agent=0,
                kind="benchmark_run",
                name=str(name or id),
                time_ms=int(ended or created),
                agent_name=f"{agent.name}:{agent.model_name}" if agent.model_name else agent.name,
                label=agent.label,
                version=agent.version,
            )
        )
    return found


def sources_of_runs(rows: Iterable[Sequence[Any]]) -> list[Source]:
    """Return the scenario runs that belong to no benchmark run."""
    return [
        Source(
            id=id,
            agent=0,
            kind="scenario_run",
            name=str(name or id),
            time_ms=int(ended or created),
            agent_name=SDK_AGENT,
            label=SDK_AGENT,
        )
        for group, _, _, _, _, _, created, ended, _, id, name, is_reference in rows
        if group is None and not is_reference
    ]


def of_trials(rows: Iterable[Sequence[Any]], rules: Mapping[str, SuspectRule]) -> list[PastAttempt]:
    """Return the attempts of trials that count, given the rule for suspect scores of each job."""
    found = []
    for row in rows:
        attempt = _of_trial(row, rules)
        if attempt is not None:
            found.append(attempt)
    return found


def _of_trial(row: Sequence[Any], rules: Mapping[str, SuspectRule]) -> PastAttempt | None:
    job_id, agent, scenario_id, name, state, score, failure, is_superseded, suspicion, *rest = row
    cost, calls, start, end, preparing, revision, earlier, id = rest
    if state not in _ENDED or is_superseded or not isinstance(scenario_id, str):
        return None
    counted = _number(score) if state == "completed" else None
    if state != "completed" and failure in AGENTS_OWN:
        counted = 0.0
    is_suspect = bool(counted and suspicion)
    if is_suspect and rules.get(job_id) == "zero":
        counted = 0.0
    taken = None if start is None or end is None else max(0.0, float(end - start - (preparing or 0)))
    known = _number(cost)
    return PastAttempt(
        source=(job_id, int(agent or 0)),
        scenario_id=scenario_id,
        scenario_name=str(name),
        score=counted,
        cost=known,
        has_cost=known is not None or not calls,
        working_ms=taken,
        revision=revision,
        end_time_ms=int(end or start or 0),
        earlier=_earlier(earlier, revision),
        id=str(id),
        is_suspect=is_suspect,
    )


def _earlier(records: Any, revision: int | None) -> tuple[float, ...]:
    if not isinstance(records, list):
        return ()
    same = [each for each in records if isinstance(each, dict) and each.get("scenario_revision") == revision]
    scores = [_number(each.get("score")) for each in same]
    return tuple(score for score in scores if score is not None)


def of_runs(rows: Iterable[Sequence[Any]], names: Mapping[str, str]) -> list[PastAttempt]:
    """Return the attempts of scenario runs that code made, given the names of scenarios."""
    found = []
    for row in rows:
        group, scenario_id, state, score, suspicion, cost, start, end, revision, id, _, is_reference = row
        if end is None or is_reference or not isinstance(scenario_id, str):
            continue
        known = _number(cost)
        counted = _number(score) if state in _OVER else None
        if state == RunState.TIMEOUT:
            # As a trial: running out of time is the agent's own failure.
            counted = 0.0
        found.append(
            PastAttempt(
                source=(group or id, 0),
                scenario_id=scenario_id,
                scenario_name=names.get(scenario_id, scenario_id),
                score=counted,
                cost=known,
                has_cost=known is not None,
                working_ms=max(0.0, float(end - start)),
                revision=revision,
                end_time_ms=int(end),
                id=str(id),
                is_suspect=bool(_number(score) and suspicion),
            )
        )
    return found


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass
class ScenarioAttempts:
    """The attempts of one source at one scenario, as it was in one revision."""

    name: str
    revision: int | None
    scores: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    unscored: int = 0
    n_suspect: int = 0
    has_costs: bool = True

    def add(self, attempt: PastAttempt) -> None:
        """Count an attempt."""
        if attempt.score is None:
            self.unscored += 1
            return
        self.scores.append(attempt.score)
        self.n_suspect += attempt.is_suspect
        self.has_costs = self.has_costs and attempt.has_cost
        if attempt.cost is not None:
            self.costs.append(attempt.cost)
        if attempt.working_ms is not None:
            self.times.append(attempt.working_ms)

    @property
    def passed(self) -> int:
        """Return the number of attempts that passed."""
        return sum(score >= NEARLY_PASSED for score in self.scores)

    @property
    def mean(self) -> float | None:
        """Return the mean score."""
        return fmean(self.scores) if self.scores else None

    @property
    def cost(self) -> float | None:
        """Return the mean cost of an attempt; None where it is not known for all."""
        return fmean(self.costs) if self.costs and self.has_costs else None

    @property
    def working_ms(self) -> float | None:
        """Return the mean working time of an attempt."""
        return fmean(self.times) if self.times else None

    @property
    def is_binary(self) -> bool:
        """Tell whether each attempt passed wholly or not at all."""
        return all(score in (0.0, 1.0) for score in self.scores)


ByScenario = dict[str, ScenarioAttempts]


def by_source(attempts: Iterable[PastAttempt]) -> dict[tuple[str, int], ByScenario]:
    """Return the attempts by source, and in each by scenario; the newest revision of a scenario counts."""
    found: dict[tuple[str, int], ByScenario] = {}
    for attempt in attempts:
        scenarios = found.setdefault(attempt.source, {})
        known = scenarios.get(attempt.scenario_id)
        if known is not None and known.revision is None:
            # What crashed before it was scored has no revision of its own.
            known.revision = attempt.revision
        if known is None or (attempt.revision or 0) > (known.revision or 0):
            known = scenarios[attempt.scenario_id] = ScenarioAttempts(attempt.scenario_name, attempt.revision)
        if attempt.revision in (None, known.revision):
            known.add(attempt)
    return found
