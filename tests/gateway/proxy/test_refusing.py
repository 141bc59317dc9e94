"""What the gateway refuses, in the words of whoever asked, and without asking anybody."""

import asyncio
import resource
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchyard.gateway import doors
from benchyard.gateway.dialects import catalog
from benchyard.gateway.proxy.requests import Refused, target_of
from tests.gateway.station import TOKEN, Station, live

PATHS = {
    "anthropic": "/anthropic/v1/messages",
    "responses": "/openai/v1/responses",
    "chat": "/openai/v1/chat/completions",
    "gemini": "/google/v1beta/models/gemini-2.5-pro:streamGenerateContent",
}

WORTHLESS = ("token-of-another-devbox", "token-that-has-expired", "token-that-was-revoked")


@pytest.mark.parametrize("dialect", PATHS)
@live
async def test_a_token_that_is_not_worth_anything_opens_nothing(tmp_path: Path, dialect: str) -> None:
    said = set()
    async with Station(tmp_path / "gateway") as station:
        await station.grant(id="other", token="token-of-another-devbox", devbox_id="another")
        past = round(time.time() * 1000) - 1
        await station.grant(id="old", token="token-that-has-expired", expires_ms=past)
        await station.grant(id="gone", token="token-that-was-revoked")
        await station.ledger.revoke("gone")
        for token in ("nobodys-token", *WORTHLESS):
            reply = await station.ask(PATHS[dialect], headers={"x-api-key": token})
            assert reply.status == 401
            assert reply.headers["x-should-retry"] == "false"
            said.add(reply.body)
        assert len(said) == 1, "what is wrong with a token is nobody's business"
        spoken = catalog.dialect_named(dialect)
        assert spoken is not None
        message = "this token opens nothing here: it is unknown, was revoked or has expired"
        assert reply.json == spoken.refusal("auth", message)
        assert (await station.ask(PATHS[dialect], headers={})).status == 401
        assert station.behind.seen == []


@live
async def test_the_token_of_a_devbox_opens_at_its_own_door_only(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        mine, theirs = station.address, await station.door("another")
        station.address = theirs
        assert (await station.ask()).status == 401
        station.address = mine
        assert (await station.ask()).status == 200


@live
async def test_a_route_that_was_not_granted_is_refused_by_name(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        reply = await station.ask("/google/v1beta/models/gemini-2.5-pro:generateContent")
        assert reply.status == 403
        words = "this token does not open /google; it opens /anthropic, /openai"
        assert reply.json["error"]["message"] == words
        assert station.behind.seen == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/anthropic/v1/files"),
        ("GET", "/anthropic/v1/messages"),
        ("DELETE", "/openai/v1/models/mine"),
        ("GET", "/openai/v1/organization/api_keys"),
        ("POST", "/openai/v1/models"),
        ("GET", "/anthropic"),
    ],
)
@live
async def test_request_that_is_not_a_model_call_is_refused(tmp_path: Path, method: str, path: str) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        reply = await station.ask(path, method=method)
        assert reply.status == 403
        assert b"is not a call of a model" in reply.body
        assert station.behind.seen == []


@pytest.mark.parametrize(
    "target",
    [
        b"/anthropic/../admin/v1/messages",
        b"/anthropic/%2e%2e/admin/v1/messages",
        b"/anthropic/%252e%252e/admin/v1/messages",
        b"/anthropic/v1%2f..%2fadmin/messages",
        b"/anthropic/v1/..%5cadmin/messages",
        b"/anthropic/./v1/messages",
        b"//evil.example/anthropic/v1/messages",
        b"http://evil.example/anthropic/v1/messages",
        b"/anthropic/v1/messages%00",
        b"/anthropic/v1/messages#x",
        b"/%61nthropic/../x/messages",
    ],
)
@live
async def test_a_path_does_not_leave_the_upstreams(tmp_path: Path, target: bytes) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant(upstreams={"anthropic": station.upstream(any_path=True)})
        head = b"POST %s HTTP/1.1\r\nhost: x\r\nx-api-key: %s\r\ncontent-length: 2\r\n\r\n{}"
        status = await station.raw(head % (target, TOKEN.encode()))
        assert status.split()[1] == b"400", status
        assert station.behind.seen == []


@live
async def test_connect_is_refused(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant(upstreams={"anthropic": station.upstream(any_path=True)})
        head = f"CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example\r\nx-api-key: {TOKEN}\r\n\r\n"
        assert (await station.raw(head.encode())).split()[1] == b"400"
        assert station.behind.seen == []


@given(some.text(some.characters(codec="ascii", min_codepoint=33), max_size=60))
def test_no_path_whatever_climbs(written: str) -> None:
    try:
        target = target_of("/route/" + written)
    except Refused:
        return
    assert target.route == "route"
    assert not {".", ".."} & {*target.plain.split("/")}
    assert target.path.count("/") == target.plain.count("/")
    assert f"/route{target.path}" + (f"?{target.query}" if "?" in written else "") == "/route/" + written


@live
async def test_an_upgrade_is_refused_at_once(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        headers = {"x-api-key": TOKEN, "connection": "Upgrade", "upgrade": "websocket"}
        reply = await station.ask("/openai/v1/responses", method="GET", headers=headers)
        assert reply.status == 426
        assert station.behind.seen == []


@pytest.mark.parametrize("chunked", [False, True])
@live
async def test_a_body_of_50_megabytes_is_refused_and_not_kept(tmp_path: Path, chunked: bool) -> None:
    size = 50 * 1024 * 1024
    head = f"POST /anthropic/v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {TOKEN}\r\n".encode()
    piece = b"x" * 65536
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(3):
            reader, writer = await asyncio.open_connection(*station.address)
            writer.write(head + (b"transfer-encoding: chunked" if chunked else b"content-length: %d" % size))
            writer.write(b"\r\n\r\n")
            for _ in range(size // len(piece)):
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
                await writer.drain()
            writer.write(b"0\r\n\r\n" if chunked else b"")
            assert (await reader.readuntil(b"\r\n")).split()[1] == b"413"
            writer.close()
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        assert grown < (3 * size if chunked else size)
        assert station.behind.seen == []
        assert (await station.ask()).status == 200


@live
async def test_a_devbox_has_so_many_connections_and_no_more(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        opened = [await asyncio.open_connection(*station.address) for _ in range(doors.MOST_CONNECTIONS)]
        # One that does not fit is closed without a word.
        reader, writer = await asyncio.open_connection(*station.address)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(1)
        writer.close()
        for _reader, each in opened:
            each.close()
        for _reader, each in opened:
            await each.wait_closed()
        assert (await station.ask()).status == 200


@live
async def test_invalid_json_passes_and_is_recorded_as_text(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        await station.ask(body=b"\xff not json")
        assert station.behind.seen[0].body == b"\xff not json"
        (call,) = await station.calls()
        assert (call.model, call.request) == (None, "\ufffd not json")
