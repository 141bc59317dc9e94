"""The one core of both clients: operations are written once, as generators of actions.

An operation never sends anything itself. It yields an action (`Send`, `Open`, `Read`, `Sleep`), is given the
result or the transport's error, and returns what it made of it. A session that blocks and one that awaits
drive the same generators, so that only the sending exists twice.
"""

import json
import random
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from benchyard.errors import (
    BenchyardError,
    Conflict,
    Forbidden,
    NotFound,
    NotYet,
    ServerUnreachable,
    StillWaiting,
    StoreError,
    TooLarge,
    TooMany,
    Unauthorized,
    UsageError,
)

LONGEST_MESSAGE = 2000
BY_STATUS = {
    kind.http_status: kind
    for kind in (
        UsageError,
        Unauthorized,
        Forbidden,
        NotFound,
        StillWaiting,
        Conflict,
        TooLarge,
        TooMany,
        NotYet,
        StoreError,
    )
}


def error_from(status: int, content: bytes) -> BenchyardError:
    """Return the error that an answer stands for: by its code, else by its status."""
    body = _object(content)
    kind = _by_code().get(str(body.get("code"))) or _by_status(status)
    message = body.get("message")
    if not isinstance(message, str) or not message:
        message = f"the server answered {status}"
    error = kind(message[:LONGEST_MESSAGE])
    details = body.get("details")
    if isinstance(details, dict):
        error.details.update({str(name): value for name, value in details.items()})
    return error


