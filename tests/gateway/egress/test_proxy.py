"""The egress proxy lets through what the rules allow, to the address that was checked, and nothing else."""

import asyncio
import ipaddress

import pytest

from benchyard.gateway.egress.proxy import resolve
from benchyard.gateway.egress.rules import Block, Rules
from tests.gateway.worlds import ANY_LOOPBACK, LOOPBACK, World, in_world, server

NAMED = Rules.of(["ok.test", "*.wild.test"], [ANY_LOOPBACK])


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.write(b" and goodbye")


async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one HTTP request with its own head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    lower = head.lower()
    body = b""
    if b"content-length: " in lower:
        body = await reader.readexactly(int(lower.split(b"content-length: ")[1].split(b"\r\n")[0]))
    elif b"chunked" in lower:
        body = await reader.readuntil(b"0\r\n\r\n")
    said = head + body
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Own: 1\r\n\r\n" % len(said) + said)
    await writer.drain()


def test_a_tunnel_carries_bytes_both_ways_and_half_closes() -> None:
    async def test(world: World) -> None:
        async with server(echo) as port:
            for host in ("127.0.0.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]"):
                reader, writer = await world.tunnel(f"{host}:{port}")
                data = bytes(range(256)) * 4000
                writer.write(data)
                writer.write_eof()
                assert await reader.read() == data + b" and goodbye"
            assert [(each.host, each.count) for each in world.egress.log.passed()] == [("127.0.0.1", 4)]

    in_world(test)


