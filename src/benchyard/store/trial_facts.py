"""Trials over all jobs, chosen by facts in narrow rows: no body is read but those of the page."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, bindparam, func, insert, or_, select, update

from benchyard.errors import UsageError
from benchyard.models.pages import MAX_LIMIT, Query
from benchyard.models.trials import Trial
from benchyard.store.collection import RecordUpdate, check_text
from benchyard.store.events import DatabaseReader
from benchyard.store.statements import Statement
from benchyard.store.tables import TAGS, TRIAL_FACTS

_CHANGING = ("state", "outcome", "failure_kind")
_NAMES = [column.name for column in TRIAL_FACTS.c if column.name != "seq"]
_ADD = Statement(insert(TRIAL_FACTS).values({name: bindparam(name) for name in _NAMES}))
_CHANGE = Statement(
    update(TRIAL_FACTS)
    .where(TRIAL_FACTS.c.id == bindparam("own_id"))
    .values({name: bindparam(name) for name in _CHANGING})
)
_AGENT, _TAG = "agent", "tag"


class FactsPage(NamedTuple):
    """The ids of a page of trials, newest first."""

    ids: list[str]
    has_more: bool
    total_count: int | None


class TrialFactTable:
    """The facts of all trials."""

    def __init__(self, database: DatabaseReader) -> None:
        self._database = database

    def adding(self, trials: Sequence[Trial]) -> Callable[[Connection], None]:
        """Return work for a transaction that adds the facts of new trials; existing ones stay."""
        rows = [values_of(trial) for trial in trials]

        def work(connection: Connection) -> None:
            own = TRIAL_FACTS.c.id
            known = select(own).where(own.in_([row["id"] for row in rows]))
            there = set(connection.execute(known).scalars())
            if new := [row for row in rows if row["id"] not in there]:
                _ADD.apply(connection, *new)

        return work

    def putting(self, trial: Trial) -> RecordUpdate:
        """Return the statement that changes the facts of a trial, as a part of a transaction."""
        values = values_of(trial)
        row = {"own_id": trial.id, **{name: values[name] for name in _CHANGING}}
        return RecordUpdate(_CHANGE, [row], f"facts of {trial.id}")

    async def page(self, query: Query) -> FactsPage:
        """Return one page; raises UsageError for a limit out of range or an unknown cursor."""
        if not 1 <= query.limit <= MAX_LIMIT:
            raise UsageError(f"limit must be between 1 and {MAX_LIMIT}", field="limit")
        wanted = [_condition(name, value) for name, value in query.where.items()]
        return await self._database.read(lambda connection: _page(connection, query, wanted))


def values_of(trial: Trial) -> Mapping[str, Any]:
    """Return the row of a trial."""
    return {
        "id": trial.id,
        "job_id": trial.job_id,
        "scenario_id": trial.scenario_id,
        "agent_name": trial.agent_name,
        "agent_label": trial.agent_label,
        "benchmark_id": trial.benchmark_id,
        "state": trial.state.value,
        "outcome": trial.outcome() if trial.has_ended else None,
        "failure_kind": trial.failure.kind if trial.failure else None,
    }


def _condition(name: str, value: str | Sequence[str]) -> ColumnElement[bool]:
    own = TRIAL_FACTS.c
    text = check_text(value) if isinstance(value, str) else ""
    if name == _AGENT:
        return or_(own.agent_name == text, own.agent_label == text)
    if name == _TAG:
        return own.id.in_(select(TAGS.c.subject).where(TAGS.c.tag == text))
    if isinstance(value, str):
        return own[name] == text
    return own[name].in_([check_text(each) for each in value])


def _page(connection: Connection, query: Query, wanted: list[ColumnElement[bool]]) -> FactsPage:
    own = TRIAL_FACTS.c
    after = []
    if query.starting_after is not None:
        cursor = select(own.seq).where(own.id == check_text(query.starting_after))
        seq = connection.execute(cursor).scalar_one_or_none()
        if seq is None:
            raise UsageError(
                f"starting_after names nothing: {query.starting_after[:200]}", field="starting_after"
            )
        after = [own.seq < seq]
    chosen = select(own.id).where(*wanted, *after).order_by(own.seq.desc()).limit(query.limit + 1)
    ids = [str(scalar) for scalar in connection.execute(chosen).scalars()]
    total = None
    if query.include_total_count:
        total = connection.execute(select(func.count()).select_from(TRIAL_FACTS).where(*wanted)).scalar_one()
    return FactsPage(ids[: query.limit], len(ids) > query.limit, total)
