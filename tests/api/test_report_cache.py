"""Reports that were made: one making for all who ask, again not too often, and of ended jobs never again."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from benchyard.api.report_cache import Report, ReportCache


def _maker(made: list[int], *, fails: bool = False) -> Callable[[], Awaitable[Report]]:
    async def make() -> Report:
        made.append(len(made))
        await asyncio.sleep(0)
        if fails:
            raise ValueError("it broke")
        return Report(f"report {len(made)}".encode())

    return make


def test_all_who_ask_at_once_wait_for_one_making() -> None:
    async def main() -> None:
        reports, made = ReportCache(), list[int]()
        asked = (reports.get("running", _maker(made), is_settled=False) for _ in range(10))
        assert {report.packed for report in await asyncio.gather(*asked)} == {b"report 1"}
        # A moment later it is still the same one.
        await reports.get("running", _maker(made), is_settled=False)
        await reports.get("another", _maker(made), is_settled=False)
        assert len(made) == 2

    asyncio.run(main())


def test_a_report_that_no_longer_changes_is_remembered() -> None:
    async def main() -> None:
        reports, made = ReportCache(), list[int]()
        first = await reports.get("ended", _maker(made), is_settled=True)
        assert reports.find("ended") is first
        assert await reports.get("ended", _maker(made), is_settled=True) is first
        assert made == [0]

    asyncio.run(main())


def test_a_failure_is_told_and_tried_again() -> None:
    async def main() -> None:
        reports, made = ReportCache(), list[int]()
        with pytest.raises(ValueError, match="it broke"):
            await reports.get("running", _maker(made, fails=True), is_settled=False)
        assert (await reports.get("running", _maker(made), is_settled=False)).packed == b"report 2"

    asyncio.run(main())
