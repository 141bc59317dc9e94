import asyncio
import logging

import pytest

from benchyard.engine.background import BackgroundTasks
from benchyard.hosts.cancellation import run_to_end


def test_a_new_job_waits_for_the_one_it_cancels() -> None:
    seen: list[str] = []

    async def first() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            seen.append("first ended")

    async def second() -> None:
        seen.append("second began")

    async def scenario() -> None:
        work = BackgroundTasks()
        work.start("key", first)
        await asyncio.sleep(0)
        work.start("key", second)
        await work.settle("key")

    asyncio.run(scenario())
    assert seen == ["first ended", "second began"]


def test_a_job_that_never_began_does_not_let_two_run_at_once() -> None:
    running: set[str] = set()
    together: list[set[str]] = []

    def job(name: str) -> object:
        async def run() -> None:
            running.add(name)
            together.append(set(running))
            try:
                await asyncio.sleep(0.01)
            finally:
                await asyncio.sleep(0)
                running.discard(name)

        return run

    async def scenario() -> None:
        work = BackgroundTasks()
        for name in ("a", "b", "c"):
            work.start("key", job(name))  # type: ignore[arg-type]
            if name == "a":
                await asyncio.sleep(0)
        await work.settle("key")

    asyncio.run(scenario())
    assert together == [{"a"}, {"c"}]


def test_closing_waits_for_what_must_finish_and_cancels_the_rest() -> None:
    ended: list[str] = []

    async def must() -> None:
        await asyncio.sleep(0.02)
        ended.append("must")

    async def may() -> None:
        await asyncio.sleep(60)
        ended.append("may")

    async def scenario() -> list[str]:
        work = BackgroundTasks()
        work.start("a", must, finish=True)
        work.start("b", may)
        await asyncio.sleep(0)
        await work.close()
        return work.under_way("")

    assert asyncio.run(scenario()) == []
    assert ended == ["must"]


def test_a_job_that_fails_is_logged_and_takes_nobody_along(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> None:
        raise ValueError("a bug")

    async def scenario() -> None:
        work = BackgroundTasks()
        work.start("key", broken)
        await work.settle("key")
        await work.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert "a bug" in caplog.text


def test_jobs_are_cancelled_by_the_beginning_of_their_key() -> None:
    async def job() -> None:
        await asyncio.sleep(60)

    async def scenario() -> list[str]:
        work = BackgroundTasks()
        for key in ("snapshot/a/1", "snapshot/a/2", "snapshot/b/1"):
            work.start(key, job)
        await work.cancel("snapshot/a/")
        left = work.under_way("snapshot/")
        await work.close()
        return left

    assert asyncio.run(scenario()) == ["snapshot/b/1"]


def test_uninterruptible_work_runs_to_its_end() -> None:
    steps: list[str] = []

    async def both() -> None:
        steps.append("first half")
        await asyncio.sleep(0.01)
        steps.append("second half")

    async def scenario() -> None:
        task = asyncio.create_task(run_to_end(both()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert steps == ["first half", "second half"]
