"""Pages: all items by iterating, the present ones by index."""

import asyncio
from typing import Any

import pytest

from benchyard.client import AsyncClient, Client
from benchyard.errors import BenchyardError, UsageError
from tests.client.stub import Answer, Asked, stub, talking


def benchmark(number: int) -> dict[str, Any]:
    return {
        "id": f"bmd_{number}",
        "name": str(number),
        "status": "active",
        "metadata": {},
        "scenarioIds": [],
        "scenario_ids": [f"scn_{number}"],
        "create_time_ms": 1,
    }


def three(asked: Asked) -> Answer:
    after = asked.query.get("starting_after")
    if after is None:
        body = {"benchmarks": [benchmark(3), benchmark(2)], "has_more": True, "total_count": 3}
        return Answer(body)
    assert after == "bmd_2"
    return Answer({"benchmarks": [benchmark(1)], "has_more": False, "total_count": 3})


def test_a_page_is_iterated_over_all_pages_and_indexed_on_its_own() -> None:
    with talking(three) as (client, server):
        page = client.benchmarks.list(limit=2, search="x")
        assert len(server.asked) == 1
        assert (len(page), page.has_more, page.total_count) == (2, True, 3)
        assert page[0].scenario_ids == ["scn_3"]
        assert page[-1].id == "bmd_2"
        assert [each.id for each in page[:1]] == ["bmd_3"]
        assert page.benchmarks == page.items
        assert [each.id for each in page] == ["bmd_3", "bmd_2", "bmd_1"]
        assert [each.id for each in page] == ["bmd_3", "bmd_2", "bmd_1"]
        following = page.get_next_page()
        assert following is not None
        assert (following[0].id, following.get_next_page()) == ("bmd_1", None)
        assert repr(page) == "<Page of 2 benchmarks, and more>"
        assert all(asked.query["limit"] == "2" and asked.query["search"] == "x" for asked in server.asked)
        with pytest.raises(AttributeError, match="scenarios"):
            _ = page.scenarios
        with pytest.raises(IndexError):
            _ = page[2]


def test_an_async_listing_is_awaited_or_iterated() -> None:
    async def look() -> None:
        async with AsyncClient(server.server) as client:
            page = await client.benchmarks.list()
            assert (page[0].id, len(page), page.has_more) == ("bmd_3", 2, True)
            assert [each.id async for each in page] == ["bmd_3", "bmd_2", "bmd_1"]
            assert [each.id async for each in client.benchmarks.list()] == ["bmd_3", "bmd_2", "bmd_1"]
            with pytest.raises(UsageError, match="async for"):
                list(page)
            last = await page.get_next_page()
            assert last is not None
            assert [each.id for each in last] == ["bmd_1"]
            assert await last.get_next_page() is None

    with stub(three) as server:
        asyncio.run(look())


@pytest.mark.parametrize(
    "body", [[], {}, {"benchmarks": None}, {"benchmarks": [{}]}, {"benchmarks": [7]}, {"benchmarks": 7}]
)
def test_invalid_page_is_an_error(body: Any) -> None:
    with (
        stub(lambda asked: Answer(b"null" if body is None else body)) as server,
        Client(server.server) as client,
        pytest.raises(BenchyardError, match="not a page of benchmarks"),
    ):
        client.benchmarks.list()


def test_a_page_that_says_more_but_holds_nothing_is_the_last() -> None:
    with talking(lambda asked: Answer({"benchmarks": [], "has_more": True})) as (client, _server):
        page = client.benchmarks.list()
        assert (list(page), page.has_more) == ([], False)
