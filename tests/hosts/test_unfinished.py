"""What was begun ends, though whoever asked for it has gone."""

import asyncio

import pytest

from benchyard.hosts.cancellation import PendingWork


def test_work_outlives_its_cancelled_caller() -> None:
    async def live() -> None:
        unfinished, may_end, ends = PendingWork(), asyncio.Event(), []

        async def work() -> None:
            await may_end.wait()
            ends.append("whole")

        asking = asyncio.ensure_future(unfinished.whole(work()))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert ends == []
        asyncio.get_running_loop().call_later(0.05, may_end.set)
        await unfinished.wait_until_ended()
        assert ends == ["whole"]
        await unfinished.wait_until_ended()

    asyncio.run(live())
