"""Reports that were made: one making for all who ask, again not too often, and of ended jobs never again."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable

import pytest
from starlette.requests import Request

from benchyard.api import report_cache
from benchyard.api.report_cache import Report, ReportCache, takes_gzip


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


def test_what_is_remembered_twice_counts_once() -> None:
    reports = ReportCache()
    for _ in range(10):
        reports.remember("job", Report(b"x" * 1000))
    assert reports.size == 1000
    reports.remember("job", Report(b"x" * 10))
    assert reports.size == 10


def test_what_was_asked_for_longest_ago_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_cache, "_REMEMBERED_BYTES", 2500)
    reports = ReportCache()
    for name in ("first", "second"):
        reports.remember(name, Report(b"x" * 1000))
    assert reports.find("first") is not None
    reports.remember("third", Report(b"x" * 1000))
    assert [reports.find(name) is not None for name in ("first", "second", "third")] == [True, False, True]
    assert reports.size == 2000


def test_reports_of_what_runs_are_bounded_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_cache, "_RECENT_BYTES", 20)

    async def main() -> None:
        reports, made = ReportCache(), list[int]()
        for name in ("a", "b", "c"):
            await reports.get(name, _maker(made), is_settled=False)
        # Two of eight bytes each are kept, so the first one is made again.
        await reports.get("c", _maker(made), is_settled=False)
        assert len(made) == 3
        await reports.get("a", _maker(made), is_settled=False)
        assert len(made) == 4

    asyncio.run(main())


def test_a_report_from_before_the_end_is_not_taken_for_one_from_after_it() -> None:
    async def main() -> None:
        reports, made = ReportCache(), list[int]()
        assert (await reports.get("job", _maker(made), is_settled=False)).packed == b"report 1"
        assert (await reports.get("job", _maker(made), is_settled=True)).packed == b"report 2"
        assert (await reports.get("job", _maker(made), is_settled=True)).packed == b"report 2"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("accepted", "taken"),
    [
        ("gzip, deflate", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, *", False),
        ("br, *;q=0.5", True),
        ("*;q=0", False),
        ("GZIP;Q=0.1", True),
        ("identity", False),
        ("notgzip", False),
        ("", False),
    ],
)
def test_gzip_is_sent_to_those_that_take_it(accepted: str, taken: bool) -> None:
    assert takes_gzip(accepted) is taken


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*"])
@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_a_tag_is_weak_and_known_in_every_form(form: str, encoding: str) -> None:
    report = Report(gzip.compress(b"{}", mtime=0))
    assert report.tag.startswith('W/"')
    known = form.format(report.tag.removeprefix("W/"))
    assert report.respond(_request(known, encoding)).status_code == 304
    assert report.respond(_request('"other"', encoding)).status_code == 200


def _request(known: str, encoding: str) -> Request:
    headers = [(b"if-none-match", known.encode()), (b"accept-encoding", encoding.encode())]
    return Request({"type": "http", "method": "GET", "headers": headers})
