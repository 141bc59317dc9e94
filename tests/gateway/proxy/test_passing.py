"""What passes through the gateway passes unchanged, and at once; only the key is another."""

import asyncio
import gzip
import json
from pathlib import Path

from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as some
from multidict import CIMultiDict

from tests.gateway.station import KEY, TOKEN, Station, events, live, message, streamed


def test_bodies_paths_and_headers_pass_unchanged_both_ways(tmp_path: Path) -> None:
    names = some.from_regex(r"x-[a-z]{1,10}", fullmatch=True)
    values = some.text("abcXYZ019 ,;=\"'/é→", min_size=1, max_size=30).map(str.strip).filter(bool)
    segments = some.from_regex(r"[A-Za-z0-9_:@!$&'()*+,;=~-]{1,12}(%[2-3][0-9])?", fullmatch=True)
    queries = some.from_regex(r"([a-jl-z]{1,5}=[A-Za-z0-9%_.-]{0,8}&?){0,3}", fullmatch=True)

    with asyncio.Runner() as runner:

        async def opened() -> Station:
            station = Station(tmp_path / "gateway")
            await station.__aenter__()
            await station.grant(upstreams={"any": station.upstream(any_path=True)})
            return station

        station = runner.run(opened())

        @settings(max_examples=60, deadline=None)
        @given(
            some.binary(max_size=3000),
            some.binary(max_size=3000),
            some.dictionaries(names, values, max_size=4),
            some.lists(segments, min_size=1, max_size=4),
            queries,
        )
        def passes(
            sent: bytes, answered: bytes, headers: dict[str, str], parts: list[str], query: str
        ) -> None:
            async def answer(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
                return web.Response(status=207, body=answered, headers=headers)

            station.behind.answer = answer
            path = "/" + "/".join(parts) + (f"?{query}" if query else "")
            reply = runner.run(station.ask(f"/any{path}", sent, {"x-api-key": TOKEN, **headers}))
            assert reply.status == 207, reply.body
            assert reply.body == answered
            assert {name: reply.headers[name] for name in headers} == headers
            seen = station.behind.seen.pop()
            assert seen.body == sent
            assert seen.target == path
            assert {name: seen.headers[name] for name in headers} == headers

        try:
            passes()
        finally:
            runner.run(station.__aexit__(None, None, None))


@live
async def test_the_upstream_gets_the_key_and_never_the_token(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        for name, value in (
            ("x-api-key", TOKEN),
            ("Authorization", f"Bearer {TOKEN}"),
            ("x-goog-api-key", TOKEN),
            ("api-key", TOKEN),
        ):
            headers = {name: value, "x-other": f"with {TOKEN}", "cookie": "a=b", "x-kept": "1"}
            assert (await station.ask(headers=headers)).status == 200
        assert (await station.ask(f"/anthropic/v1/messages?a=1&key={TOKEN}&b=2", headers={})).status == 200
        assert station.behind.seen[-1].target == "/v1/messages?a=1&b=2"
        for seen in station.behind.seen:
            assert seen.headers.getall("x-api-key") == [KEY]
            assert not {"authorization", "x-goog-api-key", "api-key", "cookie"} & {
                *map(str.lower, seen.headers)
            }
            assert TOKEN not in str(seen)
        assert station.behind.seen[0].headers["x-kept"] == "1"


@live
async def test_the_path_goes_below_the_upstreams_own_and_its_headers_are_set(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        upstream = station.upstream(
            base_url=f"{station.behind.url}/team/llm/",
            header="Authorization",
            prefix="Bearer ",
            headers={"x-team": "red"},
        )
        await station.grant(upstreams={"anthropic": upstream})
        await station.ask("/anthropic/v1/messages?beta=true", headers={"x-api-key": TOKEN, "X-Team": "blue"})
        (seen,) = station.behind.seen
        assert seen.target == "/team/llm/v1/messages?beta=true"
        assert seen.headers.getall("x-team") == ["red"]
        assert seen.headers["authorization"] == f"Bearer {KEY}"
        assert "x-api-key" not in seen.headers


@live
async def test_an_upstream_without_a_key_gets_no_key(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant(upstreams={"anthropic": station.upstream(key=None)})
        assert (await station.ask()).status == 200
        assert not {"authorization", "x-api-key"} & {*map(str.lower, station.behind.seen[0].headers)}


@live
async def test_a_stream_is_not_delayed(tmp_path: Path) -> None:
    """The first piece arrives while the upstream still holds the rest."""
    go_on = asyncio.Event()
    pieces = events()

    async def answer(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        response = await streamed(request, pieces[:1])
        await go_on.wait()
        for piece in pieces[1:]:
            await response.write(piece)
        return response

    async with Station(tmp_path / "gateway") as station:
        station.behind.answer = answer
        await station.grant()
        url = station.url("/anthropic/v1/messages")
        async with station.agent.post(url, json={"stream": True}, headers={"x-api-key": TOKEN}) as reply:
            first = await reply.content.readany()
            assert first == pieces[0]
            go_on.set()
            assert first + await reply.content.read() == b"".join(pieces)
        (call,) = await station.calls()
        assert call.response == message()
        assert call.usage is not None
        assert call.usage.total_tokens == 15


@live
async def test_many_streams_at_once(tmp_path: Path) -> None:
    """None of 64 streams waits for another: each goes on only once all have begun."""
    everybody = asyncio.Barrier(64)
    pieces = events()

    async def answer(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        response = await streamed(request, pieces[:2])
        await everybody.wait()
        for piece in pieces[2:]:
            await response.write(piece)
        return response

    async with Station(tmp_path / "gateway") as station:
        station.behind.answer = answer
        await station.grant()
        replies = await asyncio.gather(*(station.ask() for _ in range(64)))
        assert {reply.body for reply in replies} == {b"".join(pieces)}
        spent = await station.spent()
        assert (spent.calls, spent.usage.total_tokens) == (64, 64 * 15)
        assert [call.number for call in await station.calls()] == [*range(1, 65)]


@live
async def test_a_compressed_answer_passes_as_it_is_and_is_understood(tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps(message()).encode())

    async def answer(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        return web.Response(body=packed, headers=headers)

    async with Station(tmp_path / "gateway") as station:
        station.behind.answer = answer
        await station.grant()
        reply = await station.ask(headers={"x-api-key": TOKEN, "accept-encoding": "br, gzip;q=0.8, zstd"})
        assert (reply.body, reply.headers["content-encoding"]) == (packed, "gzip")
        assert station.behind.seen[0].headers["accept-encoding"] == "gzip;q=0.8"
        await station.ask(headers={"x-api-key": TOKEN, "accept-encoding": "br"})
        assert station.behind.seen[1].headers["accept-encoding"] == "identity"
        first, _second = await station.calls()
        assert first.response == message()


@live
async def test_a_compressed_request_passes_as_it_is_and_is_understood(tmp_path: Path) -> None:
    packed = gzip.compress(b'{"model": "m", "messages": []}')
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        await station.ask(body=packed, headers={"x-api-key": TOKEN, "content-encoding": "gzip"})
        assert station.behind.seen[0].body == packed
        (call,) = await station.calls()
        assert (call.model, call.request) == ("m", {"model": "m", "messages": []})


@live
async def test_hop_by_hop_headers_do_not_pass(tmp_path: Path) -> None:
    async def answer(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        headers = CIMultiDict({"x-once": "1", "connection": "x-once", "retry-after": "3"})
        headers.add("set-cookie", "a=1")
        headers.add("set-cookie", "b=2")
        return web.json_response(message(), status=400, headers=headers)

    async with Station(tmp_path / "gateway") as station:
        station.behind.answer = answer
        await station.grant()
        reply = await station.ask(
            headers={"x-api-key": TOKEN, "connection": "x-mine", "x-mine": "1", "te": "trailers"}
        )
        assert "x-once" not in reply.headers
        assert reply.headers.getall("set-cookie") == ["a=1", "b=2"]
        assert reply.headers["retry-after"] == "3"
        assert not {"x-mine", "te"} & {*map(str.lower, station.behind.seen[0].headers)}
        # A cookie of one request is not sent with the next.
        await station.ask()
        assert "cookie" not in station.behind.seen[1].headers


@live
async def test_side_requests_pass_without_a_record(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        for method, path in (
            ("GET", "/openai/v1/models"),
            ("GET", "/anthropic/v1/models/claude-sonnet-4-5"),
            ("GET", "/openai/v1beta/models"),
            ("POST", "/anthropic/v1/messages/count_tokens"),
            ("POST", "/openai/v1beta/models/gemini-2.5-pro:countTokens"),
        ):
            assert (await station.ask(path, method=method)).status == 200, path
        assert len(station.behind.seen) == 5
        assert (await station.spent()).calls == 0


@live
async def test_a_greeting_is_answered_by_the_gateway_itself(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        for method, path in (
            ("HEAD", "/"),
            ("HEAD", "/anthropic"),
            ("HEAD", "/anthropic/api/hello"),
            ("GET", "/anthropic/api/hello"),
        ):
            assert (await station.ask(path, method=method, headers={})).status == 200
        assert station.behind.seen == []
