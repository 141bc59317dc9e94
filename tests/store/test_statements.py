"""Statements that are run for many rows at once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine

from benchyard.errors import Conflict
from benchyard.models.base import Columns, Record
from benchyard.store.collection import RecordRows
from benchyard.store.database import Store
from benchyard.store.statements import StatementRows, apply_together
from benchyard.store.tables import TABLES, metadata

MANY = 45


class Named(Record):
    name: str
    word: str = ""

    def columns(self) -> Columns:
        return Columns(name=self.name)


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        metadata.create_all(connection)
        yield connection
    engine.dispose()


def row(number: int, word: str) -> dict[str, Any]:
    record = Named(id=f"x{number}", create_time_ms=number, name=f"n{number}", word=word)
    return RecordRows[Named](TABLES["secrets"]).values(record)


def words(connection: Connection) -> dict[str, str]:
    found = connection.exec_driver_sql("SELECT id, body FROM secrets ORDER BY seq")
    return {id: Named.model_validate_json(body).word for id, body in found.all()}


def test_many_rows_are_added_and_changed_each_to_its_own_by_few_statements(connection: Connection) -> None:
    rows = RecordRows[Named](TABLES["secrets"])
    told: list[str] = []
    own: Any = connection.connection.driver_connection
    own.set_trace_callback(told.append)
    rows.insert.apply(connection, *({"id": f"x{each}", **row(each, "new")} for each in range(MANY)))
    changed = [{"own_id": f"x{each}", **row(each, f"changed {each}")} for each in range(1, MANY)]
    apply_together(connection, [StatementRows(rows.update, [each]) for each in changed])
    rows.update.apply(connection, {"own_id": "none", **row(99, "x")}, {"own_id": "nor this", **row(98, "x")})
    own.set_trace_callback(None)
    expected = {f"x{each}": f"changed {each}" for each in range(1, MANY)}
    assert words(connection) == {"x0": "new", **expected}
    assert len([each for each in told if each.startswith(("INSERT", "UPDATE"))]) < MANY // 2


def test_of_many_that_are_written_at_once_only_the_one_that_cannot_be_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with Store(f"sqlite:///{tmp_path / 'benchyard.db'}") as store:
            live = store.live("secrets", Named)
            for each in range(10):
                await live.insert(Named(id=f"x{each}", create_time_ms=each, name=f"n{each}"))

            def change(record: Named) -> Named:
                name = "n0" if record.id == "x7" else record.name
                return record.model_copy(update={"name": name, "word": record.id})

            changes = (live.change(f"x{each}", change) for each in range(10))
            found = await asyncio.gather(*changes, return_exceptions=True)
            assert [index for index, each in enumerate(found) if isinstance(each, Exception)] == [7]
            kept = await store.collection("secrets", Named).all({})
            assert {each.id: each.word for each in kept} == {
                f"x{each}": "" if each == 7 else f"x{each}" for each in range(10)
            }
            with pytest.raises(Conflict):
                await live.insert(Named(id="x1", create_time_ms=1, name="other"))

    asyncio.run(main())
