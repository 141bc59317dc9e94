import asyncio
import gc
import logging

import pytest

from benchyard.errors import BenchyardError, Conflict
from benchyard.hosts.cancellation import run_to_end


@pytest.mark.parametrize(
    ("failure", "level"), [(Conflict("it has ended"), logging.INFO), (ValueError("a bug"), logging.ERROR)]
)
def test_failure_after_cancellation_is_logged_once(
    failure: Exception, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def work(begun: asyncio.Event, go_on: asyncio.Event) -> None:
        begun.set()
        await go_on.wait()
        raise failure

    async def main() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(run_to_end(work(begun, go_on)))
        await begun.wait()
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    gc.collect()
    told = ("its caller was", "retrieved")
    (record,) = [each for each in caplog.records if any(words in each.message for words in told)]
    assert record.levelno == level
    assert isinstance(failure, BenchyardError) or record.exc_info is not None