def test_bytes_sent_with_connect_are_not_lost() -> None:
    async def test(world: World) -> None:
        async with server(echo) as port:
            reader, writer = await world.connect()
            writer.write(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: x\r\n\r\nearly" % port)
            writer.write_eof()
            assert (await reader.read()).endswith(b"\r\n\r\nearly and goodbye")

    in_world(test)


def test_a_plain_request_is_written_anew() -> None:
    async def test(world: World) -> None:
        world.names["ok.test"] = [LOOPBACK]
        async with server(repeat) as port:
            answer = await world.said(
                b"POST http://OK.test:%d/a/b?c=d HTTP/1.1\r\nHost: elsewhere.test\r\n"
                b"Proxy-Authorization: secret\r\n"
                b"Connection: close, X-Hop\r\nX-Hop: 1\r\nX-Kept: 2\r\nContent-Length: 5\r\n\r\nhello" % port
            )
        head, _, repeated = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"x-own: 1" in head.lower()
        assert repeated.startswith(b"POST /a/b?c=d HTTP/1.1\r\n")
        assert repeated.endswith(b"\r\n\r\nhello")
        assert b"host: ok.test:%d\r\n" % port in repeated.lower()
        assert b"x-kept: 2" in repeated.lower()
        for gone in (b"elsewhere", b"secret", b"x-hop"):
            assert gone not in repeated.lower()

    in_world(test, NAMED)


def test_requests_follow_each_other_and_each_is_judged() -> None:
    async def test(world: World) -> None:
        world.names["ok.test"] = [LOOPBACK]
        async with server(repeat) as port:
            reader, writer = await world.connect()
            for number in range(3):
                writer.write(b"GET http://ok.test:%d/%d HTTP/1.1\r\nHost: x\r\n\r\n" % (port, number))
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                assert (await reader.readexactly(length)).startswith(b"GET /%d " % number)
            writer.write(b"GET http://no.test:%d/ HTTP/1.1\r\nHost: ok.test\r\n\r\n" % port)
            assert (await reader.read()).startswith(b"HTTP/1.1 403 ")

    in_world(test, NAMED)


def test_a_connection_serves_only_so_many_requests() -> None:
    async def test(world: World) -> None:
        async with server(repeat) as port:
            one = b"GET http://127.0.0.1:%d/ HTTP/1.1\r\nHost: x\r\n\r\n" % port
            assert (await world.said(one * 5)).count(b"X-Own".lower()) == 2

    in_world(test, most_requests=2)


def test_a_body_in_chunks_passes() -> None:
    async def test(world: World) -> None:
        async with server(repeat) as port:
            answer = await world.said(
                b"POST http://127.0.0.1:%d/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" % port
            )
        assert answer.endswith(b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        assert b"expect" not in answer.lower()

    in_world(test)


def test_a_body_has_one_end_only() -> None:
    async def test(world: World) -> None:
        async with server(repeat) as port:
            answer = await world.said(
                b"POST http://127.0.0.1:%d/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
                b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" % port
            )
        assert b"content-length: 3" not in answer.lower()

    in_world(test)


def test_a_name_that_is_not_allowed_is_never_looked_up() -> None:
    async def test(world: World) -> None:
        for name in ("no.test", "secret-in-a-name.evil.test", "wild.test", "ok.test.evil.test"):
            for request in (
                f"CONNECT {name}:443 HTTP/1.1\r\nHost: {name}\r\n\r\n",
                f"GET http://{name}/ HTTP/1.1\r\nHost: ok.test\r\n\r\n",
            ):
                answer = await world.said(request.encode())
                assert answer.startswith(b"HTTP/1.1 403 ")
                assert f"no rule allows {name}; allowed_hostnames".encode() in answer
        assert world.looked_up == []
        refused = {(each.host, each.port): each.count for each in world.egress.log.refused()}
        assert refused[("no.test", 443)] == 1
        assert refused[("no.test", 80)] == 1
        assert world.egress.log.passed() == []

    in_world(test, NAMED)


def test_a_name_that_leads_inwards_is_refused() -> None:
    async def test(world: World) -> None:
        inward = ("127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:127.0.0.1")
        for text in inward:
            world.names["ok.test"] = [ipaddress.ip_address(text)]
            answer = await world.said(b"CONNECT ok.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 403 ")
            assert b"ok.test is allowed, but leads to a private network" in answer
            assert text.encode() not in answer
        assert world.egress.log.refused()[0].count == len(inward)

    in_world(test, Rules.of(["ok.test"]))


def test_addresses_that_no_rule_names_are_refused() -> None:
    async def test(world: World) -> None:
        for text in (
            "127.0.0.1:22",
            "0x7f.1:22",
            "169.254.169.254:80",
            "10.0.0.1:80",
            "[::1]:80",
            "[fe80::1]:80",
        ):
            answer = await world.said(f"CONNECT {text} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 403 "), text
            assert b"allowed_cidrs would have to hold" in answer

    in_world(test, Rules.of(["ok.test"], allow_all=True))


def test_a_name_is_looked_up_once_and_only_what_was_checked_is_connected_to() -> None:
    async def test(world: World) -> None:
        answers = [[ipaddress.ip_address("10.0.0.1"), LOOPBACK], [ipaddress.ip_address("10.0.0.1")]]
        async with server(echo) as port:
            world.rules = Rules.of(["ok.test"], [Block.of("127.0.0.1/32", [(port, port)])])
            world.names["ok.test"] = answers.pop(0)
            reader, writer = await world.tunnel(f"ok.test:{port}")
            world.names["ok.test"] = answers.pop(0)
            writer.write_eof()
            assert await reader.read() == b" and goodbye"
            assert world.looked_up == ["ok.test"]
            assert (
                await world.said(f"CONNECT ok.test:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            ).startswith(b"HTTP/1.1 403 ")

    in_world(test)


def test_new_rules_count_at_once_and_end_what_they_do_not_allow() -> None:
    async def test(world: World) -> None:
        world.names["ok.test"] = [LOOPBACK]
        async with server(echo) as port:
            by_name = await world.tunnel(f"ok.test:{port}")
            by_address = await world.tunnel(f"127.0.0.1:{port}")
            world.rules = Rules.of(["ok.test"], [ANY_LOOPBACK])
            assert world.egress.enforce() == 0
            world.rules = Rules.of([], [ANY_LOOPBACK])
            assert world.egress.enforce() == 1
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await by_name[0].readexactly(1)
            by_address[1].write(b"x")
            assert await by_address[0].readexactly(1) == b"x"
            world.rules = Rules()
            assert (await world.said(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(
                b"HTTP/1.1 403"
            )
            assert world.egress.enforce() == 1
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await by_address[0].readexactly(1)

    in_world(test, NAMED)


def test_this_machines_own_names_are_looked_up() -> None:
    found = asyncio.run(resolve("localhost", 80))
    assert LOOPBACK in found or ipaddress.ip_address("::1") in found
