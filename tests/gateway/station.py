"""A gateway in this process, a devbox's socket in front of it and an upstream of our own behind it."""

import asyncio
import functools
import json
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from benchyard.gateway import protocol
from benchyard.gateway.accounts import TokenAccounts
from benchyard.gateway.calls import Call
from benchyard.gateway.doors import ModelDoor
from benchyard.gateway.grants import Grant, GrantUsage, Upstream
from benchyard.gateway.protocol import GatewayOptions
from benchyard.gateway.proxy.server import ModelProxy
from benchyard.gateway.proxy.upstreams import UpstreamClient
from benchyard.gateway.records.reader import read_calls
from benchyard.gateway.records.writer import Recorder

TOKEN = "trial-token-0123456789"
KEY = "real-key-9876543210"
PATIENCE_SECONDS = 60.0
MODEL = "claude-sonnet-4-5"

Answer = Callable[[web.BaseRequest, bytes], Awaitable[web.StreamResponse]]


def live(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(2 * PATIENCE_SECONDS):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


async def eventually(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


def message(tokens_in: int = 10, tokens_out: int = 5, model: str = MODEL) -> dict[str, Any]:
    """An answer of Anthropic's, as JSON."""
    usage = {"input_tokens": tokens_in, "output_tokens": tokens_out}
    content = [{"type": "text", "text": "well"}]
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": model}
    return {**head, "content": content, "stop_reason": "end_turn", "usage": usage}


def events(tokens_in: int = 10, tokens_out: int = 5, model: str = MODEL) -> list[bytes]:
    """The same, as a stream."""
    usage = {"input_tokens": tokens_in, "output_tokens": 1}
    start = {**message(model=model), "content": [], "stop_reason": None, "usage": usage}
    told: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "well"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": tokens_out},
        },
        {"type": "message_stop"},
    ]
    return [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in told]


async def well(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
    """Answers as it should."""
    return web.json_response(message())


async def streamed(request: web.BaseRequest, pieces: list[bytes]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    return response


@dataclass
class Seen:
    """A request as the upstream saw it."""

    method: str
    target: str
    headers: CIMultiDict[str]
    body: bytes


@dataclass
class Behind:
    """An upstream on this machine."""

    answer: Answer = well
    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    _runner: web.ServerRunner | None = None

    async def open(self) -> None:
        server = web.Server(
            self._serve, handler_cancellation=True, auto_decompress=False, access_log=None, max_headers=200
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def close(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.content.read()
        self.seen.append(Seen(request.method, request.raw_path, CIMultiDict(request.headers), body))
        return await self.answer(request, body)


@dataclass
class Replied:
    """An answer as the agent sees it."""

    status: int
    headers: CIMultiDict[str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Station:
    """Everything between an agent and a model."""

    def __init__(self, folder: Path, options: GatewayOptions | None = None) -> None:
        self.folder = folder
        self.behind = Behind()
        self.recorder = Recorder(folder)
        self.ledger = TokenAccounts(self.recorder)
        self.upstreams = UpstreamClient(options or GatewayOptions())
        self.proxy = ModelProxy(self.ledger, self.upstreams, self.recorder)
        self.address = ("", 0)
        self._doors: list[ModelDoor] = []
        self.agent = aiohttp.ClientSession(auto_decompress=False)

    async def __aenter__(self) -> "Station":
        self.folder.mkdir(exist_ok=True)
        await self.behind.open()
        self.recorder.open()
        await self.upstreams.open()
        self.address = await self.door("box")
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.agent.close()
        for door in self._doors:
            await door.close()
        await self.upstreams.close()
        await self.recorder.close()
        await self.behind.close()

    async def door(self, devbox_id: str) -> tuple[str, int]:
        listener = socket.create_server(("127.0.0.1", 0))
        address: tuple[str, int] = listener.getsockname()
        door = ModelDoor(devbox_id, listener, self.proxy)
        await door.open()
        self._doors.append(door)
        return address

    def upstream(self, **changes: Any) -> Upstream:
        plain = Upstream(self.behind.url, "x-api-key", "", KEY, prices="anthropic")
        return replace(plain, **changes)

    def a_grant(self, **changes: Any) -> Grant:
        upstreams = {"anthropic": self.upstream(), "openai": self.upstream(prices="openai")}
        expires_ms = round(time.time() * 1000) + 3_600_000
        return replace(Grant("trial", TOKEN, "box", upstreams, expires_ms), **changes)

    async def grant(self, **changes: Any) -> GrantUsage:
        return await self.ledger.grant(self.a_grant(**changes))

    def url(self, path: str) -> URL:
        host, port = self.address
        return URL(f"http://{host}:{port}{path}", encoded=True)

    async def ask(
        self,
        path: str = "/anthropic/v1/messages",
        body: bytes | None = None,
        headers: dict[str, str] | CIMultiDict[str] | None = None,
        method: str = "POST",
    ) -> Replied:
        if body is None and method == "POST":
            body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}).encode()
        given = {"x-api-key": TOKEN} if headers is None else headers
        async with self.agent.request(method, self.url(path), data=body, headers=given) as response:
            return Replied(response.status, CIMultiDict(response.headers), await response.read())

    async def raw(self, request: bytes) -> bytes:
        """What is answered to these very bytes."""
        reader, writer = await asyncio.open_connection(*self.address)
        try:
            writer.write(request)
            await writer.drain()
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await reader.readuntil(b"\r\n")
        finally:
            writer.close()

    async def spent(self, grant_id: str = "trial") -> GrantUsage:
        return await self.ledger.spent(grant_id)

    async def calls(self, grant_id: str = "trial") -> list[Call]:
        await self.spent(grant_id)
        return list(read_calls(protocol.record_file(self.folder, grant_id)))
