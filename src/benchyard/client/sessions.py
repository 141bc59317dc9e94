"""The two ways to carry out an operation's actions: blocking and awaiting."""

import asyncio
import ssl
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import AsyncExitStack, ExitStack, aclosing, closing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypedDict, TypeVar
from urllib.parse import urlsplit

import httpx

from benchyard.client.operations import (
    Action,
    Body,
    Emit,
    Flow,
    Open,
    Read,
    Reply,
    Request,
    Send,
    Server,
    Sleep,
    Steps,
)
from benchyard.errors import ServerUnreachable


def tls_context(server: Server) -> ssl.SSLContext | None:
    """Return the TLS context that checks a server's certificate; None where there is no TLS.

    For a server of this machine, only the certificate that it left for its clients is trusted, under any host
    name: it alone has the key. All others are checked against `SSL_CERT_FILE`, else the publicly known
    authorities.
    """
    if urlsplit(server.url).scheme != "https":
        return None
    if server.trusted is None:
        return httpx.create_ssl_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(server.trusted)
    except OSError as error:
        raise ServerUnreachable(
            f"cannot read {server.trusted}, by which the local server is known: {error}; restart the server"
        ) from error
    return context


T = TypeVar("T")

CONNECT_TIMEOUT = 5.0
WRITE_TIMEOUT = 600.0


class SyncSession:
    """Carries out operations one after the other, blocking."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._http = httpx.Client(**_options(server))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def run(self, steps: Steps[T]) -> T:
        """Carry out an operation and return its result."""
        with closing(self._drive(steps)) as events:
            for event in events:
                if isinstance(event, Done):
                    result: T = event.value
                    return result
        raise AssertionError("an operation ends with its result")

    def spawn(self, steps: Steps[None]) -> "Spawned":
        """Carry out an operation in parallel to the caller."""
        spawned = Spawned()

        async def carry_out() -> None:
            self.run(steps)

        def in_thread() -> None:
            # A separate loop, because a task keeps any error that ends it.
            loop = asyncio.new_event_loop()
            try:
                task = loop.create_task(carry_out())
                task.add_done_callback(spawned.end)
                loop.run_until_complete(asyncio.wait([task]))
            finally:
                loop.close()

        threading.Thread(target=in_thread, daemon=True).start()
        return spawned

    def flow(self, flow: Flow[T]) -> Generator[T, None, None]:
        """Carry out an operation and yield its items as they come."""
        with closing(self._drive(flow)) as events:
            for event in events:
                if isinstance(event, Emit):
                    yield event.item

    def _drive(self, steps: Generator[Any, Any, Any]) -> "Generator[Emit[Any] | Done[Any], None, None]":
        with closing(steps), closing(_SyncActor(self._http, self.server)) as actor:
            step = _advance(steps)
            while not isinstance(step, Done):
                if isinstance(step, Emit):
                    yield step
                    step = _advance(steps)
                    continue
                try:
                    result = actor.act(step)
                except httpx.TransportError as error:
                    step = _advance(steps, error=error)
                else:
                    step = _advance(steps, result)
            yield step


class AsyncSession:
    """Carries out operations on an event loop."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._http = httpx.AsyncClient(**_options(server))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def run(self, steps: Steps[T]) -> T:
        """Carry out an operation and return its result."""
        async with aclosing(self._drive(steps)) as events:
            async for event in events:
                if isinstance(event, Done):
                    result: T = event.value
                    return result
        raise AssertionError("an operation ends with its result")

    def spawn(self, steps: Steps[None]) -> "Spawned":
        """Carry out an operation in parallel to the caller."""
        spawned = Spawned()
        spawned.task = asyncio.get_running_loop().create_task(self.run(steps))
        spawned.task.add_done_callback(spawned.end)
        return spawned

    async def flow(self, flow: Flow[T]) -> AsyncGenerator[T, None]:
        """Carry out an operation and yield its items as they come."""
        async with aclosing(self._drive(flow)) as events:
            async for event in events:
                if isinstance(event, Emit):
                    yield event.item

    async def _drive(self, steps: Generator[Any, Any, Any]) -> "AsyncGenerator[Emit[Any] | Done[Any], None]":
        async with aclosing(_AsyncActor(self._http, self.server)) as actor:
            with closing(steps):
                step = _advance(steps)
                while not isinstance(step, Done):
                    if isinstance(step, Emit):
                        yield step
                        step = _advance(steps)
                        continue
                    try:
                        result = await actor.act(step)
                    except httpx.TransportError as error:
                        step = _advance(steps, error=error)
                    else:
                        step = _advance(steps, result)
                yield step


Session = SyncSession | AsyncSession


class SyncContext:
    """Base of clients that close their connections at the end of a `with` block."""

    session: SyncSession

    def close(self) -> None:
        """Close the connections."""
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncContext:
    """Base of clients that close their connections at the end of an `async with` block."""

    session: AsyncSession

    async def close(self) -> None:
        """Close the connections."""
        await self.session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


@dataclass
class Spawned:
    """An operation that is carried out in parallel to others."""

    is_done: bool = False
    error: BaseException | None = None
    task: "asyncio.Task[None] | None" = None
    """Reference to the task: an event loop forgets tasks that nothing refers to."""

    def end(self, task: "asyncio.Task[None]") -> None:
        """Record the end of the operation, and its error."""
        self.error = asyncio.CancelledError() if task.cancelled() else task.exception()
        self.is_done = True


