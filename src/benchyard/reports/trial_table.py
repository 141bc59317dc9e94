"""The trials of a job as columns: one array for each, with a dictionary where texts repeat."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchyard.errors import UsageError
from benchyard.models.jobs import ENDED_JOBS, Job
from benchyard.models.reports.job_report import TableColumn, TableView
from benchyard.models.trials import AGENTS_OWN, ENDED_TRIALS, NEARLY_PASSED, SuspectRule, TrialState

TABLE_PATHS: Mapping[str, tuple[str | int, ...]] = {
    "agent": ("agent",),
    "scenario": ("scenario",),
    "attempt": ("attempt",),
    "retry": ("retry",),
    "state": ("state",),
    "score": ("score",),
    "failure": ("failure", "kind"),
    "is_superseded": ("is_superseded",),
    "suspicion": ("suspicions", 0),
    "start_time_ms": ("start_time_ms",),
    "end_time_ms": ("end_time_ms",),
    "preparing_ms": ("preparing_ms",),
    "trial_id": ("id",),
    "scenario_id": ("scenario_id",),
    "scenario_name": ("scenario_name",),
    "scenario_run_id": ("scenario_run_id",),
    "devbox_id": ("devbox_id",),
    "ended_by": ("ended_by",),
    "exit_status": ("exit_status",),
    "cost_usd": ("usage", "cost_usd"),
    "model_calls": ("usage", "model_calls"),
    "input_tokens": ("usage", "input_tokens"),
    "output_tokens": ("usage", "output_tokens"),
    "cached_tokens": ("usage", "cached_tokens"),
    "network": ("network",),
    "scoring_network": ("scoring_network",),
    "isolation": ("isolation",),
    "scored_revision": ("scored_revision",),
    "condition": ("conditions", 0),
    "scorer_note": ("scorer_note",),
}
"""Column -> its value in a stored trial; those up to `preparing_ms` are always read."""
_DERIVED = ("agent_label", "outcome", "counted_score", "working_ms")
_TEXTS = frozenset(
    {
        *("state", "outcome", "failure", "ended_by", "suspicion", "condition", "scorer_note", "isolation"),
        *("agent_label", "scenario_id", "scenario_name", "network", "scoring_network"),
    }
)
"""Columns whose values repeat, and are sent as codes."""
_ALWAYS = 12
COLUMNS = (*TABLE_PATHS, *_DERIVED)
USUAL_COLUMNS = (
    *("trial_id", "agent", "agent_label", "scenario_id", "scenario_name", "attempt", "retry", "state"),
    *("outcome", "score", "counted_score", "failure", "is_superseded", "suspicion", "start_time_ms"),
    *("end_time_ms", "working_ms", "cost_usd", "model_calls", "input_tokens", "output_tokens"),
)
_ENDED = frozenset(state.value for state in ENDED_TRIALS)


def columns_of(text: str | None) -> list[str]:
    """Return the columns that a list such as `score,cost_usd` names; raises UsageError for an unknown one."""
    if text is None:
        return list(USUAL_COLUMNS)
    wanted = list(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    for each in wanted:
        if each not in COLUMNS:
            raise UsageError(
                f"there is no column {each[:100]!r}; there are: {', '.join(COLUMNS)}", field="columns"
            )
    if not wanted:
        raise UsageError(f"name at least one column: {', '.join(COLUMNS)}", field="columns")
    return wanted


def paths_of(columns: Sequence[str]) -> list[tuple[str | int, ...]]:
    """Return the values of stored trials that columns are made of."""
    return [TABLE_PATHS[name] for name in _read(columns)]


def _read(columns: Sequence[str]) -> list[str]:
    always = list(TABLE_PATHS)[:_ALWAYS]
    return [*always, *(name for name in columns if name in TABLE_PATHS and name not in always)]


def make_table(
    job: Job, rows: Sequence[Sequence[Any]], columns: Sequence[str], rule: SuspectRule = "keep"
) -> TableView:
    """Return columns of rows with the values of `paths_of`, in the order of the job's plan.

    Trials that were still waiting at the end of their job are shown as canceled.
    """
    names = _read(columns)
    labels = [config.label for config in job.spec.agent_configs]
    sane = [row for row in rows if isinstance(row[0], int) and 0 <= row[0] < len(labels)]
    sane.sort(key=lambda row: (row[0], row[1] or 0, row[2] or 0, row[3] or 0))
    values: dict[str, list[Any]] = {name: [row[index] for row in sane] for index, name in enumerate(names)}
    if job.state in ENDED_JOBS:
        values["state"] = [
            state if state in _ENDED else TrialState.CANCELED.value for state in values["state"]
        ]
    derived: Mapping[str, Callable[[], list[Any]]] = {
        "agent_label": lambda: [labels[agent] for agent in values["agent"]],
        "outcome": lambda: _outcomes(values, rule),
        "counted_score": lambda: _counted(values, rule),
        "working_ms": lambda: _working(values),
    }
    made = {name: derived[name]() if name in derived else values[name] for name in columns}
    return TableView(
        id=job.id, n=len(sane), columns={name: _column(name, each) for name, each in made.items()}
    )


def _counted(values: Mapping[str, list[Any]], rule: SuspectRule) -> list[float | None]:
    """Return the value of each trial in a mean; null where it is left out."""
    found: list[float | None] = []
    for state, score, failure, suspicion in zip(
        values["state"], values["score"], values["failure"], values["suspicion"], strict=True
    ):
        if state == TrialState.COMPLETED:
            found.append(0.0 if rule == "zero" and suspicion is not None and score else score)
        else:
            found.append(0.0 if state in _ENDED and failure in AGENTS_OWN else None)
    return found


def _outcomes(values: Mapping[str, list[Any]], rule: SuspectRule) -> list[str | None]:
    found: list[str | None] = []
    for state, counted in zip(values["state"], _counted(values, rule), strict=True):
        if state not in _ENDED:
            found.append(None)
        elif counted is None:
            found.append("unscored")
        elif state != TrialState.COMPLETED:
            found.append("crashed")
        else:
            found.append("passed" if counted >= NEARLY_PASSED else "not_passed")
    return found


def _working(values: Mapping[str, list[Any]]) -> list[int | None]:
    return [
        None if start is None or end is None else max(0, end - start - (preparing or 0))
        for start, end, preparing in zip(
            values["start_time_ms"], values["end_time_ms"], values["preparing_ms"], strict=True
        )
    ]


def _column(name: str, values: list[Any]) -> TableColumn:
    if name not in _TEXTS:
        return TableColumn.model_construct(values=values)
    places: dict[Any, int] = {}
    codes = [places.setdefault(value, len(places)) for value in values]
    return TableColumn.model_construct(dictionary=list(places), codes=codes)
