"""The ledger: many changes in one transaction, of which every event is kept and the last state."""

import asyncio
from pathlib import Path

from benchyard.engine.background import BackgroundTasks
from benchyard.engine.jobs.store import JobStore
from benchyard.models.trials import Trial, TrialState
from benchyard.store.database import Store

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
