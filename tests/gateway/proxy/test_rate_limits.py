"""Rate limits are waited out, by all who ask the same upstream, and the wait is counted."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as some

from benchyard.gateway.proxy import upstreams
from tests.gateway.station import Station, eventually, live, message


def scripted(station: Station, answers: Iterator[web.Response]) -> None:
    """Answer so, one after the other."""

    async def answer(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        return next(answers)

    station.behind.answer = answer


def limited(status: int = 429, **headers: str) -> web.Response:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.json_response({"error": {"message": "slow down"}}, status=status, headers=told)


@pytest.mark.parametrize("status", [429, 503, 529])
@live
async def test_a_limit_is_waited_out_and_counted(tmp_path: Path, status: int) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        scripted(station, iter([limited(status, retry_after_ms="300"), web.json_response(message())]))
        reply = await station.ask()
        assert (reply.status, reply.json) == (200, message())
        assert [seen.body for seen in station.behind.seen] == [station.behind.seen[0].body] * 2
        spent = await station.spent()
        assert spent.calls == 1
        assert spent.rate_limited_ms >= 300
        (call,) = await station.calls()
        assert (call.status, call.rate_limited_ms) == (200, spent.rate_limited_ms)


@live
async def test_without_a_requested_pause_each_wait_is_longer(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        scripted(station, iter([limited(), limited(), web.json_response(message())]))
        assert (await station.ask()).status == 200
        assert (await station.spent()).rate_limited_ms >= 1500


@live
async def test_the_others_wait_too_and_come_back_one_after_the_other(tmp_path: Path) -> None:
    """Of ten that come while one waits, none reaches the upstream before the time is over."""
    told = time.monotonic()
    came: list[float] = []

    async def answer(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        came.append(time.monotonic() - told)
        return limited(retry_after="2") if len(came) == 1 else web.json_response(message())

    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        station.behind.answer = answer
        told = time.monotonic()
        first = asyncio.create_task(station.ask())
        await eventually(lambda: came, "the first is under way")
        others = [asyncio.create_task(station.ask()) for _ in range(10)]
        replies = await asyncio.gather(first, *others)
        assert {reply.status for reply in replies} == {200}
        assert len(came) == 12
        assert min(came[1:]) >= 2
        assert came[-1] - came[1] >= 10 * 0.05
        # They waited at the same time, so the trial lost that time once.
        spent = await station.spent()
        calls = await station.calls()
        assert spent.rate_limited_ms < sum(call.rate_limited_ms for call in calls)
        assert spent.rate_limited_ms >= max(call.rate_limited_ms for call in calls)


@live
async def test_the_answer_passes_when_the_time_for_waiting_is_used_up(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant(wait_seconds=0.5)
        scripted(station, iter([limited(retry_after_ms="600"), limited(), limited(), limited(), limited()]))
        # Told to wait longer than may be waited: it is passed on without waiting.
        reply = await station.ask()
        assert (reply.status, reply.headers["retry-after-ms"]) == (429, "600")
        assert reply.json == {"error": {"message": "slow down"}}
        assert (await station.spent()).rate_limited_ms == 0
        reply = await station.ask()
        assert reply.status == 429
        spent = await station.spent()
        assert spent.rate_limited_ms >= 500
        assert (spent.last_status, spent.last_error) == (429, "HTTP 429: slow down")
        # And from then on at once.
        seen = len(station.behind.seen)
        assert (await station.ask()).status == 429
        assert len(station.behind.seen) == seen + 1


@live
async def test_a_quota_that_is_used_up_is_not_waited_for(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        body = {"error": {"code": "insufficient_quota", "message": "pay first"}}
        scripted(station, iter([web.json_response(body, status=429)]))
        reply = await station.ask()
        assert (reply.status, reply.json) == (429, body)


@live
async def test_a_wait_is_seen_while_it_lasts(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        scripted(station, iter([limited(retry_after="100")]))
        asked = asyncio.create_task(station.ask())
        account = next(station.ledger.accounts())
        await eventually(lambda: account.tally.spent.rate_limited_ms >= 200, "it is counted")
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)


def test_times_are_read_as_providers_write_them() -> None:
    assert upstreams.retry_after_seconds({"retry-after": "7"}) == 7
    assert upstreams.retry_after_seconds({"retry-after-ms": "250", "retry-after": "1"}) == 0.25
    assert upstreams.retry_after_seconds({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert upstreams.retry_after_seconds({}) is None


@given(some.text(max_size=40))
def test_any_time_whatever_is_read(value: str) -> None:
    told = upstreams.retry_after_seconds({"retry-after": value, "retry-after-ms": value})
    assert told is None or told >= 0
