"""Events: numbered, in order, and only those of the thing that is asked for."""

import asyncio

import pytest

from benchyard.store.database import Store
from benchyard.store.events import EventLog


def test_events_come_in_order_and_from_where_it_is_asked(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchyard.store.events.MOST_AT_ONCE", 4)

    async def work() -> None:
        async with Store(database_url) as store:
            events = EventLog(store)
            await store.write(events.adding("a", []))
            for number in range(3):
                await store.write(events.adding("a", [f"{number}-1", f"{number}-2"]))
                await store.write(events.adding("b", ["other"]))
            first = await events.after("a", 0)
            assert [body for _, body in first] == ["0-1", "0-2", "1-1", "1-2"]
            rest = await events.after("a", first[-1][0])
            assert [body for _, body in rest] == ["2-1", "2-2"]
            assert await events.after("a", rest[-1][0]) == []
            assert len(await events.after("b", 0)) == 3
            assert await events.after("c", 0) == []

    asyncio.run(work())
