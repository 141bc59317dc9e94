"""Upstreams that hang, drop and lie, and agents that go away."""

import asyncio
import socket
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from benchyard.gateway import protocol
from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.protocol import GatewayOptions
from benchyard.gateway.proxy import exchange
from benchyard.gateway.records.reader import read_history
from tests.gateway.station import TOKEN, Station, events, eventually, live, streamed


async def hang(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


@live
async def test_an_upstream_that_never_answers_is_given_up(tmp_path: Path) -> None:
    options = GatewayOptions(connect_seconds=0.2, first_byte_seconds=0.3)
    async with Station(tmp_path / "gateway", options) as station:
        await station.grant()
        station.behind.answer = hang
        reply = await station.ask()
        assert reply.status == 504
        assert reply.json["type"] == "error"
        assert "did not answer in time" in reply.json["error"]["message"]
        (call,) = await station.calls()
        assert (call.status, call.response, call.usage) == (0, None, None)
        assert call.error is not None
        assert "did not answer in time" in call.error
        spent = await station.spent()
        assert (spent.last_status, spent.last_error) == (0, call.error)


@live
async def test_an_upstream_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with Station(tmp_path / "gateway") as station:
        upstream = station.upstream(base_url=f"http://127.0.0.1:{port}")
        await station.grant(upstreams={"anthropic": upstream})
        reply = await station.ask()
        assert reply.status == 502
        assert "cannot be reached" in reply.json["error"]["message"]
        assert (await station.spent()).last_status == 0


@live
async def test_an_upstream_that_drops_the_connection_is_reported(tmp_path: Path) -> None:
    async def drop(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        station.behind.answer = drop
        assert (await station.ask()).status == 502
        (call,) = await station.calls()
        assert call.status == 0


@live
async def test_an_answer_that_breaks_off_breaks_off_for_the_agent_too(tmp_path: Path) -> None:
    pieces = events()

    async def drop(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        response = await streamed(request, pieces[:3])
        assert request.transport is not None
        request.transport.abort()
        return response

    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        station.behind.answer = drop
        url = station.url("/anthropic/v1/messages")
        async with station.agent.post(url, data=b"{}", headers={"x-api-key": TOKEN}) as reply:
            sent = b"".join(pieces[:3])
            assert await reply.content.readexactly(len(sent)) == sent
            with pytest.raises(aiohttp.ClientPayloadError):
                await reply.content.read()
        (call,) = await station.calls()
        # What it had told of the input by then, and no cost: it may have used more.
        assert (call.status, call.usage, call.cost_usd) == (200, TokenUsage(10, 1), None)
        assert call.error is not None
        assert "broke off" in call.error
        assert call.response["content"] == [{"type": "text", "text": "well"}]


@pytest.mark.parametrize(
    ("pieces", "error", "usage"),
    [
        (
            [*events()[:2], b"data: {nonsense\n\n", *events()[2:]],
            "the stream is broken: a part of it is not an event",
            TokenUsage(10, 5),
        ),
        (events()[:-1], "the stream broke off", TokenUsage(10, 5)),
        (events()[:-2], "the stream broke off", TokenUsage(10, 1)),
        ([b'data: {"type": "error", "error": {"message": "over\\nloaded"}}\n\n'], "over loaded", None),
    ],
)
@live
async def test_a_broken_stream_passes_unchanged_and_counts_its_reported_usage(
    tmp_path: Path, pieces: list[bytes], error: str, usage: TokenUsage | None
) -> None:
    async def answer(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        return await streamed(request, pieces)

    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        station.behind.answer = answer
        assert (await station.ask()).body == b"".join(pieces)
        (call,) = await station.calls()
        assert (call.status, call.error, call.usage, call.cost_usd) == (200, error, usage, None)
        spent = await station.spent()
        assert (spent.last_error, spent.usage, spent.cost_usd) == (error, usage or TokenUsage(), None)
        kept = read_history(protocol.record_file(station.folder, "trial"))
        assert (kept.spent, kept.unmetered) == (spent, 1)


@live
async def test_an_agent_that_goes_away_ends_the_upstreams_call(tmp_path: Path) -> None:
    pieces = events()
    ended = asyncio.Event()

    async def answer(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        await streamed(request, pieces[:3])
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        station.behind.answer = answer
        url = station.url("/anthropic/v1/messages")
        reply = await station.agent.post(url, data=b'{"model": "m"}', headers={"x-api-key": TOKEN})
        await reply.content.readexactly(len(b"".join(pieces[:3])))
        reply.close()
        async with asyncio.timeout(60):
            await ended.wait()
        await eventually(lambda: not next(station.ledger.accounts()).open, "it is over")
        (call,) = await station.calls()
        assert call.error == "the agent went away before the answer had ended"
        assert call.response["content"] == [{"type": "text", "text": "well"}]


@live
async def test_a_token_that_is_revoked_breaks_off_what_it_has_open(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        station.behind.answer = hang
        asked = [asyncio.create_task(station.ask()) for _ in range(3)]
        await eventually(lambda: len(station.behind.seen) == 3, "all are under way")
        spent = await station.ledger.revoke("trial")
        assert (spent.calls, spent.last_error) == (3, "the token was revoked")
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(outcome, aiohttp.ClientError)
        assert {call.error for call in await station.calls()} == {"the token was revoked"}
        assert (await station.ask()).status == 401


@live
async def test_an_answer_that_is_too_long_for_the_record_passes_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "MOST_RECORDED", 1000)
    long = b"x" * 5000

    async def answer(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        return web.Response(body=long)

    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        station.behind.answer = answer
        assert (await station.ask()).body == long
        (call,) = await station.calls()
        assert (call.status, call.usage) == (200, None)
        assert call.error is not None
        assert "its record ends there" in call.error
