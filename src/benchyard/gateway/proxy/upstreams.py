"""Client of upstreams: connections, trust, proxies, and waiting for rate limits."""

import asyncio
import email.utils
import ipaddress
import random
import ssl
import time
import urllib.request
from asyncio import timeout
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import aiohttp
import certifi
from multidict import CIMultiDict
from yarl import URL

from benchyard.gateway.accounts import Account
from benchyard.gateway.grants import Upstream
from benchyard.gateway.protocol import GatewayOptions
from benchyard.gateway.proxy.http1 import MOST_HEAD_BYTES, UpstreamConnections
from benchyard.gateway.proxy.requests import Headers, Refused

RATE_LIMITED = frozenset({429, 503, 529})
"""Statuses that ask the client to try later."""
_FINAL = (b"insufficient_quota", b"billing_hard_limit_reached")
"""Words in such an answer that mean that trying later is useless."""
_FIRST_SECONDS = 0.5
_LONGEST_SECONDS = 60.0
_SPACING_SECONDS = 0.1
_JITTER = 0.25


class RateLimitPool:
    """Requests to one upstream with one key, which share its rate limit."""

    def __init__(self) -> None:
        self._until = 0.0
        """Time at which waiting requests may start again."""
        self._next = 0.0
        """Time at which the next request may start."""
        self._strikes = 0
        self._turn = asyncio.Lock()

    @property
    def is_waiting(self) -> bool:
        """True while requests must wait."""
        return self._seconds_left() > 0 or self._turn.locked()

    def note_wait(self, seconds: float | None) -> float:
        """Note that an answer asked to wait; return the delay in seconds."""
        now = time.monotonic()
        if self._until <= now:
            self._strikes += 1
        delay = seconds
        if delay is None:
            delay = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2 ** min(self._strikes - 1, 16))
        self._until = max(self._until, now + delay * (1 + random.uniform(0, _JITTER)))  # noqa: S311
        return delay

    def answered(self) -> None:
        """Note an answer that did not ask to wait."""
        self._strikes = 0

    async def turn(self) -> None:
        """Wait until the next request may start."""
        if not self.is_waiting:
            return
        async with self._turn:
            # Requests under way may extend the wait meanwhile.
            left = self._seconds_left()
            while left > 0:
                await asyncio.sleep(left)
                left = self._seconds_left()
            self._next = time.monotonic() + _SPACING_SECONDS * random.uniform(0.5, 1.5)  # noqa: S311

    def _seconds_left(self) -> float:
        return max(self._until, self._next) - time.monotonic()


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer asks to wait; None if it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if value.replace(".", "", 1).isdecimal() and len(value) < 12:
            return float(value) * unit
    try:
        moment = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())


def is_quota_final(body: bytes) -> bool:
    """Tell whether waiting is useless because the quota is used up."""
    return any(word in body for word in _FINAL)


_SKIPPED = ("user-agent", "accept", "accept-encoding", "content-type")
"""Headers that the library would add if the agent did not send them."""


@dataclass
class UpstreamRequest:
    """A request on its way to an upstream."""

    account: Account
    upstream: Upstream
    method: str
    url: URL
    headers: CIMultiDict[str]
    body: bytes
    waited_ms: int = 0
    limited_ms: int = 0


class UpstreamResponse(Protocol):
    """An answer whose head has arrived."""

    @property
    def status(self) -> int:
        """HTTP status code."""

    @property
    def reason(self) -> str | None:
        """Reason phrase of the status."""

    @property
    def headers(self) -> Headers:
        """Headers of the answer."""

    async def read(self) -> bytes:
        """Return the next part of the body, empty at its end; raises OSError, aiohttp.ClientError."""

    def release(self) -> None:
        """End reading the answer."""

    def close(self) -> None:
        """Close the connection."""


