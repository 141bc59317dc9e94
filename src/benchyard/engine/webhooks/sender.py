"""Requests of webhooks: only to addresses that are allowed, signed, and over within seconds."""

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from benchyard.errors import UsageError
from benchyard.gateway.egress.rules import Address, Host, Rules, host_of, plain_address

SECONDS = 10.0
"""Time for the whole of one request."""
_LONGEST_LINE = 8192

_LOOKUPS = 2
"""Names that are looked up at the same time."""

Resolve = Callable[[str, int], Awaitable[list[Address]]]


class NameLookups:
    """Looks names up in threads of its own.

    A resolver that does not answer keeps its thread long after the request was given up. Those of the event
    loop are few, and the server reads and writes its files with them.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(_LOOKUPS)

    async def __call__(self, name: str, port: int) -> list[Address]:
        """Return the addresses of a name, as this machine resolves it; raises OSError."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Address]] = loop.create_future()

        def end(found: list[Address] | OSError) -> None:
            self._free.release()
            if answer.done():
                return
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def work() -> None:
            found = _addresses(name, port)
            # The server may have stopped meanwhile, and its loop with it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(end, found)

        # A thread that the end of the server does not wait for.
        threading.Thread(target=work, name="webhook-name", daemon=True).start()
        return await answer


def _addresses(name: str, port: int) -> list[Address] | OSError:
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        # A label of a name may be too long for the encoding of names.
        return error if isinstance(error, OSError) else OSError(f"{name[:100]} is no name: {error}")
    texts = [str(address[4][0]).partition("%")[0] for address in found]
    return list(dict.fromkeys(plain_address(ipaddress.ip_address(text)) for text in texts))


@dataclass(frozen=True)
class WebhookTarget:
    """The address that a webhook's requests go to."""

    host: Host
    port: int
    path: str
    is_tls: bool

    @classmethod
    def of(cls, url: str) -> "WebhookTarget":
        """Parse a URL; raises UsageError for one that is no plain http or https address."""
        try:
            parts = urlsplit(url)
            host, port = host_of(parts.hostname or ""), parts.port
        except ValueError as error:
            raise UsageError(f"{url[:200]!r} is not a URL: {error}", field="url") from error
        if parts.scheme not in ("http", "https"):
            raise UsageError("a webhook's URL begins with https:// or http://", field="url")
        if parts.username is not None or parts.password is not None:
            raise UsageError(
                "a webhook's URL has no name or password; its requests are signed instead", field="url"
            )
        if parts.fragment or not url.isascii() or any(each <= " " or each == "\x7f" for each in url):
            raise UsageError("a webhook's URL has no fragment, spaces or other than ASCII", field="url")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        is_tls = parts.scheme == "https"
        return cls(host, port or (443 if is_tls else 80), path, is_tls)

    def require_allowed(self, rules: Rules) -> None:
        """Raise UsageError for an address that is closed; names are judged when a request is sent."""
        if not isinstance(self.host, str) and not rules.allows_address(self.host, self.port, by_name=False):
            raise UsageError(_refusal(str(self.host), self.host), field="url")

    @property
    def authority(self) -> str:
        """Return the value of the header Host."""
        host = (
            f"[{self.host}]" if not isinstance(self.host, str) and self.host.version == 6 else str(self.host)
        )
        usual = 443 if self.is_tls else 80
        return host if self.port == usual else f"{host}:{self.port}"


def _refusal(given: str, address: Address) -> str:
    return (
        f"{given} is a private network or this machine, which webhooks may not reach; "
        f"`benchyard serve --webhook-allow {address}/{address.max_prefixlen}` allows it"
    )


async def send(
    target: WebhookTarget,
    headers: Mapping[str, str],
    body: bytes,
    rules: Rules,
    look_up: Resolve,
    *,
    seconds: float = SECONDS,
) -> int:
    """Send one POST and return the status of its answer, of which only the first line is read.

    Raises OSError, ValueError or UsageError if there is no answer; redirections are not followed.
    """
    async with asyncio.timeout(seconds):
        address = await _allowed_address(target, rules, look_up)
        reader, writer = await asyncio.open_connection(
            str(address),
            target.port,
            limit=_LONGEST_LINE,
            ssl=_tls() if target.is_tls else None,
            server_hostname=str(target.host) if target.is_tls else None,
        )
        try:
            lines = [f"POST {target.path} HTTP/1.1", f"host: {target.authority}", "connection: close"]
            lines += [f"content-length: {len(body)}", "content-type: application/json"]
            lines += [f"{key}: {value}" for key, value in headers.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            await writer.drain()
            return _status(await reader.readline())
        finally:
            # Not a polite end: a receiver that never closes must cost nothing.
            writer.transport.abort()


async def _allowed_address(target: WebhookTarget, rules: Rules, look_up: Resolve) -> Address:
    """Return an address of the target that is allowed, which is then connected to without another lookup."""
    is_name = isinstance(target.host, str)
    found = await look_up(str(target.host), target.port) if isinstance(target.host, str) else [target.host]
    for address in found:
        if rules.allows_address(address, target.port, by_name=is_name):
            return address
    if not found:
        raise OSError(f"{target.host} has no address")
    raise UsageError(_refusal(str(target.host), found[0]), field="url")


def _status(line: bytes) -> int:
    version, _, rest = line.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise ValueError("the answer is not HTTP" if line else "the connection ended without an answer")
    return int(rest[:3])


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def signature(secret: str, delivery_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a delivery, as the Standard Webhooks have it: `v1,<base64>`."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{delivery_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
