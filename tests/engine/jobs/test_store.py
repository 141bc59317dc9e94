"""The ledger: many changes in one transaction, of which every event is kept and the last state."""

import asyncio
from pathlib import Path

from benchyard.engine.background import BackgroundTasks
from benchyard.engine.jobs.store import Change, JobStore
from benchyard.models.base import Record
from benchyard.models.jobs import ENDED_JOBS, Job, JobState
from benchyard.models.trials import Trial, TrialState
from benchyard.store.database import Store
from tests.reports.scenes import job

TRIAL = Trial.model_validate(
    {"id": "trl_1", "create_time_ms": 1, "job_id": "job_1", "agent": 0, "attempt": 1}
    | {"scenario": 0, "scenario_id": "scn_1", "scenario_name": "one"}
)


def test_simultaneous_states_keep_their_order_and_the_last_counts(tmp_path: Path) -> None:
    async def work() -> None:
        async with Store(f"sqlite:///{tmp_path / 'n.db'}") as store:
            ledger = JobStore(store, BackgroundTasks())
            await ledger.trials.insert(TRIAL)
            states = [TrialState.PROVISIONING, TrialState.RUNNING, TrialState.SCORING]
            for state in states:
                ledger.soon(TRIAL.model_copy(update={"state": state}))
            ended = await ledger.trial(TRIAL.model_copy(update={"state": TrialState.COMPLETED, "score": 1.0}))
            told = [each.trial for each in await ledger.events("job_1", 0)]
            assert [each and each.state for each in told] == [*states, TrialState.COMPLETED]
            assert await ledger.trials.get("trl_1") == ended

    asyncio.run(work())


def test_the_end_of_a_job_is_stored_with_what_is_told_of_it(tmp_path: Path) -> None:
    class Ends:
        """Tells of ends in a table of its own."""

        def __init__(self, store: Store) -> None:
            self.told = store.collection("removals", Record)
            self.woken = 0

        def job_ended(self, job: Job) -> list[Change]:
            if job.state not in ENDED_JOBS:
                return []
            return [self.told.rows.adding([Record(id=f"told_{job.id}", create_time_ms=1)])]

        def wake(self) -> None:
            self.woken += 1

    async def work() -> None:
        async with Store(f"sqlite:///{tmp_path / 'n.db'}") as store:
            ends = Ends(store)
            ledger = JobStore(store, BackgroundTasks(), ends)
            made = await ledger.jobs.insert(job())
            await ledger.job(made)
            assert (await ends.told.all({}), ends.woken) == ([], 0)
            over = made.model_copy(update={"state": JobState.COMPLETED})
            await ledger.job(over)
            # The same end again, such as after a restart, is told once.
            await ledger.job(over)
            assert [each.id for each in await ends.told.all({})] == ["told_bmj_1"]
            assert (await ledger.jobs.get("bmj_1")).state is JobState.COMPLETED

    asyncio.run(work())
