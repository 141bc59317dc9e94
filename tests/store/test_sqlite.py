"""The writer of SQLite files: many pieces in one transaction, each with its own fate."""

import asyncio
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url

from benchyard.errors import StoreError
from benchyard.store.sqlite import SqliteConnections

ADD = text("INSERT INTO numbers VALUES (:number)")


class Numbers:
    """A file with one table."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connections = SqliteConnections(make_url(f"sqlite:///{path}"))

    async def __aenter__(self) -> "Numbers":
        await self.connections.write(
            lambda connection: connection.execute(text("CREATE TABLE numbers (number PRIMARY KEY)"))
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connections.close()

    async def add(self, number: int) -> int:
        def work(connection: Connection) -> int:
            connection.execute(ADD, {"number": number})
            if number < 0:
                raise ValueError(number)
            return number

        return await self.connections.write(work)

    def kept(self) -> list[int]:
        with sqlite3.connect(self.path) as file:
            return sorted(row[0] for row in file.execute("SELECT number FROM numbers"))


def test_failing_write_does_not_fail_others(tmp_path: Path) -> None:
    async def work() -> None:
        async with Numbers(tmp_path / "n.db") as numbers:
            given = [1, 2, -3, 4, -5, *range(10, 200)]
            told = await asyncio.gather(*(numbers.add(each) for each in given), return_exceptions=True)
            assert [each if isinstance(each, int) else -1 for each in told] == [
                each if each > 0 else -1 for each in given
            ]
            assert numbers.kept() == sorted(each for each in given if each > 0)

    asyncio.run(work())


def test_answered_writes_are_on_disk_and_waiting_ones_follow(tmp_path: Path) -> None:
    async def work() -> None:
        numbers = Numbers(tmp_path / "n.db")
        async with numbers:
            assert await numbers.add(1) == 1
            assert numbers.kept() == [1]
            waiting = [asyncio.ensure_future(numbers.add(each)) for each in range(2, 50)]
            await asyncio.sleep(0)
        assert await asyncio.gather(*waiting) == list(range(2, 50))
        assert numbers.kept() == list(range(1, 50))
        with pytest.raises(StoreError, match="closed"):
            await numbers.add(99)

    asyncio.run(work())


def test_a_locked_file_is_waited_for_or_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchyard.store.sqlite._PATIENCE_SECONDS", 0.3)

    async def work() -> None:
        async with Numbers(tmp_path / "n.db") as numbers:
            other = sqlite3.connect(numbers.path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="locked"):
                await numbers.add(1)
            waiting = asyncio.ensure_future(numbers.add(2))
            await asyncio.sleep(0.1)
            other.execute("COMMIT")
            assert await waiting == 2
            other.close()
            assert numbers.kept() == [2]

    asyncio.run(work())


def test_opening_waits_longer_for_others_than_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchyard.store.sqlite._PATIENCE_SECONDS", 0.1)

    async def work() -> None:
        async with Numbers(tmp_path / "n.db") as numbers:
            other = sqlite3.connect(numbers.path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            opening = SqliteConnections(make_url(f"sqlite:///{numbers.path}"))
            waiting = asyncio.ensure_future(
                opening.prepare(lambda connection: connection.execute(ADD, {"number": 7}).rowcount)
            )
            with pytest.raises(StoreError, match="locked"):
                await numbers.add(1)
            assert not waiting.done()
            other.execute("COMMIT")
            assert await waiting == 1
            await opening.close()
            other.close()
            assert numbers.kept() == [7]

    asyncio.run(work())
