"""The database opens, and says what is wrong with it."""

import asyncio
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from benchyard.errors import StoreError, UsageError
from benchyard.models.base import Record
from benchyard.store.database import Store


def test_servers_that_start_at_once_migrate_once(database_url: str) -> None:
    async def open_and_use(number: int) -> None:
        async with Store(database_url) as store:
            await store.collection("objects", Record).insert(Record(id=f"r{number}", create_time_ms=number))

    async def main() -> int:
        await asyncio.gather(*(open_and_use(number) for number in range(4)))
        async with Store(database_url) as store:
            return len(await store.collection("objects", Record).all({}))

    assert asyncio.run(main()) == 4


@pytest.mark.parametrize("url", ["mysql://localhost/x", "nonsense", "sqlite+pysqlite:///x"])
def test_an_unknown_database_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="sqlite"):
        Store(url)


def test_a_postgres_that_is_not_there_is_a_store_error() -> None:
    async def main() -> None:
        async with Store("postgresql://nobody@127.0.0.1:1/x"):
            pass

    with pytest.raises(StoreError) as error:
        asyncio.run(main())
    assert error.value.retryable


def test_a_locked_database_is_a_store_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchyard.store.sqlite._PATIENCE_SECONDS", 0.3)
    file = tmp_path / "benchyard.db"

    async def main() -> None:
        async with Store(f"sqlite:///{file}") as store:
            things = store.collection("devboxes", Record)
            other = sqlite3.connect(file, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            try:
                with pytest.raises(StoreError, match="locked"):
                    await things.insert(Record(id="r1", create_time_ms=1))
            finally:
                other.close()
            await things.insert(Record(id="r1", create_time_ms=1))

    asyncio.run(main())


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'benchyard.db'}")

    async def main() -> None:
        async with store:
            things = store.collection("devboxes", Record)
        await things.find("x")

    with pytest.raises(StoreError, match="closed"):
        asyncio.run(main())


def test_sqlite_keeps_what_was_committed_through_a_crash(tmp_path: Path) -> None:
    file = tmp_path / "benchyard.db"

    def pragmas(connection: Connection) -> tuple[str, int]:
        return tuple(
            connection.execute(text(f"PRAGMA {name}")).scalar_one()
            for name in ("journal_mode", "synchronous")
        )

    async def main() -> tuple[str, int]:
        async with Store(f"sqlite:///{file}") as store:
            return await store.write(pragmas)

    assert asyncio.run(main()) == ("wal", 2)
