"""The egress proxy bounds what a hostile devbox, or a hostile server, can make of it."""

import asyncio
import socket

import pytest

from benchyard.gateway.egress.proxy import MOST_ENTRIES, EgressLog
from benchyard.gateway.egress.rules import Rules
from tests.gateway.worlds import ANY_LOOPBACK, LOOPBACK, World, in_world, server

WRONG = {
    "no HTTP at all": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "a path": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "https in the open": b"GET https://127.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "another scheme": b"GET ftp://127.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "a user": b"GET http://user@127.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "a name with an escape": b"GET http://a%2etest/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "no port": b"CONNECT 127.0.0.1 HTTP/1.1\r\nHost: x\r\n\r\n",
    "port 0": b"CONNECT 127.0.0.1:0 HTTP/1.1\r\nHost: x\r\n\r\n",
    "no host": b"GET http:///x HTTP/1.1\r\nHost: x\r\n\r\n",
    "bytes for a host": b"CONNECT \xff\xfe:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "two lengths": b"GET http://127.0.0.1/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 2\r\n\r\n",
    "a head without an end": b"GET http://127.0.0.1/ HTTP/1.1\r\nX: " + b"x" * 200_000,
}


@pytest.mark.parametrize("request_bytes", WRONG.values(), ids=WRONG)
def test_invalid_proxy_request_is_refused(request_bytes: bytes) -> None:
    async def test(world: World) -> None:
        assert (await world.said(request_bytes)).startswith(b"HTTP/1.1 4")
        assert world.egress.log.passed() == []

    in_world(test)


def test_silent_client_is_not_waited_for() -> None:
    async def test(world: World) -> None:
        for said in (b"", b"GET http://127.0.0.1/ HT"):
            reader, writer = await world.connect()
            writer.write(said)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)

    in_world(test, head_seconds=0.2)


def test_a_tunnel_on_which_nothing_passes_ends() -> None:
    async def test(world: World) -> None:
        async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            await reader.read()

        async with server(silent) as port:
            reader, _writer = await world.tunnel(f"127.0.0.1:{port}")
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)

    in_world(test, idle_seconds=0.2)


def test_only_so_many_connections_are_served_at_once() -> None:
    async def test(world: World) -> None:
        held = [await world.connect() for _ in range(3)]
        for _reader, writer in held:
            writer.write(b"GET ")
        answer = b""
        while not answer.startswith(b"HTTP/1.1 503 "):
            # Until the proxy has taken all three in.
            answer = await world.said(b"GET http://10.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"over 3 connections" in answer
        for _reader, writer in held:
            writer.close()
        while not answer.startswith(b"HTTP/1.1 403 "):
            answer = await world.said(b"GET http://10.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n")

    in_world(test, most_connections=3)


def test_hosts_that_do_not_answer_are_distinguished_from_those_that_are_forbidden() -> None:
    async def test(world: World) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            answer = await world.said(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: x\r\n\r\n" % port)
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert b"does not answer" in answer
        answer = await world.said(b"CONNECT unknown.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert b"no address is known" in answer

    in_world(test, Rules.of(["unknown.test"], [ANY_LOOPBACK]))


def test_the_next_address_of_a_name_is_tried() -> None:
    async def test(world: World) -> None:
        async def hello(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hello")
            await writer.drain()

        async with server(hello) as port:
            # Nobody listens on the first one.
            world.names["ok.test"] = [type(LOOPBACK)("127.0.0.9"), LOOPBACK]
            reader, _writer = await world.tunnel(f"ok.test:{port}")
            assert await reader.read() == b"hello"

    in_world(test, Rules.of(["ok.test"], [ANY_LOOPBACK]))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x00\x01\x02\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 99_000,
    ],
)
def test_an_invalid_answer_becomes_a_502(answer: bytes) -> None:
    async def test(world: World) -> None:
        async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()

        async with server(broken) as port:
            said = await world.said(b"GET http://127.0.0.1:%d/ HTTP/1.1\r\nHost: x\r\n\r\n" % port)
            assert said.startswith(b"HTTP/1.1 502 ")

    in_world(test)


def test_an_answer_that_is_cut_short_does_not_look_whole() -> None:
    async def test(world: World) -> None:
        async def short(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            await writer.drain()

        async with server(short) as port:
            reader, writer = await world.connect()
            writer.write(b"GET http://127.0.0.1:%d/ HTTP/1.1\r\nHost: x\r\n\r\n" % port)
            try:
                said = await reader.read()
            except ConnectionError:
                said = b""
            assert not said.endswith(b"0\r\n\r\n")

    in_world(test)


def test_a_body_that_breaks_off_ends_the_request_upstream() -> None:
    async def test(world: World) -> None:
        ended = asyncio.Event()

        async def waits(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            try:
                await reader.read()
            finally:
                ended.set()

        async with server(waits) as port:
            _reader, writer = await world.connect()
            writer.write(
                b"POST http://127.0.0.1:%d/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc" % port
            )
            await writer.drain()
            writer.close()
            await ended.wait()

    in_world(test)


def test_closing_ends_what_is_open() -> None:
    async def test(world: World) -> None:
        async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            await reader.read()

        async with server(silent) as port:
            reader, _writer = await world.tunnel(f"127.0.0.1:{port}")
            await world.egress.close()
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            with pytest.raises(ConnectionError):
                await world.connect()

    in_world(test)


def test_the_log_counts_and_is_bounded() -> None:
    log = EgressLog()
    for number in range(MOST_ENTRIES + 10):
        log.note(f"host-{number}.test", 443, "no rule")
    log.note("host-0.test", 443, "no rule")
    log.note("h" * 10_000, 1)
    assert len(log.refused()) == MOST_ENTRIES
    assert (log.refused()[0].count, log.left_out) == (2, 11)
    assert len(log.to_json()["entries"]) == MOST_ENTRIES
    long = EgressLog()
    long.note("h" * 10_000, 1)
    assert len(long.passed()[0].host) == 255