@dataclass(frozen=True)
class Done(Generic[T]):
    """End of an operation, with its result."""

    value: T


def _advance(
    steps: Generator[Any, Any, Any], result: object = None, *, error: httpx.TransportError | None = None
) -> Action | Emit[Any] | Done[Any]:
    try:
        step: Action | Emit[Any] = steps.send(result) if error is None else steps.throw(error)
    except StopIteration as done:
        return Done(done.value)
    return step


class _SyncActor:
    """Carries out the actions of one operation; answers that it opens are closed with the operation."""

    def __init__(self, http: httpx.Client, server: Server) -> None:
        self._http = http
        self._server = server
        self._stack = ExitStack()
        self._chunks: Iterator[bytes] = iter(())

    def close(self) -> None:
        self._stack.close()

    def act(self, action: Action) -> Reply | bytes | None:
        match action:
            case Send(request):
                response = self._http.request(
                    **_arguments(self._server, request), content=self._content(request)
                )
                return Reply(response.status_code, response.headers, response.content)
            case Open(request):
                return self._open(request)
            case Read():
                return next(self._chunks, b"")
            case Sleep(seconds):
                time.sleep(seconds)
        return None

    def _open(self, request: Request) -> Reply:
        self._stack.close()
        opening = self._http.stream(**_arguments(self._server, request), content=self._content(request))
        response = self._stack.enter_context(opening)
        content = response.read() if response.status_code >= 400 else b""
        self._chunks = response.iter_raw() if response.status_code < 400 else iter(())
        return Reply(response.status_code, response.headers, content)

    def _content(self, request: Request) -> bytes | Iterator[bytes] | None:
        return request.payload() if request.body is None else request.body.chunks()


class _AsyncActor:
    """Carries out the actions of one operation; answers that it opens are closed with the operation."""

    def __init__(self, http: httpx.AsyncClient, server: Server) -> None:
        self._http = http
        self._server = server
        self._stack = AsyncExitStack()
        self._chunks: AsyncIterator[bytes] | None = None

    async def aclose(self) -> None:
        await self._stack.aclose()

    async def act(self, action: Action) -> Reply | bytes | None:
        match action:
            case Send(request):
                arguments = _arguments(self._server, request)
                response = await self._http.request(**arguments, content=self._content(request))
                return Reply(response.status_code, response.headers, response.content)
            case Open(request):
                return await self._open(request)
            case Read():
                return b"" if self._chunks is None else await anext(self._chunks, b"")
            case Sleep(seconds):
                await asyncio.sleep(seconds)
        return None

    async def _open(self, request: Request) -> Reply:
        await self._stack.aclose()
        opening = self._http.stream(**_arguments(self._server, request), content=self._content(request))
        response = await self._stack.enter_async_context(opening)
        content = await response.aread() if response.status_code >= 400 else b""
        self._chunks = response.aiter_raw() if response.status_code < 400 else None
        return Reply(response.status_code, response.headers, content)

    def _content(self, request: Request) -> bytes | AsyncIterator[bytes] | None:
        return request.payload() if request.body is None else _chunks_in_thread(request.body)


async def _chunks_in_thread(body: Body) -> AsyncIterator[bytes]:
    chunks = body.chunks()
    while chunk := await asyncio.to_thread(next, chunks, b""):
        yield chunk


class _Options(TypedDict):
    timeout: httpx.Timeout
    limits: httpx.Limits
    trust_env: bool
    verify: ssl.SSLContext | bool
    follow_redirects: bool


def _options(server: Server) -> _Options:
    is_local = urlsplit(server.url).hostname in ("127.0.0.1", "::1", "localhost")
    return {
        "timeout": httpx.Timeout(None, connect=CONNECT_TIMEOUT),
        "limits": httpx.Limits(max_connections=1000, max_keepalive_connections=32),
        "trust_env": not is_local,
        "verify": tls_context(server) or True,
        "follow_redirects": False,
    }


class _Arguments(TypedDict):
    method: str
    url: str
    params: dict[str, str] | None
    headers: dict[str, str]
    timeout: httpx.Timeout


def _arguments(server: Server, request: Request) -> _Arguments:
    return {
        "method": request.method,
        "url": request.path if request.is_signed else server.url.rstrip("/") + request.path,
        "params": {name: _text(value) for name, value in request.query.items() if value is not None} or None,
        "headers": _headers(server, request),
        "timeout": httpx.Timeout(request.timeout, connect=CONNECT_TIMEOUT, write=WRITE_TIMEOUT),
    }


def _headers(server: Server, request: Request) -> dict[str, str]:
    headers = {"accept-encoding": "identity", "user-agent": "benchyard"}
    headers |= {name.lower(): value for name, value in request.headers.items()}
    if not request.is_signed:
        headers["authorization"] = f"Bearer {server.key}"
    if request.id is not None:
        headers["x-request-id"] = request.id
    if request.body is not None:
        headers["content-type"] = request.body.content_type
        if request.body.length is not None:
            headers["content-length"] = str(request.body.length)
    elif request.json is not None:
        headers["content-type"] = "application/json"
    return headers


def _text(value: str | int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