class _LibraryResponse:
    """An answer received through aiohttp."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.reason = response.reason
        self.headers: Headers = response.headers
        self.read = response.content.readany
        self.release = response.release
        self.close = response.close


@dataclass
class BufferedResponse:
    """An answer, with the part of its body read so far."""

    response: UpstreamResponse
    begun: bytes = field(default=b"", repr=False)
    """Beginning of the body that was read already."""


class UpstreamClient:
    """Client with all connections to upstreams; ready after `open`."""

    def __init__(self, options: GatewayOptions) -> None:
        self._options = options
        self._pools: dict[tuple[str, str | None], RateLimitPool] = {}
        self._session: aiohttp.ClientSession | None = None
        self._connections: UpstreamConnections | None = None

    async def open(self) -> None:
        """Prepare for connections."""
        options, trust = self._options, _trust()
        self._connections = UpstreamConnections(trust, options.connect_seconds, options.first_byte_seconds)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=trust),
            # Cookies of an answer must reach only the devbox that it is for.
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            max_line_size=MOST_HEAD_BYTES,
            max_field_size=MOST_HEAD_BYTES,
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=options.connect_seconds, sock_read=options.first_byte_seconds
            ),
        )

    async def close(self) -> None:
        """Close every connection."""
        if self._connections is not None:
            self._connections.close()
        if self._session is not None:
            await self._session.close()

    async def ask(self, outgoing: UpstreamRequest) -> BufferedResponse:
        """Send a request, waiting for rate limits while time is left; return the answer. Raises Refused."""
        upstream, tally = outgoing.upstream, outgoing.account.tally
        pool = self._pools.setdefault((upstream.base_url, upstream.key), RateLimitPool())
        while True:
            if pool.is_waiting:
                with tally.count_wait() as wait:
                    await pool.turn()
                outgoing.waited_ms += wait.waited_ms
                outgoing.limited_ms += wait.limited_ms
            incoming = await self._send_in_time(outgoing)
            if incoming.response.status not in RATE_LIMITED:
                pool.answered()
                return incoming
            if not await _is_worth_waiting(outgoing, incoming, pool):
                return incoming
            incoming.response.close()

    async def _send_in_time(self, outgoing: UpstreamRequest) -> BufferedResponse:
        try:
            async with timeout(self._options.first_byte_seconds + self._options.connect_seconds):
                response = await self._send(outgoing)
        except TimeoutError as error:
            message = f"the model's provider at {outgoing.url.host} did not answer in time"
            raise Refused("unavailable", message, 504) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # The message of such an error may contain a URL, but never a header.
            message = f"the model's provider at {outgoing.url.host} cannot be reached: {_words(error)}"
            raise Refused("unavailable", message) from error
        return BufferedResponse(response)

    async def _send(self, outgoing: UpstreamRequest) -> UpstreamResponse:
        assert self._session is not None
        assert self._connections is not None
        method, url = outgoing.method, outgoing.url
        proxy = _proxy_for(url.scheme, url.host or "")
        if method == "POST" and proxy is None and url.user is None:
            return await self._connections.ask(method, url, outgoing.headers, outgoing.body)
        fetched = await self._session.request(
            method,
            url,
            headers=outgoing.headers,
            data=outgoing.body or None,
            allow_redirects=False,
            skip_auto_headers=_SKIPPED,
            proxy=proxy,
        )
        return _LibraryResponse(fetched)


async def _is_worth_waiting(
    outgoing: UpstreamRequest, incoming: BufferedResponse, pool: RateLimitPool
) -> bool:
    """Tell whether to retry after an answer that asks to wait; reads the beginning of its body."""
    try:
        incoming.begun = await incoming.response.read()
    except (aiohttp.ClientError, OSError) as error:
        raise Refused("unavailable", f"the provider broke off its answer: {_words(error)}") from error
    seconds = retry_after_seconds(incoming.response.headers)
    left = outgoing.account.grant.wait_seconds - outgoing.account.tally.spent.rate_limited_ms / 1000
    if left <= 0 or is_quota_final(incoming.begun) or (seconds is not None and seconds > left):
        return False
    pool.note_wait(seconds)
    return True


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _trust() -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not context.get_ca_certs():
        # The system has no CA bundle, or a folder read on demand; adding certifi's is harmless then.
        context.load_verify_locations(certifi.where())
    return context


@lru_cache(100)
def _proxy_for(scheme: str, host: str) -> str | None:
    """Return the proxy that the server's environment sets for an address; None for this machine itself."""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if local or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(scheme)


def upstream_url(upstream: Upstream, path: str, query: str) -> URL:
    """Return the URL of a request, unchanged, below the upstream's own path."""
    base = upstream.base_url.rstrip("/")
    return URL(f"{base}{path}{'?' + query if query else ''}", encoded=True)


def now_ms() -> int:
    """Return the current time in milliseconds."""
    return round(time.time() * 1000)
