"""Workers do their jobs within limits; what one does to itself is nobody else's."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from benchyard.errors import BenchyardError, WorkerFailed
from benchyard.testing.contracts.driver_fixture import eventually
from benchyard.testing.loop_probe import loop_probe
from benchyard.workers import workers
from benchyard.workers.workers import WorkerLimits, Workers, call_once

LOAD = "json:load"
SAYS = "benchyard.scorers.standalone.parsers:says"
FOR_EVER = {"pattern": "^(a+)+$"}
HOSTILE = b"a" * 60 + b"b"
"""Over which that pattern takes for ever."""


def live(scenario: Callable[[Workers], Awaitable[None]]) -> None:
    async def open_and_close() -> None:
        async with Workers() as workers:
            await scenario(workers)

    asyncio.run(open_and_close())


others: set[int] = set()
"""What this process had started before a test began, such as servers of other tests."""


@pytest.fixture(autouse=True)
def _note_others() -> None:
    others.clear()
    others.update(below(os.getpid()))


def started() -> set[int]:
    """The processes that this test has started."""
    return below(os.getpid()) - others


def below(pid: int) -> set[int]:
    """The processes that another one started, and those that they did."""
    found: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == pid:
            found |= {int(path.parent.name), *below(int(path.parent.name))}
    return found


def descriptor_count() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_values_and_bytes_come_back() -> None:
    async def scenario(workers: Workers) -> None:
        assert await workers.call(LOAD, b'{"a": [1, null]}') == {"a": [1, None]}
        item = {"code_prompt": "x" * 200_000, "test": "", "entry_point": "f", "time_limit_sec": 1}
        made = await workers.call(
            "benchyard.scorers.standalone.parsers:make_bigcodebench_job",
            b"def f(): pass",
            {"item": item},
            WorkerLimits(output_bytes=1024**2),
        )
        assert isinstance(made, bytes)
        assert b"def f(): pass" in made
        assert len(made) > 200_000

    live(scenario)


def test_a_descriptor_is_read_from_its_beginning_and_stays_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"[1]")

    async def scenario(workers: Workers) -> None:
        with (tmp_path / "file").open("rb") as file:
            assert [await workers.call(LOAD, file.fileno()) for _ in range(2)] == [[1], [1]]

    live(scenario)


@pytest.mark.parametrize(
    ("function", "content", "parameters", "limits", "limit"),
    [
        (SAYS, HOSTILE, FOR_EVER, WorkerLimits(seconds=0.1), "time"),
        (LOAD, b"[" + b"[]," * 3_000_000 + b"1]", {}, WorkerLimits(memory_bytes=100 * 1024**2), "memory"),
        (LOAD, b'"' + b"a" * 100_000 + b'"', {}, WorkerLimits(), "output"),
        (
            "benchyard.scorers.standalone.swe_pro_results:text_of",
            b"diff --git a b\n" * 10_000,
            {},
            WorkerLimits(output_bytes=1000),
            "output",
        ),
        (LOAD, b"[", {}, WorkerLimits(), None),
        (LOAD, b"[]", {"no": "such parameter"}, WorkerLimits(), None),
        ("faulthandler:_sigsegv", b"", {}, WorkerLimits(), None),
    ],
    ids=["time", "memory", "output", "bytes", "raises", "parameter", "dies"],
)
def test_failed_call_says_why_and_the_next_call_works(
    function: str, content: bytes, parameters: dict[str, str], limits: WorkerLimits, limit: str | None
) -> None:
    async def scenario(workers: Workers) -> None:
        neighbour = asyncio.create_task(workers.call(LOAD, b"[2]"))
        with pytest.raises(WorkerFailed) as failed:
            await workers.call(function, content, parameters, limits)
        assert failed.value.details["limit"] == limit
        assert await neighbour == [2]
        assert await workers.call(LOAD, b"[3]") == [3]

    live(scenario)


def test_the_loop_goes_on_while_a_worker_takes_for_ever() -> None:
    async def scenario(workers: Workers) -> None:
        assert await workers.call(LOAD, b"[]") == []
        with loop_probe() as probe:
            hostile = asyncio.create_task(workers.call(SAYS, HOSTILE, FOR_EVER, WorkerLimits(seconds=0.1)))
            assert await workers.call(LOAD, b"[1]") == [1]
            assert not hostile.done()
            with pytest.raises(WorkerFailed, match=r"took longer than 0\.1 s"):
                await hostile
        assert probe.slow == []

    live(scenario)


def test_a_function_that_is_not_there_is_no_fault_of_the_content() -> None:
    async def scenario(workers: Workers) -> None:
        with pytest.raises(BenchyardError, match="could not be started") as failed:
            await workers.call("benchyard.nowhere:function", b"")
        assert not isinstance(failed.value, WorkerFailed)
        assert await workers.call(LOAD, b"[3]") == [3]

    live(scenario)


def test_work_is_taken_up_again_when_somebody_kills_the_process_that_starts_workers() -> None:
    async def scenario(workers: Workers) -> None:
        assert await workers.call(LOAD, b"[]") == []
        (starter,) = started()
        slow = asyncio.create_task(workers.call(SAYS, HOSTILE, FOR_EVER, WorkerLimits(seconds=1)))
        await eventually(lambda: bool(below(starter)), "a worker is started")
        (worker,) = below(starter)
        os.kill(starter, signal.SIGKILL)
        await eventually(lambda: not is_alive(worker), "the worker ends")
        # It goes on in a new one, and is ended there by its own limit.
        with pytest.raises(WorkerFailed) as failed:
            await slow
        assert failed.value.details["limit"] == "time"
        assert started().isdisjoint({starter, worker})

    live(scenario)


def test_a_call_that_is_cancelled_ends_its_worker() -> None:
    async def scenario(workers: Workers) -> None:
        call = asyncio.create_task(workers.call(SAYS, HOSTILE, FOR_EVER))
        await eventually(lambda: len(started()) == 2, "a worker is started")
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await eventually(lambda: len(started()) == 1, "the worker ends")
        assert await workers.call(LOAD, b"[3]") == [3]

    live(scenario)


def test_nothing_is_left_when_workers_are_closed() -> None:
    async def live() -> None:
        descriptors = descriptor_count()
        async with Workers() as workers:
            call = asyncio.create_task(workers.call(SAYS, HOSTILE, FOR_EVER))
            await eventually(lambda: len(started()) == 2, "a worker is started")
            left = started()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        await eventually(lambda: not any(map(is_alive, left)), "all have ended")
        assert await call_once(LOAD, b"[3]") == [3]
        await eventually(lambda: descriptor_count() <= descriptors, "all descriptors are closed")

    asyncio.run(live())
    assert started() == set()


def test_workers_end_with_a_server_that_is_killed() -> None:
    script = (
        "import asyncio\nfrom benchyard.workers.workers import call_once\n"
        f"asyncio.run(call_once({SAYS!r}, {HOSTILE!r}, {FOR_EVER!r}))\n"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as server:
        deadline = time.monotonic() + 60
        while len(below(server.pid)) < 2:
            assert time.monotonic() < deadline, "no worker was started"
            time.sleep(0.01)
        left = below(server.pid)
        server.kill()
    while any(map(is_alive, left)):
        assert time.monotonic() < deadline, "a worker outlived its server"
        time.sleep(0.01)


def test_long_parameters_are_not_felt() -> None:
    """They are written as JSON beside the event loop, and arrive whole."""
    items = [{"text": "é" * 50, "numbers": [number] * 5} for number in range(100_000)]
    parameters = {"items": items}

    async def scenario() -> None:
        with loop_probe() as probe:
            written = await workers._encoded(parameters)
        assert probe.slow == []
        assert len(written) > 10_000_000
        encoded.append(written)

    encoded: list[bytes] = []
    asyncio.run(scenario())
    assert json.loads(encoded[0]) == parameters
