"""The database opens, migrates, and says what is wrong with it."""

import asyncio
import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from benchyard.errors import StoreError, UsageError
from benchyard.models.base import Record
from benchyard.store import migrations
from benchyard.store.database import Store
from benchyard.store.tables import metadata


def test_the_schema_is_the_one_of_the_tables(database_url: str) -> None:
    async def main() -> list[object]:
        async with Store(database_url) as store:
            return await store.read(differences)

    assert asyncio.run(main()) == []


def test_the_steps_of_all_versions_come_to_what_a_new_database_has(database_url: str) -> None:
    def from_the_first(connection: Connection) -> list[object]:
        metadata.drop_all(connection)
        connection.execute(text("DELETE FROM alembic_version"))
        migrations.migrate(connection)
        return differences(connection)

    def written(connection: Connection) -> set[str]:
        if connection.dialect.name != "sqlite":
            return set()
        made = connection.execute(text("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
        return {" ".join(each.split()) for each in made.scalars()}

    async def main() -> None:
        async with Store(database_url) as store:
            at_once = await store.read(written)
            assert await store.write(from_the_first) == []
            assert await store.read(written) == at_once

    asyncio.run(main())


def differences(connection: Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(connection), metadata))


def test_the_newest_schema_is_told_by_the_names_of_its_files() -> None:
    assert ScriptDirectory(str(Path(migrations.__file__).parent)).get_heads() == [migrations.newest()]


def test_servers_that_start_at_once_migrate_once(database_url: str) -> None:
    async def open_and_use(number: int) -> None:
        async with Store(database_url) as store:
            await store.collection("objects", Record).insert(Record(id=f"r{number}", create_time_ms=number))

    async def main() -> int:
        await asyncio.gather(*(open_and_use(number) for number in range(4)))
        async with Store(database_url) as store:
            return len(await store.collection("objects", Record).all({}))

    assert asyncio.run(main()) == 4


def test_a_database_of_a_newer_version_is_refused(database_url: str) -> None:
    async def main() -> None:
        async with Store(database_url) as store:
            newer = text("UPDATE alembic_version SET version_num = '9999'")
            await store.write(lambda connection: connection.execute(newer))
        async with Store(database_url):
            pass

    with pytest.raises(StoreError, match="newer Benchyard"):
        asyncio.run(main())


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


def test_a_locked_database_is_a_store_error(tmp_path: Path) -> None:
    file = tmp_path / "benchyard.db"

    async def main() -> None:
        async with Store(f"sqlite:///{file}?timeout=0.1") as store:
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
