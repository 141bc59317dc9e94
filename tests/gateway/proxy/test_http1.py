"""Connections to upstreams, on the loop that the gateway runs on: answers of all shapes, and what is none."""

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from multidict import CIMultiDict
from yarl import URL

from benchyard.gateway.proxy import http1
from benchyard.gateway.proxy.http1 import UpstreamConnection, UpstreamConnections

PATIENCE_SECONDS = 60.0
WELL = b"HTTP/1.1 200 Well done\r\nContent-Length: 5\r\nX-Name: a\r\nx-name: \xc3\xa9\r\n\r\nhello"
Speaking = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Upstream:
    """Says what it is told to, and notes what it heard."""

    def __init__(self, speaking: Speaking, trust: ssl.SSLContext | None = None) -> None:
        self.url = URL()
        self.connected = 0
        self.heard: list[bytes] = []
        self._speaking = speaking
        self._trust = trust
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Upstream":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._trust)
        scheme = "https" if self._trust else "http"
        self.url = URL(
            f"{scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1/x?a=%2F", encoded=True
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connected += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                self.heard.append(head + await reader.readexactly(size))
                await self._speaking(reader, writer)
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            return
        finally:
            writer.close()


def saying(*pieces: bytes, ends: bool = False) -> Speaking:
    async def speaking(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            # Each comes by itself.
            await asyncio.sleep(0)
        if ends:
            writer.close()

    return speaking


def on_uvloop(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await test

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


def opened(
    trust: ssl.SSLContext | None = None, read_seconds: float = PATIENCE_SECONDS
) -> UpstreamConnections:
    return UpstreamConnections(trust or ssl.create_default_context(), PATIENCE_SECONDS, read_seconds)


async def ask(
    pool: UpstreamConnections, upstream: Upstream, body: bytes = b"ask", **headers: str
) -> UpstreamConnection:
    return await pool.ask("POST", upstream.url, CIMultiDict(headers), body)


async def whole(answer: UpstreamConnection) -> bytes:
    pieces = []
    while piece := await answer.read():
        pieces.append(piece)
    answer.release()
    return b"".join(pieces)


def test_a_connection_is_used_again_once_an_answer_was_read_to_its_end() -> None:
    async def test() -> None:
        pool = opened()
        async with Upstream(saying(WELL[:20], WELL[20:60], WELL[60:])) as upstream:
            for _ in range(3):
                answer = await ask(pool, upstream, accept="text/event-stream")
                assert (answer.status, answer.reason) == (200, "Well done")
                assert answer.headers.getall("x-name") == ["a", "é"]
                assert await whole(answer) == b"hello"
            assert upstream.connected == 1
            host = f"127.0.0.1:{upstream.url.port}"
            sent = f"POST /v1/x?a=%2F HTTP/1.1\r\nHost: {host}\r\naccept: text/event-stream\r\n"
            assert upstream.heard == [f"{sent}Content-Length: 3\r\n\r\nask".encode()] * 3
            # One that was not read to its end is not: nobody knows what is still to come.
            (await ask(pool, upstream)).release()
            assert await whole(await ask(pool, upstream)) == b"hello"
            assert upstream.connected == 2
        pool.close()

    on_uvloop(test())


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    ("said", "ends", "body", "again"),
    [
        ((CHUNKED, b"3\r\nhel\r\n", b"2;x=y\r\nlo\r\n0\r\n\r\n"), False, b"hello", True),
        ((CLOSING + b"Content-Length: 5\r\n\r\nhello",), False, b"hello", False),
        ((CLOSING + b"\r\nhel", b"lo"), True, b"hello", False),
        ((b"HTTP/1.0 200 OK\r\n\r\nhello",), True, b"hello", False),
        ((b"HTTP/1.1 204 No Content\r\n\r\n",), False, b"", True),
        (
            (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nX: 1\r\n\r\n" + WELL),
            False,
            b"hello",
            True,
        ),
        ((WELL + b"and more",), False, b"hello", False),
        ((WELL + WELL,), False, b"hello", False),
        ((WELL + b"HTTP/1.1 500 \r\n\r\n",), False, b"hello", False),
        ((b"HTTP/1.1 400\r\nContent-Length: 0\r\n\r\n",), False, b"", True),
    ],
)
def test_every_shape_of_an_answer_is_read(
    said: tuple[bytes, ...], ends: bool, body: bytes, again: bool
) -> None:
    async def test() -> None:
        pool = opened()
        async with Upstream(saying(*said, ends=ends)) as upstream:
            for _ in range(2):
                answer = await ask(pool, upstream)
                assert answer.status < 500
                assert "x" not in answer.headers
                assert await whole(answer) == body
            assert upstream.connected == (1 if again else 2)
        pool.close()

    on_uvloop(test())


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x-name: long\r\n" * (http1.MOST_HEAD_BYTES // 8),
        b"HTTP/1.1 200 OK\r\nx-name: " + b"x" * (http1.MOST_HEAD_BYTES + 1) + b"\r\n\r\n",
    ],
    ids=["nothing", "nonsense", "half", "upgrade", "many", "long"],
)
def test_invalid_answer_is_an_error(said: bytes) -> None:
    async def test() -> None:
        pool = opened()
        async with Upstream(saying(said, ends=True)) as upstream:
            with pytest.raises(OSError, match=r"answer|closed"):
                await ask(pool, upstream)
        pool.close()

    on_uvloop(test())


@pytest.mark.parametrize("said", [CHUNKED + b"5\r\nhello\r\n", WELL[:-1], CHUNKED + b"5\r\nhello\r\nz"])
def test_an_answer_that_breaks_off_is_reported_as_far_as_it_came(said: bytes) -> None:
    async def test() -> None:
        pool = opened()
        async with Upstream(saying(said, ends=True)) as upstream:
            answer = await ask(pool, upstream)
            assert (await answer.read()).startswith(b"hell")
            with pytest.raises(OSError, match=r"closed|not valid HTTP"):
                await answer.read()
            answer.release()
        pool.close()

    on_uvloop(test())


def test_an_upstream_that_falls_silent_is_given_up() -> None:
    async def test() -> None:
        pool = opened(read_seconds=0.2)
        async with Upstream(saying(CHUNKED + b"5\r\nhello\r\n")) as upstream:
            answer = await ask(pool, upstream)
            assert await answer.read() == b"hello"
            with pytest.raises(TimeoutError):
                await answer.read()
        pool.close()

    on_uvloop(test())


def test_a_reply_that_is_not_read_waits_at_the_upstream() -> None:
    size = 32 * 1024 * 1024
    sent = 0

    async def speaking(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(b"x" * 65536)
            sent += 65536
            await writer.drain()

    async def test() -> None:
        # Longer than it may be silent: whoever takes nothing cannot complain of that.
        pool = opened(read_seconds=0.2)
        async with Upstream(speaking) as upstream:
            answer = await ask(pool, upstream)
            before = -1
            while before < sent:
                before = sent
                await asyncio.sleep(0.3)
            assert sent < size
            assert len(await whole(answer)) == size
        pool.close()

    on_uvloop(test())


def test_a_header_is_one_line() -> None:
    async def test() -> None:
        pool = opened()
        async with Upstream(saying(WELL)) as upstream:
            for value in ("a\r\nx-other: b", "a\nb", "a\rb"):
                with pytest.raises(ValueError, match="line break"):
                    await ask(pool, upstream, name=value)
            assert upstream.connected == 0

    on_uvloop(test())


def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "_IDLE_SECONDS", 0.1)
    left = asyncio.Event()

    async def speaking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(WELL)
        if not await reader.read(1):
            left.set()
            writer.close()

    async def test() -> None:
        pool = opened()
        async with Upstream(speaking) as upstream:
            assert await whole(await ask(pool, upstream)) == b"hello"
            await left.wait()
        pool.close()

    on_uvloop(test())


def certificate(folder: Path) -> Path:
    """A certificate of this machine and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "upstream")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / "certificate.pem"
    file.write_bytes(made.public_bytes(pem) + private)
    return file


def test_an_upstream_is_asked_over_tls_if_it_is_trusted(tmp_path: Path) -> None:
    file = certificate(tmp_path)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(file)

    async def test() -> None:
        trusting = opened(ssl.create_default_context(cafile=str(file)))
        async with Upstream(saying(WELL), served) as upstream:
            for _ in range(2):
                assert await whole(await ask(trusting, upstream)) == b"hello"
            assert upstream.connected == 1
            with pytest.raises(ssl.SSLError):
                await ask(opened(), upstream)
        trusting.close()

    on_uvloop(test())
