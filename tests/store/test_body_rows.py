"""Some values of many records, taken by the database itself."""

import asyncio
import json
import os
from collections.abc import Sequence

from benchyard.models.base import Columns, Record
from benchyard.store.body_values import BodyPath
from benchyard.store.collection import Collection
from benchyard.store.database import Store
from tests.store.test_unreadable import filled

PATHS: list[BodyPath] = [("text",), ("parts", "cost"), ("lines", 0), ("lines", 1), ("flag",)]


class Part(Record):
    text: str = ""
    parts: dict[str, float] = {}  # noqa: RUF012  (pydantic copies it)
    lines: list[str] = []  # noqa: RUF012
    flag: bool = False

    def columns(self) -> Columns:
        return Columns(parent="p")


def _content(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        file.seek(0)
        return file.read()


async def _rows(
    things: Collection[Part], paths: Sequence[BodyPath], share: float = 1.0
) -> list[list[object]]:
    descriptor = os.memfd_create("rows")
    await things.write_rows({"parent": "p"}, paths, descriptor, share)
    rows: list[list[object]] = json.loads(_content(descriptor))
    return rows


def test_values_are_those_of_the_records(database_url: str) -> None:
    hostile = 'comma, "quote", \x00, \\u0000, line\nbreak, \u2028 and ü'

    async def main() -> None:
        async with Store(database_url) as store:
            parts = store.collection("objects", Part)
            assert await _rows(parts, PATHS) == []
            whole = Part(id="a", create_time_ms=1, text=hostile, lines=["x", "y"], flag=True)
            await parts.insert(whole.model_copy(update={"parts": {"cost": 0.25, "calls": 3}}))
            await parts.insert(Part(id="b", create_time_ms=2, parts={"calls": 3}))
            full, bare = sorted(await _rows(parts, PATHS), key=lambda row: row[0] == "")
            # Postgres stores no NUL, which is shown as a replacement there.
            assert str(full[0]).replace("\ufffd", "\x00") == hostile
            assert full[1:] == [0.25, "x", "y", True]
            assert bare == ["", None, None, None, False]

    asyncio.run(main())


def test_a_broken_record_hides_no_other(database_url: str) -> None:
    async def main() -> None:
        async with Store(database_url) as store:
            things = await filled(store)
            descriptor = os.memfd_create("rows")
            await things.write_rows({}, [("value",), ("id",)], descriptor)
            rows = json.loads(_content(descriptor))
            # One of the three that are broken is JSON all the same.
            assert sorted(rows, key=str) == [
                ["a-secret-value", None],
                *([number, f"thing_{number}"] for number in (0, 1, 2, 6, 7)),
            ]

    asyncio.run(main())


def test_a_share_is_always_the_same_and_about_that_large(database_url: str) -> None:
    async def main() -> None:
        async with Store(database_url) as store:
            parts = store.collection("objects", Part)
            made = [Part(id=f"p{number}", create_time_ms=1) for number in range(400)]
            await store.write(parts.rows.adding(made))
            some = await _rows(parts, [("id",), ("flag",)], 0.25)
            assert 90 <= len(some) <= 110
            assert await _rows(parts, [("id",), ("flag",)], 0.25) == some

    asyncio.run(main())


def test_all_bodies_are_written_some_at_a_time(database_url: str) -> None:
    async def main() -> None:
        async with Store(database_url) as store:
            parts = store.collection("objects", Part)
            await store.write(
                parts.rows.adding([Part(id=f"p{number}", create_time_ms=1) for number in range(1001)])
            )
            descriptor = os.memfd_create("bodies")
            await parts.write_bodies({"parent": "p"}, descriptor)
            ids = [json.loads(line)["id"] for line in _content(descriptor).splitlines()]
            assert ids == [f"p{number}" for number in reversed(range(1001))]

    asyncio.run(main())
