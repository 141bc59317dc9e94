"""Collections keep records alike in SQLite and Postgres."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from pydantic import Field

from benchyard.errors import Conflict, NotFound, UsageError
from benchyard.models.base import Columns, Record
from benchyard.models.pages import Query
from benchyard.store.collection import Collection
from benchyard.store.database import Store
from benchyard.testing.loop_probe import loop_probe


class Thing(Record):
    name: str | None = None
    status: str | None = None
    kind: str = "plain"
    metadata: dict[str, str] = Field(default_factory=dict)

    def columns(self) -> Columns:
        return Columns(name=self.name, status=self.status)


def thing(number: int, **fields: object) -> Thing:
    return Thing.model_validate({"id": f"thing_{number}", "create_time_ms": number, **fields})


def in_store(url: str, work: Callable[[Collection[Thing]], Awaitable[None]], table: str = "devboxes") -> None:
    async def main() -> None:
        async with Store(url) as store:
            await work(store.collection(table, Thing))

    asyncio.run(main())


def test_inserted_record_is_found_after_reopening(database_url: str) -> None:
    kept = thing(1, name="näme", metadata={"k": "v"}, request_hash="abc")

    async def write(things: Collection[Thing]) -> None:
        assert await things.insert(kept) == kept

    async def read(things: Collection[Thing]) -> None:
        assert await things.get(kept.id) == kept
        assert await things.find_named("näme") == kept
        assert await things.find("thing_2") is None

    in_store(database_url, write)
    in_store(database_url, read)


def test_an_unknown_id_is_not_found(database_url: str) -> None:
    async def work(things: Collection[Thing]) -> None:
        with pytest.raises(NotFound):
            await things.get("nothing")
        with pytest.raises(NotFound):
            await things.delete("nothing")
        with pytest.raises(NotFound):
            await things.change("nothing", lambda each: each)

    in_store(database_url, work)


def test_an_id_is_taken_once(database_url: str) -> None:
    async def work(things: Collection[Thing]) -> None:
        await things.insert(thing(1))
        with pytest.raises(Conflict) as conflict:
            await things.insert(thing(1, name="other"))
        assert conflict.value.details["existing"] is True
        assert (await things.get("thing_1")).name is None

    in_store(database_url, work)


def test_a_unique_name_is_taken_once_and_free_again_after_a_delete(database_url: str) -> None:
    async def work(things: Collection[Thing]) -> None:
        await things.insert(thing(1, name="A"))
        with pytest.raises(Conflict):
            await things.insert(thing(2, name="A"))
        await things.insert(thing(3, name="B"))
        with pytest.raises(Conflict, match="name as another"):
            await things.change("thing_3", lambda each: each.model_copy(update={"name": "A"}))
        await things.delete("thing_1")
        await things.insert(thing(2, name="A"))

    in_store(database_url, work, "secrets")


def test_the_same_request_gets_what_it_made_and_another_body_is_refused(database_url: str) -> None:
    async def work(things: Collection[Thing]) -> None:
        first, is_new = await things.insert_once(thing(1, name="first", request_hash="h"))
        again, is_new_again = await things.insert_once(thing(1, name="second", request_hash="h"))
        assert (is_new, is_new_again) == (True, False)
        assert again == first
        with pytest.raises(UsageError):
            await things.insert_once(thing(1, request_hash="other"))

    in_store(database_url, work)


def test_changes_at_once_are_all_kept(database_url: str) -> None:
    def one_more(each: Thing) -> Thing:
        return each.model_copy(update={"metadata": {"n": str(int(each.metadata["n"]) + 1)}})

    async def work(things: Collection[Thing]) -> None:
        await things.insert(thing(1, metadata={"n": "0"}))
        await asyncio.gather(*(things.change("thing_1", one_more) for _ in range(20)))
        assert (await things.get("thing_1")).metadata == {"n": "20"}

    in_store(database_url, work)


def test_a_change_that_raises_changes_nothing(database_url: str) -> None:
    def refuse(_: Thing) -> Thing:
        raise Conflict("no")

    async def work(things: Collection[Thing]) -> None:
        await things.insert(thing(1, status="old"))
        with pytest.raises(Conflict):
            await things.change("thing_1", refuse)
        await things.change("thing_1", lambda each: each.model_copy(update={"status": "new"}))
        assert [each.id for each in await things.all({"status": "new"})] == ["thing_1"]

    in_store(database_url, work)


def test_pages_walk_from_the_newest_to_the_oldest(database_url: str) -> None:
    async def work(things: Collection[Thing]) -> None:
        for number in range(5):
            await things.insert(thing(number))
        first = await things.page(Query(limit=2))
        second = await things.page(Query(limit=2, starting_after=first.items[-1].id))
        last = await things.page(
            Query(limit=2, starting_after=second.items[-1].id, include_total_count=False)
        )
        seen = [item.create_time_ms for page in (first, second, last) for item in page.items]
        assert seen == [4, 3, 2, 1, 0]
        assert [page.has_more for page in (first, second, last)] == [True, True, False]
        assert [page.total_count for page in (first, second, last)] == [5, 5, None]

    in_store(database_url, work)


@pytest.mark.parametrize("limit", [0, -1, 5001])
def test_a_limit_out_of_range_is_refused(limit: int, database_url: str) -> None:
    async def work(things: Collection[Thing]) -> None:
        with pytest.raises(UsageError):
            await things.page(Query(limit=limit))

    in_store(database_url, work)


def test_an_unknown_cursor_is_refused(database_url: str) -> None:
    async def work(things: Collection[Thing]) -> None:
        with pytest.raises(UsageError, match="starting_after"):
            await things.page(Query(starting_after="gone"))

    in_store(database_url, work)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(where={"status": "on"}), [2, 0]),
        (Query(where={"status": ["on", "off"]}), [2, 1, 0]),
        (Query(where={"kind": "odd"}), [1]),
        (Query(where={"metadata.team": "a"}), [2, 0]),
        (Query(where={"metadata.team": ["b", "c"]}), [1]),
        (Query(where={'metadata.we"ird.key': "x"}), [1]),
        (Query(where={"metadata.team": "a", "status": "off"}), []),
        (Query(where={"status": []}), []),
        (Query(search="thing_1"), [1]),
        (Query(search="BOX"), [2, 1]),
        (Query(search="100%"), [2]),
        (Query(search="_"), []),
    ],
)
def test_filters_choose_records(query: Query, expected: list[int], database_url: str) -> None:
    async def work(things: Collection[Thing]) -> None:
        await things.insert(thing(0, status="on", metadata={"team": "a"}))
        odd = {"team": "b", 'we"ird.key': "x"}
        await things.insert(thing(1, status="off", name="my box", kind="odd", metadata=odd))
        await things.insert(thing(2, status="on", name="Box 100%", metadata={"team": "a"}))
        assert [item.create_time_ms for item in (await things.page(query)).items] == expected

    in_store(database_url, work)


def test_metadata_keys_and_values_are_listed_once(database_url: str) -> None:
    async def work(things: Collection[Thing]) -> None:
        await things.insert(thing(0, metadata={"team": "b", "run": "1"}))
        await things.insert(thing(1, metadata={"team": "a"}))
        await things.insert(thing(2, metadata={"team": "b"}))
        await things.insert(thing(3, status="gone", metadata={"old": "x"}))
        await things.insert(thing(4))
        assert await things.metadata_keys({}) == ["old", "run", "team"]
        assert await things.metadata_keys({"status": "gone"}) == ["old"]
        assert await things.metadata_values("team", {}) == ["a", "b"]

    in_store(database_url, work)


def test_a_nul_character_is_refused_and_kept_out(database_url: str) -> None:
    async def work(things: Collection[Thing]) -> None:
        with pytest.raises(UsageError):
            await things.insert(thing(1, name="a\0b"))
        with pytest.raises(UsageError):
            await things.find("a\0b")
        with pytest.raises(UsageError):
            await things.page(Query(search="a\0b"))
        assert await things.all({}) == []

    in_store(database_url, work)


def test_a_nul_in_one_record_hides_no_other(database_url: str) -> None:
    odd = {"k": "a\0b", "quoted": "\\u0000 \\\0 \\\\u0000", "nul\0key": "x"}

    async def work(things: Collection[Thing]) -> None:
        kept = [thing(0, metadata=odd), thing(1, metadata={"k": "v"}, kind="other")]
        for each in kept:
            await things.insert(each)
        assert await things.all({"metadata.k": "v"}) == [kept[1]]
        assert await things.all({"kind": "plain"}) == [kept[0]]
        assert "k" in await things.metadata_keys({})
        assert await things.get("thing_0") == kept[0]

    in_store(database_url, work)


def test_a_name_that_no_index_holds_is_refused(database_url: str) -> None:
    async def work(things: Collection[Thing]) -> None:
        long = "".join(chr(0x20000 + number) for number in range(650))
        assert (await things.insert(thing(0, name=long))).name == long
        with pytest.raises(UsageError, match="2600 bytes"):
            await things.insert(thing(1, name=f"{long}x"))

    in_store(database_url, work)


class LargeThing(Thing):
    values: list[dict[str, int]] = Field(default_factory=list)


def test_a_large_record_is_not_felt_while_it_is_read(database_url: str) -> None:
    kept = LargeThing(id="thing_1", create_time_ms=1, name="large", values=[{"a": 1}] * 400_000)

    async def main() -> None:
        async with Store(database_url) as store:
            things = store.collection("devboxes", LargeThing)
            await things.insert(kept)
            with loop_probe() as probe:
                for find in (things.get("thing_1"), things.find_named("large")):
                    found = await find
                    assert found is not None
                    assert len(found.values) == 400_000
            assert probe.slow == []

    asyncio.run(main())
