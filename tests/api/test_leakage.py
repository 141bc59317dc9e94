"""Leaks are counted now and then, and a server's own helpers are none."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchyard.api.metrics import LeakCounts
from benchyard.hosts.leaks import KINDS, Leak
from benchyard.testing.server import RunningServer
from tests.api.devbox import create

NOTHING = dict.fromkeys(KINDS, 0)


class Machine:
    """What looks find, how many there were, and what time it is."""

    def __init__(self) -> None:
        self.leaks: list[Leak] = []
        self.looks = 0
        self.now = 100.0
        self.may_answer = threading.Event()
        self.may_answer.set()

    def find(self) -> list[Leak]:
        self.looks += 1
        assert self.may_answer.wait(20)
        return list(self.leaks)


@pytest.fixture
def native(tmp_path: Path) -> Iterator[RunningServer]:
    with RunningServer(tmp_path / "data") as running:
        yield running


def counted(server: RunningServer) -> dict[str, int]:
    page = httpx.get(f"{server.url}/metrics", headers={"authorization": f"Bearer {server.key}"}, timeout=30)
    assert page.status_code == 200, page.text
    prefix = 'benchyard_leaks{kind="'
    lines = [line.removeprefix(prefix) for line in page.text.splitlines() if line.startswith(prefix)]
    return {line.partition('"')[0]: int(float(line.rpartition(" ")[2])) for line in lines}


def test_many_who_ask_at_once_cost_one_look() -> None:
    machine = Machine()
    machine.leaks = [Leak("folder", "a", ""), Leak("folder", "b", ""), Leak("mount", "c", "")]

    async def main() -> None:
        leakage = LeakCounts(machine.find, 60, lambda: machine.now)
        answers = await asyncio.gather(*(leakage.counts() for _ in range(50)))
        assert answers == [{**NOTHING, "folder": 2, "mount": 1}] * 50

    asyncio.run(main())
    assert machine.looks == 1


def test_an_old_count_is_shown_until_the_next_look_is_done() -> None:
    machine = Machine()

    async def main() -> None:
        leakage = LeakCounts(machine.find, 60, lambda: machine.now)
        assert await leakage.counts() == NOTHING
        machine.leaks = [Leak("folder", "a", "")]
        machine.now += 59
        assert await leakage.counts() == NOTHING
        assert machine.looks == 1
        machine.may_answer.clear()
        machine.now += 1
        assert await leakage.counts() == NOTHING
        machine.may_answer.set()
        for _ in range(2000):
            if await leakage.counts() != NOTHING:
                break
            await asyncio.sleep(0.01)
        assert await leakage.counts() == {**NOTHING, "folder": 1}
        assert machine.looks == 2

    asyncio.run(main())


def test_a_look_that_fails_is_made_again() -> None:
    machine = Machine()

    def find() -> list[Leak]:
        if machine.find() or machine.looks == 1:
            raise FileNotFoundError("it went away")
        return []

    async def main() -> None:
        leakage = LeakCounts(find, 60, lambda: machine.now)
        assert await leakage.counts() == {}
        assert await leakage.counts() == NOTHING

    asyncio.run(main())


def test_a_server_with_devboxes_has_no_leaks_and_shows_those_there_are(native: RunningServer) -> None:
    headers = {"authorization": f"Bearer {native.key}"}
    with httpx.Client(base_url=native.url, headers=headers, timeout=40) as api:
        create(api).start("setsid sleep 600")
        assert counted(native) == NOTHING
    native.restart()
    stray = native.data / "host" / "devboxes" / "dbx_nobody"
    stray.mkdir()
    assert counted(native) == {**NOTHING, "folder": 1}
    stray.rmdir()
