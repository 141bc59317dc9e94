"""Collections that remember: what they tell is what is kept."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from benchyard.errors import NotFound
from benchyard.models.secrets import Secret
from benchyard.store.collection import LiveCollection
from benchyard.store.database import Store

Secrets = LiveCollection[Secret]


def secret(id: str = "sec_1", sealed: str = "0") -> Secret:
    return Secret(id=id, create_time_ms=1, update_time_ms=1, name=f"name of {id}", sealed=sealed)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[Store, Secrets]]:
    async with Store(url) as store:
        yield store, store.live("secrets", Secret)


def more(record: Secret) -> Secret:
    return record.model_copy(update={"sealed": str(int(record.sealed) + 1)})


def test_changes_follow_each_other_and_are_kept(database_url: str) -> None:
    async def work() -> None:
        async with opened(database_url) as (store, live):
            await live.insert(secret())
            await asyncio.gather(*(live.change("sec_1", more) for _ in range(50)))
            assert (await live.get("sec_1")).sealed == "50"
            assert (await store.collection("secrets", Secret).get("sec_1")).sealed == "50"

    asyncio.run(work())


def test_a_change_that_raises_changes_nothing(database_url: str) -> None:
    def refuse(record: Secret) -> Secret:
        raise ValueError(record.id)

    async def work() -> None:
        async with opened(database_url) as (store, live):
            await live.insert(secret())
            with pytest.raises(ValueError, match="sec_1"):
                await live.change("sec_1", refuse)
            assert (await live.get("sec_1")) == await store.collection("secrets", Secret).get("sec_1")
            with pytest.raises(NotFound):
                await live.change("sec_none", more)
            await live.delete("sec_1")
            assert await live.find("sec_1") is None

    asyncio.run(work())


def test_cancelled_change_leaves_memory_as_the_store(database_url: str) -> None:
    async def work() -> None:
        async with opened(database_url) as (store, live):
            await live.insert(secret())
            for _ in range(20):
                task = asyncio.ensure_future(live.change("sec_1", more))
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                kept = await store.collection("secrets", Secret).get("sec_1")
                assert await live.get("sec_1") == kept

    asyncio.run(work())


def test_more_than_it_remembers(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchyard.store.collection._REMEMBERED", 3)

    async def work() -> None:
        async with opened(database_url) as (_, live):
            for number in range(10):
                await live.insert(secret(f"sec_{number}"))
            await asyncio.gather(*(live.change(f"sec_{number}", more) for number in range(10)))
            assert [(await live.get(f"sec_{number}")).sealed for number in range(10)] == ["1"] * 10

    asyncio.run(work())
