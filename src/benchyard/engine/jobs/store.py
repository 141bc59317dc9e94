"""Records of jobs and trials, stored with their events: many changes in one transaction."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

from sqlalchemy import Connection, func, select

from benchyard.engine.background import BackgroundTasks, retry_store
from benchyard.engine.clock import now_ms
from benchyard.hosts.cancellation import wait_at_most
from benchyard.models.jobs import Job, JobEvent, Preparation
from benchyard.models.trials import Trial
from benchyard.store.collection import Collection, RecordUpdate
from benchyard.store.database import Store
from benchyard.store.events import EventLog
from benchyard.store.statements import StatementRows, apply_together
from benchyard.store.tables import TABLES
from benchyard.store.tags import tagging
from benchyard.store.trial_facts import TrialFactTable

_MOST_AT_ONCE = 500
_KEY = "jobs/ledger"
_PAUSE_SECONDS = 0.1

Change = Callable[[Connection], None]


class JobEnds(Protocol):
    """Listener to the ends of jobs."""

    def job_ended(self, job: Job) -> Sequence[Change]:
        """Return records to store in the same transaction as the end of a job; empty for other changes."""

    def wake(self) -> None:
        """Go on with the stored records."""


class JobStore:
    """Writes in the order of the calls, and wakes the followers of a job."""

    def __init__(self, store: Store, work: BackgroundTasks, ends: JobEnds | None = None) -> None:
        self.jobs: Collection[Job] = store.collection("benchmark_jobs", Job)
        self.trials: Collection[Trial] = store.collection("trials", Trial)
        self.facts = TrialFactTable(store)
        self._events = EventLog(store)
        self._store = store
        self._work = work
        self._ends = ends
        self._queue: list[tuple[str, Sequence[Change], asyncio.Future[None]]] = []
        self._is_writing = False
        self._changed: dict[str, asyncio.Event] = {}

    async def counts(self) -> dict[str, int]:
        """Return the number of jobs in each state."""
        status = TABLES["benchmark_jobs"].c.status
        query = select(status, func.count()).group_by(status)
        return await self._store.read(lambda connection: dict(connection.execute(query).tuples().all()))

    async def job(self, job: Job, message: str | None = None) -> Job:
        """Store a job as it is now; each job has a single writer."""
        event = JobEvent(time_ms=now_ms(), type="job", state=job.state, message=message)
        following = self._ends.job_ended(job) if self._ends else []
        await self._write(job.id, [self.jobs.rows.putting(job), self._telling(job.id, [event]), *following])
        if following and self._ends:
            self._ends.wake()
        return job

    async def prepare(self, job: Job, preparation: Preparation) -> Job:
        """Store the progress of a preparation of a job, with its event."""
        known = [each for each in job.preparations if _key_of(each) != _key_of(preparation)]
        job = job.model_copy(update={"preparations": [*known, preparation]})
        event = JobEvent(
            time_ms=now_ms(), type="job", preparation=preparation, message=_preparation_text(preparation)
        )
        await self._write(job.id, [self.jobs.rows.putting(job), self._telling(job.id, [event])])
        return job

    async def tag_job(self, job: Job) -> Job:
        """Store a job as it is now, with its tags, by which lists find it."""
        event = JobEvent(time_ms=now_ms(), type="job", state=job.state)
        tags = tagging(job.id, job.id, job.tags)
        await self._write(job.id, [self.jobs.rows.putting(job), tags, self._telling(job.id, [event])])
        return job

    def job_soon(self, job: Job) -> None:
        """Store a job as it is now without waiting."""
        event = JobEvent(time_ms=now_ms(), type="job", state=job.state)
        self._enqueue(job.id, [self.jobs.rows.putting(job), self._telling(job.id, [event])])

    async def plan(self, job: Job, trials: Sequence[Trial]) -> None:
        """Store the missing trials of a job's plan, and the job."""
        for at in range(0, len(trials), _MOST_AT_ONCE):
            some = trials[at : at + _MOST_AT_ONCE]
            await self._write(job.id, [self.trials.rows.adding(some), self.facts.adding(some)])
        await self.job(job)

    async def trial(self, trial: Trial, *others: Trial) -> Trial:
        """Store trials as they are now: existing ones, then new ones."""
        await self._write(trial.job_id, self._changes(trial, others))
        return trial

    def soon(self, trial: Trial) -> None:
        """Store a trial as it is now without waiting: a lost change can be found out again."""
        self._enqueue(trial.job_id, self._changes(trial, ()))

    def _changes(self, trial: Trial, new: Sequence[Trial]) -> list[Change]:
        body = trial.model_dump_json()
        changes: list[Change] = [self.trials.rows.putting(trial, body), self.facts.putting(trial)]
        if new:
            changes += [self.trials.rows.adding(new), self.facts.adding(new)]
        events = [_trial_event(body), *(_trial_event(each.model_dump_json()) for each in new)]
        return [*changes, self._events.adding(trial.job_id, events)]

    async def events(self, job_id: str, after: int) -> list[JobEvent]:
        """Return the next events of a job; not all of them if there are many."""
        rows = await self._events.after(job_id, after)
        return [JobEvent.model_validate_json(body).model_copy(update={"seq": seq}) for seq, body in rows]

    async def follow(self, job_id: str, after: int, seconds: float) -> AsyncGenerator[list[JobEvent], None]:
        """Yield the events of a job as they come; an empty list after a silence. Never ends."""
        while True:
            changed = self._changed.setdefault(job_id, asyncio.Event())
            found = await self.events(job_id, after)
            yield found
            if found:
                after = found[-1].seq
                # Wait for more events: a busy job has many changes.
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            await wait_at_most(seconds, changed.wait())
            await asyncio.sleep(_PAUSE_SECONDS)

    def _telling(self, job_id: str, events: Sequence[JobEvent]) -> Change:
        return self._events.adding(job_id, [event.model_dump_json(exclude_none=True) for event in events])

    async def _write(self, job_id: str, changes: Sequence[Change]) -> None:
        # The caller may be cancelled; queued changes are written all the same.
        await asyncio.shield(self._enqueue(job_id, changes))

    def _enqueue(self, job_id: str, changes: Sequence[Change]) -> "asyncio.Future[None]":
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Mark a failure as seen, in case the caller has gone.
        done.add_done_callback(lambda each: each.cancelled() or each.exception())
        self._queue.append((job_id, changes, done))
        if not self._is_writing:
            self._is_writing = True
            self._work.start(_KEY, self._flush, finish=True)
        return done

    async def _flush(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue[:_MOST_AT_ONCE], self._queue[_MOST_AT_ONCE:]
                await self._keep(batch)
        finally:
            self._is_writing = False

    async def _keep(self, batch: Sequence[tuple[str, Sequence[Change], "asyncio.Future[None]"]]) -> None:
        every = [change for _, changes, _ in batch for change in changes]
        last = {change.id: change for change in every if isinstance(change, RecordUpdate)}

        kept = [each for each in every if not isinstance(each, RecordUpdate) or last[each.id] is each]

        def work(connection: Connection) -> None:
            # New ones first, since others may change them.
            for change in kept:
                if not isinstance(change, StatementRows):
                    change(connection)
            apply_together(connection, [each for each in kept if isinstance(each, StatementRows)])

        error: Exception | None = None
        try:
            await retry_store(self._store.write, work)
        except Exception as failure:
            error = failure
            raise
        finally:
            for job_id, _, done in batch:
                if not done.done():
                    done.set_exception(error) if error else done.set_result(None)
                if waiting := self._changed.pop(job_id, None):
                    waiting.set()


def _key_of(preparation: Preparation) -> tuple[str, int]:
    return preparation.name, preparation.start_time_ms


def _preparation_text(preparation: Preparation) -> str:
    if preparation.end_time_ms is None:
        return f"installing {preparation.what}"
    seconds = (preparation.end_time_ms - preparation.start_time_ms) / 1000
    word = "could not install" if preparation.failure else "installed"
    return f"{word} {preparation.what}, {seconds:.0f} s"


def _trial_event(body: str) -> str:
    """Return the event of a trial as JSON text; readers pick the fields of its view."""
    return f'{{"time_ms":{now_ms()},"type":"trial","trial":{body}}}'
