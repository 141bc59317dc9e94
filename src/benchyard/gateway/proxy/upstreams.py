"""Asking upstreams: connections, trust, proxies, and waiting when they say to come back later."""

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
"""Answers that say: not now."""
_FINAL = (b"insufficient_quota", b"billing_hard_limit_reached")
"""Words in such an answer that say: not later either."""
_FIRST_SECONDS = 0.5
_LONGEST_SECONDS = 60.0
_SPACING_SECONDS = 0.1
_JITTER = 0.25


class RateLimitPool:
    """Those who ask one upstream with one key."""

    def __init__(self) -> None:
        self._until = 0.0
        """When those who were told to wait may come back."""
        self._next = 0.0
        """When the next one may."""
        self._strikes = 0
        self._turn = asyncio.Lock()

    @property
    def is_waiting(self) -> bool:
        """Whether somebody was told to wait, or waits."""
        return self._left() > 0 or self._turn.locked()

    def told(self, seconds: float | None) -> float:
        """Note that an answer said to wait; returns for how long."""
        now = time.monotonic()
        if self._until <= now:
            self._strikes += 1
        delay = seconds
        if delay is None:
            delay = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2 ** min(self._strikes - 1, 16))
        self._until = max(self._until, now + delay * (1 + random.uniform(0, _JITTER)))  # noqa: S311
        return delay

    def answered(self) -> None:
        """Note that an answer did not say to wait."""
        self._strikes = 0

    async def turn(self) -> None:
        """Wait until it is this one's turn."""
        if not self.is_waiting:
            return
        async with self._turn:
            # Whoever is under way may be told to wait longer in the meantime.
            left = self._left()
            while left > 0:
                await asyncio.sleep(left)
                left = self._left()
            self._next = time.monotonic() + _SPACING_SECONDS * random.uniform(0.5, 1.5)  # noqa: S311

    def _left(self) -> float:
        return max(self._until, self._next) - time.monotonic()


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """How long an answer says to wait; None if it does not."""
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
    """Whether waiting would not help."""
    return any(word in body for word in _FINAL)


_SKIPPED = ("user-agent", "accept", "accept-encoding", "content-type")
"""What the library would add where the agent sent none."""


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
    """An answer whose head has come."""

    @property
    def status(self) -> int:
        """As HTTP has it."""

    @property
    def reason(self) -> str | None:
        """The words beside it."""

    @property
    def headers(self) -> Headers:
        """What comes before its body."""

    async def read(self) -> bytes:
        """What has come of its body; nothing at its end. Raises OSError, aiohttp.ClientError."""

    def release(self) -> None:
        """Nothing more is read of it."""

    def close(self) -> None:
        """End its connection."""


class _LibraryResponse:
    """An answer that the library has asked for."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.reason = response.reason
        self.headers: Headers = response.headers
        self.read = response.content.readany
        self.release = response.release
        self.close = response.close


@dataclass
class UpstreamAnswer:
    """An answer, and what is known of it."""

    response: UpstreamResponse
    begun: bytes = field(default=b"", repr=False)
    """What was read of its body already."""


class UpstreamClient:
    """All connections to upstreams; opened by `open`."""

    def __init__(self, options: GatewayOptions) -> None:
        self._options = options
        self._pools: dict[tuple[str, str | None], RateLimitPool] = {}
        self._session: aiohttp.ClientSession | None = None
        self._connections: UpstreamConnections | None = None

    async def open(self) -> None:
        """Be ready to connect."""
        options, trust = self._options, _trust()
        self._connections = UpstreamConnections(trust, options.connect_seconds, options.first_byte_seconds)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=trust),
            # Cookies of an answer go to its own devbox and nowhere else.
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

    async def ask(self, outgoing: UpstreamRequest) -> UpstreamAnswer:
        """The upstream's answer, once it is one or there is no more time to wait; raises Refused."""
        upstream, tally = outgoing.upstream, outgoing.account.tally
        pool = self._pools.setdefault((upstream.base_url, upstream.key), RateLimitPool())
        while True:
            if pool.is_waiting:
                with tally.held() as wait:
                    await pool.turn()
                outgoing.waited_ms += wait.waited_ms
                outgoing.limited_ms += wait.limited_ms
            incoming = await self._sent(outgoing)
            if incoming.response.status not in RATE_LIMITED:
                pool.answered()
                return incoming
            if not await _is_worth_waiting(outgoing, incoming, pool):
                return incoming
            incoming.response.close()

    async def _sent(self, outgoing: UpstreamRequest) -> UpstreamAnswer:
        try:
            async with timeout(self._options.first_byte_seconds + self._options.connect_seconds):
                response = await self._asked(outgoing)
        except TimeoutError as error:
            message = f"the model's provider at {outgoing.url.host} did not answer in time"
            raise Refused("unavailable", message, 504) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # The message of an error may show a URL, but never a header.
            message = f"the model's provider at {outgoing.url.host} cannot be reached: {_words(error)}"
            raise Refused("unavailable", message) from error
        return UpstreamAnswer(response)

    async def _asked(self, outgoing: UpstreamRequest) -> UpstreamResponse:
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


async def _is_worth_waiting(outgoing: UpstreamRequest, incoming: UpstreamAnswer, pool: RateLimitPool) -> bool:
    """Whether to ask again after an answer that says to wait; reads the beginning of its body."""
    try:
        incoming.begun = await incoming.response.read()
    except (aiohttp.ClientError, OSError) as error:
        raise Refused("unavailable", f"the provider broke off its answer: {_words(error)}") from error
    told = retry_after_seconds(incoming.response.headers)
    left = outgoing.account.grant.wait_seconds - outgoing.account.tally.spent.rate_limited_ms / 1000
    if left <= 0 or is_quota_final(incoming.begun) or (told is not None and told > left):
        return False
    pool.told(told)
    return True


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _trust() -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not context.get_ca_certs():
        # The system has no bundle of its own, or a folder that is read as needed; these do no harm then.
        context.load_verify_locations(certifi.where())
    return context


@lru_cache(100)
def _proxy_for(scheme: str, host: str) -> str | None:
    """The proxy that the server's environment names for an address; none for this machine itself."""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if local or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(scheme)


def upstream_url(upstream: Upstream, path: str, query: str) -> URL:
    """Where a request goes, as it is written: below the upstream's own path."""
    base = upstream.base_url.rstrip("/")
    return URL(f"{base}{path}{'?' + query if query else ''}", encoded=True)


def now_ms() -> int:
    """The time of day."""
    return round(time.time() * 1000)
