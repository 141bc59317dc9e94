"""Requests of webhooks: where they may go, how they are signed, and receivers that behave badly."""

import asyncio
import contextlib
import ipaddress
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from benchyard.engine.webhooks.sender import NameLookups, WebhookTarget, send, signature
from benchyard.errors import UsageError
from benchyard.gateway.egress.rules import Address, Block, Rules

CLOSED = Rules.of(allow_all=True)
LOCAL = Rules.of(blocks=[Block.of("127.0.0.1/32")], allow_all=True)

Receiver = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def test_signatures_are_those_of_the_standard_webhooks() -> None:
    secret, id = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"
    body = b'{"test": 2432232314}'
    assert signature(secret, id, 1614265330, body) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://example.test/x", "begins with https://"),
        ("https://user:secret@example.test/", "no name or password"),
        ("https://example.test/#part", "no fragment"),
        ("https://example.test/a b", "no fragment, spaces"),
        ("https://example.test/\r\nx: y", "no fragment, spaces"),
        ("https:///nowhere", "is not a URL"),
        ("https://example.test:99999/", "is not a URL"),
        ("http://127.0.0.1/", "--webhook-allow 127.0.0.1/32"),
        ("http://0x7f.1/", "--webhook-allow 127.0.0.1/32"),
        ("http://[::1]:80/", "--webhook-allow ::1/128"),
        ("http://[::ffff:10.0.0.1]/", "--webhook-allow 10.0.0.1/32"),
        ("http://169.254.169.254/latest/meta-data", "private network or this machine"),
        ("http://192.168.1.1:8080/", "private network or this machine"),
    ],
)
def test_addresses_that_a_webhook_may_not_have_are_refused(url: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        WebhookTarget.of(url).require_allowed(CLOSED)
    assert words in refused.value.message


def test_allowed_addresses_and_names_are_taken() -> None:
    WebhookTarget.of("http://127.0.0.1:8080/hook?key=1").require_allowed(LOCAL)
    target = WebhookTarget.of("https://Example.test./hook")
    target.require_allowed(CLOSED)
    assert (target.authority, target.port, target.path) == ("example.test", 443, "/hook")


def _served(
    receiver: Receiver, *, rules: Rules = LOCAL, seconds: float = 10.0, name: str = "127.0.0.1"
) -> int:
    """Return the status that a receiver on this machine answers a webhook with."""

    async def look_up(_: str, __: int) -> list[Address]:
        return [ipaddress.ip_address("127.0.0.1")]

    async def work() -> int:
        callers: list[asyncio.Task[None]] = []

        async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError), contextlib.closing(writer):
                await receiver(reader, writer)

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            callers.append(asyncio.create_task(receive(reader, writer)))

        async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            target = WebhookTarget.of(f"http://{name}:{port}/hook")
            try:
                return await send(target, {"webhook-id": "x"}, b"{}", rules, look_up, seconds=seconds)
            finally:
                await asyncio.gather(*callers)

    return asyncio.run(work())


def _answers(text: bytes) -> Receiver:
    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(text)
        await writer.drain()

    return receive


@pytest.mark.parametrize("status", [204, 302, 500])
def test_the_status_is_returned_and_redirections_are_not_followed(status: int) -> None:
    head = f"HTTP/1.1 {status} Told\r\nlocation: http://127.0.0.1:1/\r\n\r\n".encode()
    # A body without end is never read.
    assert _served(_answers(head + b"x" * 1_000_000)) == status


def test_a_name_that_leads_to_this_machine_is_refused_before_a_connection() -> None:
    seen = []

    async def receive(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        seen.append(1)

    with pytest.raises(UsageError, match="is a private network or this machine"):
        _served(receive, rules=CLOSED, name="rebinding.example.test")
    assert seen == []


def test_receivers_that_never_answer_or_answer_nonsense_are_given_up() -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    with pytest.raises(TimeoutError):
        _served(silent, seconds=0.1)
    with pytest.raises(ValueError, match="is not HTTP"):
        _served(_answers(b"SSH-2.0-x\r\n"))
    with pytest.raises(ValueError, match="limit"):
        _served(_answers(b"H" * 20_000))


def test_a_resolver_that_never_answers_holds_two_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    released, asked = threading.Event(), list[str]()
    resolve = socket.getaddrinfo

    def stuck(name: Any, *rest: Any, **options: Any) -> Any:
        if name != "stuck.example.test":
            return resolve(name, *rest, **options)
        asked.append(name)
        released.wait(60)
        raise OSError("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", stuck)

    async def work() -> None:
        look_up = NameLookups()
        target = WebhookTarget.of("https://stuck.example.test/hook")
        sent = (send(target, {}, b"{}", CLOSED, look_up, seconds=0.2) for _ in range(20))
        failures = await asyncio.gather(*sent, return_exceptions=True)
        assert [type(each) for each in failures] == [TimeoutError] * 20
        assert len(asked) == 2
        # Nobody else waits for them.
        begin = time.monotonic()
        await asyncio.gather(*(asyncio.to_thread(int) for _ in range(20)))
        assert time.monotonic() - begin < 5
        released.set()
        assert await look_up("127.0.0.1", 80) == [ipaddress.ip_address("127.0.0.1")]
        with pytest.raises(OSError, match="no such name"):
            await look_up("stuck.example.test", 80)

    try:
        asyncio.run(work())
    finally:
        released.set()


def test_a_name_that_is_none_is_an_error_and_keeps_no_thread() -> None:
    async def work() -> None:
        look_up = NameLookups()
        for _ in range(3):
            with pytest.raises(OSError, match=r"no name|known|service|resol"):
                await look_up("a" * 300 + ".test", 80)

    asyncio.run(work())
