"""New problems are told once for each job, and jobs that ended lately are found by their ends."""

import asyncio
import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchyard.engine.clock import now_ms
from benchyard.engine.webhooks.recent_ends import RECENT_MS, RecentEnds
from benchyard.engine.webhooks.service import Webhooks
from benchyard.models.jobs import Job, JobState
from benchyard.models.webhooks.webhook import Webhook
from benchyard.store.database import Store
from tests.reports import scenes


def webhooks(store: Store) -> Webhooks:
    """The webhooks of a server that sends nothing."""
    tools: Any = SimpleNamespace(
        settings=SimpleNamespace(webhook_networks=[]),
        vault=SimpleNamespace(derive=lambda use, text: hashlib.sha256(f"{use} {text}".encode()).digest()),
        work=SimpleNamespace(start=lambda *_: None, repeat=lambda *_: None),
    )
    return Webhooks(tools, store)


def ended(id: str, end_ms: int, created_ms: int = 1) -> Job:
    """A job that ended at a time."""
    fields = {"id": id, "create_time_ms": created_ms, "end_time_ms": end_ms}
    return scenes.job(state=JobState.COMPLETED).model_copy(update=fields)


async def told(service: Webhooks) -> list[tuple[str, list[str]]]:
    """The problems of each event, by webhook, in order."""
    kept = await service.deliveries.all({})
    events = [(each.webhook_id, json.loads(each.body)["data"]["problems"]) for each in reversed(kept)]
    return sorted(events)


def test_each_problem_is_told_once_also_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with Store(f"sqlite:///{tmp_path / 'x.db'}") as store:
            first = webhooks(store)
            for id, events in (("whk_a", ["problem.new"]), ("whk_b", ["job.ended"])):
                made = Webhook.model_validate(
                    {"id": id, "create_time_ms": 1, "url": "https://a.test/", "events": events}
                )
                await first.records.insert(made)
            await first.open()
            job = ended("bmj_1", now_ms())
            await first.new_problems(job, ["loop", "denied-host"])
            await first.new_problems(job, ["loop", "denied-host"])
            assert await told(first) == [("whk_a", ["denied-host", "loop"])]
            again = webhooks(store)
            await again.open()
            await again.new_problems(job, ["loop"])
            assert len(await told(again)) == 1
            # After a retry it has one more, which alone is told.
            await again.new_problems(job, ["denied-host", "gave-up", "loop"])
            assert await told(again) == [("whk_a", ["denied-host", "loop"]), ("whk_a", ["gave-up"])]
            await again.new_problems(ended("bmj_10", now_ms()), ["loop"])
            assert len(await told(again)) == 3

    asyncio.run(main())


def test_a_job_that_took_long_is_found_however_many_were_created_after_it(tmp_path: Path) -> None:
    async def main() -> None:
        now = now_ms()
        async with Store(f"sqlite:///{tmp_path / 'x.db'}") as store:
            jobs = store.collection("benchmark_jobs", Job)
            await jobs.insert(ended("bmj_long", now - 1000))
            await jobs.insert(ended("bmj_old", now - RECENT_MS - 1000))
            for number in range(30):
                await jobs.insert(ended(f"bmj_{number:02}", now - 60_000 + number, created_ms=now))
            await jobs.insert(scenes.job().model_copy(update={"id": "bmj_running"}))
            ends = RecentEnds(store)
            ends.note(ended("bmj_now", now))
            assert await ends.ids() == [*(f"bmj_{number:02}" for number in range(30)), "bmj_long", "bmj_now"]
            ends.forget("bmj_long")
            ends.note(scenes.job().model_copy(update={"id": "bmj_now"}))
            assert (await ends.ids())[-1] == "bmj_29"
            # It was scored again.
            ends.note(ended("bmj_long", now - 1000))
            assert (await ends.ids())[-1] == "bmj_long"

    asyncio.run(main())