def _object(content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _by_status(status: int) -> type[BenchyardError]:
    if status in BY_STATUS:
        return BY_STATUS[status]
    return UsageError if 400 <= status < 500 else BenchyardError


def _by_code() -> dict[str, type[BenchyardError]]:
    """Return the error classes by code; only those that define one, since subclasses inherit codes."""
    return {kind.code: kind for kind in _tree(BenchyardError) if "code" in vars(kind)}


def _tree(kind: type[BenchyardError]) -> Iterator[type[BenchyardError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _tree(child)


T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

RETRIES = 5
FIRST_DELAY = 0.2
LONGEST_DELAY = 30.0
READ_TIMEOUT = 60.0
TRANSFER_TIMEOUT = 600.0

_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"

Query = Mapping[str, str | int | bool | None]


@dataclass(frozen=True)
class Server:
    """Address of a server, and the key for it."""

    url: str
    key: str = field(repr=False)
    trusted: Path | None = None
    """Certificates that a server of this machine is checked against; None means those the system trusts."""


@dataclass(frozen=True)
class Body:
    """A request body that is generated while it is sent, so that it may be larger than memory."""

    chunks: Callable[[], Iterator[bytes]]
    content_type: str = "application/octet-stream"
    length: int | None = None
    repeatable: bool = True
    """False when the source can be read only once; the request is then never retried."""


@dataclass(frozen=True)
class Request:
    """Description of one request."""

    method: str
    path: str
    """A path of the server, or a whole signed link that goes out without the key."""
    query: Query = field(default_factory=dict)
    json: BaseModel | Mapping[str, Any] | None = None
    body: Body | None = None
    timeout: float = READ_TIMEOUT
    long_poll: bool = False
    """True if 408 and a read timeout mean "not yet"; they are not retried here then."""
    id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers, except those that the client itself sets."""

    def with_id(self) -> "Request":
        """Return the same request with an id, so that the server recognises a retry of it."""
        if self.method == "GET" or self.id is not None:
            return self
        return replace(self, id=f"benchyard-{uuid.uuid4()}")

    @property
    def is_signed(self) -> bool:
        """Tell whether the link itself carries the permission."""
        return self.path.startswith(("http://", "https://"))

    @property
    def may_repeat(self) -> bool:
        """Tell whether the request can be sent a second time."""
        return self.body is None or self.body.repeatable

    def payload(self) -> bytes | None:
        """Return the JSON to send, if any; fields without a value are omitted."""
        if self.json is None:
            return None
        if isinstance(self.json, BaseModel):
            return self.json.model_dump_json(exclude_none=True, by_alias=True).encode()
        return json.dumps({name: value for name, value in self.json.items() if value is not None}).encode()


@dataclass(frozen=True)
class Reply:
    """Status, headers and content of an answer."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""

    def parse(self, model: type[M]) -> M:
        """Return the body as a model."""
        try:
            return model.model_validate_json(self.content)
        except ValidationError as error:
            raise BenchyardError(
                f"the server's answer is not a {model.__name__}: is it a Benchyard server of this version?",
                problems=[problem["msg"] for problem in error.errors()][:5],
            ) from error

    def data(self) -> Any:
        """Return the body as plain JSON values."""
        try:
            return json.loads(self.content)
        except ValueError as error:
            raise BenchyardError("the server's answer is not JSON: is it a Benchyard server?") from error


@dataclass(frozen=True)
class Send:
    """Send a request and read the whole answer; gives a Reply."""

    request: Request


@dataclass(frozen=True)
class Open:
    """Send a request and leave the body of a good answer to `Read`; gives a Reply."""

    request: Request


@dataclass(frozen=True)
class Read:
    """Read the next bytes of the open answer; gives b"" at its end."""


@dataclass(frozen=True)
class Sleep:
    """Wait for a number of seconds."""

    seconds: float


@dataclass(frozen=True)
class Emit(Generic[T]):
    """Hand one item to the caller that iterates."""

    item: T


Action = Send | Open | Read | Sleep
Steps = Generator[Action, Any, T]
Flow = Generator[Action | Emit[T], Any, None]


def at(template: str, *ids: str) -> str:
    """Fill ids into a path; each stays one segment, whatever characters it holds."""
    for id in ids:
        if id in ("", ".", ".."):
            raise UsageError(f"{id!r} is not an id or a name")
    return template.format(*(quote(id, safe="") for id in ids))


def send(request: Request) -> Steps[Reply]:
    """Send with retries; raises the error class that the answer's code names."""
    request = request.with_id()
    return (yield from _attempts(request, Send(request)))


def fetch(request: Request, model: type[M]) -> Steps[M]:
    """Send, and read the answer as a model."""
    reply = yield from send(request)
    return reply.parse(model)


def open_body(request: Request) -> Steps[Reply]:
    """Send with retries and leave the body open; read it with `read`."""
    request = request.with_id()
    return (yield from _attempts(request, Open(request)))


def read() -> Steps[bytes]:
    """Read the next bytes of the open answer, b"" at its end; transport errors pass through."""
    chunk: bytes = yield Read()
    return chunk


def pause(seconds: float) -> Steps[None]:
    """Wait for a number of seconds."""
    yield Sleep(seconds)


def backoff(attempt: int) -> float:
    """Return the seconds to wait before the next attempt, partly random."""
    delay: float = min(FIRST_DELAY * 2**attempt, LONGEST_DELAY)
    return delay * (1 - random.random() / 4)  # noqa: S311 (spreads retries, protects nothing)


def _attempts(request: Request, action: Send | Open) -> Steps[Reply]:
    for attempt in range(RETRIES + 1):
        last = attempt == RETRIES or not request.may_repeat
        try:
            reply: Reply = yield action
        except httpx.TransportError as error:
            if request.long_poll and isinstance(error, httpx.ReadTimeout):
                raise StillWaiting("the server did not answer the wait in time") from error
            if last or _UNTRUSTED in str(error):
                raise ServerUnreachable(_unreachable(error), cause=str(error)) from error
            yield Sleep(backoff(attempt))
            continue
        if reply.status < 400:
            return reply
        if last or not _wants_retry(reply, request):
            raise error_from(reply.status, reply.content)
        yield Sleep(_retry_after(reply) or backoff(attempt))
    raise AssertionError("the last attempt returns or raises")


def _wants_retry(reply: Reply, request: Request) -> bool:
    advice = reply.headers.get("x-should-retry")
    if request.long_poll and reply.status == 408:
        return False
    if advice is not None:
        return advice == "true"
    return reply.status in (408, 429) or (reply.status >= 500 and reply.status != 501)


def _retry_after(reply: Reply) -> float | None:
    try:
        seconds = float(reply.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 < seconds <= LONGEST_DELAY else None


def _unreachable(error: httpx.TransportError) -> str:
    try:
        url = error.request.url
        where = f"{url.scheme}://{url.netloc.decode()}"
    except RuntimeError:
        where = "the server"
    reason = str(error) or type(error).__name__
    if _UNTRUSTED in reason:
        return f"{where} is not trusted ({reason}); set SSL_CERT_FILE to a copy of the server's tls/ca.pem"
    return f"cannot reach {where} ({reason}); is it running, and is BENCHYARD_URL right?"


HOLD_SECONDS = 20.0
PAUSE_SECONDS = 0.05


def long_poll(ask: Callable[[float], Steps[T]], timeout: float | None) -> Steps[T]:
    """Ask repeatedly, passing how many seconds the server may hold the request, until there is an answer.

    Raises StillWaiting if there is none before the timeout; without a timeout it never gives up.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        hold = HOLD_SECONDS if deadline is None else min(HOLD_SECONDS, deadline - time.monotonic())
        try:
            return (yield from ask(max(hold, 0.0)))
        except StillWaiting:
            if deadline is not None and time.monotonic() >= deadline:
                raise
            # A stopping server answers without holding the request.
            yield from pause(PAUSE_SECONDS)
