"""A record that cannot be read hides no other, and is told of when it is asked for."""

import asyncio
import logging
from functools import partial

import pytest
from sqlalchemy import Connection, update

from benchyard.errors import Unreadable
from benchyard.models.base import Columns, Record
from benchyard.models.pages import Query
from benchyard.store.collection import Collection
from benchyard.store.database import Store
from benchyard.store.tables import TABLES

BROKEN = ("thing_3", "thing_4", "thing_5")


class Thing(Record):
    name: str
    value: int

    def columns(self) -> Columns:
        return Columns(name=self.name)


async def filled(store: Store) -> Collection[Thing]:
    """Eight things, three of which make no sense any more."""
    things = store.collection("objects", Thing)
    for number in range(8):
        await things.insert(Thing(id=f"thing_{number}", create_time_ms=number, name="same", value=number))
    table = TABLES["objects"]
    for id, body in zip(BROKEN, ("{", '{"value": "a-secret-value"}', "\x7fELF"), strict=True):
        statement = update(table).where(table.c.id == id).values(body=body)
        await store.write(partial(Connection.execute, statement=statement))
    return things


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
def test_pages_are_complete_without_it(limit: int, database_url: str) -> None:
    async def main() -> None:
        async with Store(database_url) as store:
            things = await filled(store)
            seen: list[int] = []
            after = None
            while True:
                page = await things.page(Query(limit=limit, starting_after=after))
                seen += [item.value for item in page.items]
                assert page.total_count == 8
                if not page.has_more:
                    break
                assert len(page.items) == limit
                after = page.items[-1].id
            assert seen == [7, 6, 2, 1, 0]
            assert [thing.value for thing in await things.all({})] == seen
            assert await things.ids({}) == {f"thing_{number}" for number in range(8)}

    asyncio.run(main())


def test_it_may_be_a_cursor(database_url: str) -> None:
    async def main() -> None:
        async with Store(database_url) as store:
            things = await filled(store)
            page = await things.page(Query(starting_after="thing_4"))
            assert [item.value for item in page.items] == [2, 1, 0]

    asyncio.run(main())


def test_error_names_the_broken_place_and_not_its_content(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with Store(database_url) as store:
            things = await filled(store)
            for id in BROKEN:
                with pytest.raises(Unreadable, match=id) as told:
                    await things.get(id)
                assert "a-secret-value" not in told.value.message
                with pytest.raises(Unreadable, match=id):
                    await things.change(id, lambda each: each)
            await things.page(Query())

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert all(id in caplog.text for id in BROKEN)
    assert "a-secret-value" not in caplog.text


def test_it_can_be_deleted(database_url: str) -> None:
    async def main() -> None:
        async with Store(database_url) as store:
            things = await filled(store)
            for id in BROKEN:
                await things.delete(id)
            assert len(await things.ids({})) == 5

    asyncio.run(main())
