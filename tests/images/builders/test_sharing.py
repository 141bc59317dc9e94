"""Work that several ask for at once."""

import asyncio

import pytest

from benchyard.images.builders.base import Log
from benchyard.images.builders.engine_builder import SharedWork


def test_shared_work_runs_once_and_all_callers_hear_it() -> None:
    async def scene() -> None:
        sharing: SharedWork[int] = SharedWork()
        began, go = asyncio.Event(), asyncio.Event()
        count = 0

        async def work(log: Log) -> int:
            nonlocal count
            count += 1
            log("first")
            began.set()
            await go.wait()
            log("second")
            return 7

        logs: list[list[str]] = [[], [], []]
        first = asyncio.create_task(sharing.run("k", work, logs[0].append))
        await began.wait()
        others = [asyncio.create_task(sharing.run("k", work, log.append)) for log in logs[1:]]
        await asyncio.sleep(0)
        go.set()
        assert await asyncio.gather(first, *others) == [7, 7, 7]
        assert logs == [["first", "second"]] * 3
        assert count == 1
        assert await sharing.run("k", work, logs[0].append) == 7
        assert count == 2

    asyncio.run(scene())


def test_it_goes_on_while_there_are_waiters_and_ends_with_the_last() -> None:
    async def scene() -> None:
        sharing: SharedWork[None] = SharedWork()
        began, ended = asyncio.Event(), asyncio.Event()

        async def work(_log: Log) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        tasks = [asyncio.create_task(sharing.run("k", work, lambda _line: None)) for _ in range(2)]
        await began.wait()
        tasks[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        assert not ended.is_set()
        tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        assert ended.is_set()

    asyncio.run(scene())


def test_a_failure_is_everybodys() -> None:
    async def scene() -> None:
        sharing: SharedWork[None] = SharedWork()

        async def work(_log: Log) -> None:
            await asyncio.sleep(0)
            raise ValueError("no")

        asked = [sharing.run("k", work, lambda _line: None) for _ in range(2)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [str(each) for each in found] == ["no", "no"]

    asyncio.run(scene())
