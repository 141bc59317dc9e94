"""Asks a hub over HTTP: redirects are followed without the token, and some answers are worth another try."""

import ipaddress
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

import httpx

from benchyard.benchmarks.sources.base import Limits
from benchyard.errors import DatasetError

T = TypeVar("T")

_MOST_REDIRECTS = 8
_LONGEST_WAIT = 120.0
_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_TOKEN = re.compile(r"[!-~]{1,1000}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Interrupted(DatasetError):
    """What may work the next time; `wait` is how long the other side asked for."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


@dataclass(frozen=True)
class Hub:
    """Where a hub answers, and the token it is given, which nobody else is."""

    address: str
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if _split(self.address) is None:
            raise DatasetError("HF_ENDPOINT must be an address that begins with https:// or http://")
        if "@" in urlsplit(self.address).netloc:
            raise DatasetError("HF_ENDPOINT must be an address without a name and a password")
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            raise DatasetError("the token for the hub has letters that no token has; see to HF_TOKEN")

    def authorization(self, url: str) -> dict[str, str]:
        """The header that opens what is gated, for the hub's own address only."""
        if self.token is None or _split(url) != _split(self.address):
            return {}
        if urlsplit(url).scheme != "https" and not _is_loopback(urlsplit(url).hostname or ""):
            raise DatasetError("the token is not sent over http://; give HF_ENDPOINT an https:// address")
        return {"Authorization": f"Bearer {self.token}"}

    def is_own(self, url: str) -> bool:
        """Whether an address is the hub's."""
        return _split(url) == _split(self.address)


@dataclass
class Answer:
    """What came back: the last response, and what the hub itself said of the file on the way to it."""

    response: httpx.Response
    sha256: str | None = None
    size: int | None = None
    linked_tag: str | None = None

    @property
    def tag(self) -> str | None:
        """What changes when the file does."""
        given = self.linked_tag or self.response.headers.get("ETag")
        return given if given and not given.startswith("W/") else None


@contextmanager
def opened(client: httpx.Client, hub: Hub, url: str, headers: dict[str, str]) -> Iterator[Answer]:
    """The answer to a GET, its body not read yet; raises Interrupted for what may work the next time."""
    answer: Answer | None = None
    for _ in range(_MOST_REDIRECTS):
        with _sent(client, url, {**headers, **hub.authorization(url)}) as response:
            if answer is None:
                answer = Answer(response)
            answer.response = response
            if hub.is_own(url):
                _note(answer)
            if not response.has_redirect_location:
                _check_again(response)
                yield answer
                return
            url = _next(url, response)
    raise DatasetError(f"{_host(url)} redirects without an end")


def patiently(step: Callable[[], T], grown: Callable[[], int], limits: Limits, what: str) -> T:
    """Do a step, again and again while it is interrupted; attempts that brought something do not count."""
    deadline, failed = time.monotonic() + limits.seconds, 0
    while True:
        before = grown()
        try:
            return step()
        except Interrupted as error:
            failed = 1 if grown() > before else failed + 1
            if failed >= limits.attempts or time.monotonic() > deadline:
                raise DatasetError(
                    f"{what} could not be fetched: {error.message}; tried {failed} times. Try again: what "
                    "is there already is kept. Without a network, give a copy with --from"
                ) from error
            pause = limits.pause_seconds * 2 ** (failed - 1) if error.wait is None else error.wait
            time.sleep(min(pause, _LONGEST_WAIT, max(0.0, deadline - time.monotonic())))


@contextmanager
def interruptible(url: str) -> Iterator[None]:
    """What breaks a connection, as Interrupted; only the host is named, for addresses can carry keys."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise Interrupted(f"{_host(url)} did not answer in time") from error
    except httpx.UnsupportedProtocol as error:
        raise DatasetError(f"{_host(url)} cannot be asked: {error}") from error
    except httpx.TransportError as error:
        raise Interrupted(f"the connection to {_host(url)} broke: {str(error)[:200]}") from error


@contextmanager
def _sent(client: httpx.Client, url: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
    try:
        request = client.build_request("GET", url, headers={"Accept-Encoding": "identity", **headers})
    except httpx.InvalidURL as error:
        raise DatasetError(f"{_host(url)} redirects to what is no address") from error
    with interruptible(url):
        response = client.send(request, stream=True)
    try:
        yield response
    finally:
        response.close()


def _note(answer: Answer) -> None:
    """Large files tell their checksum and size on the way to where they lie."""
    headers = answer.response.headers
    tag = headers.get("X-Linked-Etag")
    if tag is not None:
        answer.linked_tag = tag
        plain = tag.strip('"').lower()
        answer.sha256 = plain if _SHA256.fullmatch(plain) else None
    size = headers.get("X-Linked-Size", "")
    if size.isascii() and size.isdigit() and len(size) < 20:
        answer.size = int(size)


def _check_again(response: httpx.Response) -> None:
    if response.status_code not in _AGAIN:
        return
    asked = response.headers.get("Retry-After", "")
    wait = float(asked) if asked.isascii() and asked.isdigit() and len(asked) < 10 else None
    raise Interrupted(f"{response.url.host} answered {response.status_code}", wait)


def _next(url: str, response: httpx.Response) -> str:
    try:
        target = urljoin(url, response.headers["Location"])
    except ValueError as error:
        raise DatasetError(f"{_host(url)} redirects to what is no address") from error
    parts = _split(target)
    if parts is None:
        raise DatasetError(f"{_host(url)} redirects to what is neither https:// nor http://")
    if urlsplit(url).scheme == "https" and parts[0] != "https":
        raise DatasetError(f"{_host(url)} redirects from https:// to http://, which is not followed")
    return target


def _split(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an address that can be asked."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return None
    if port is None or parts.scheme not in ("https", "http") or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port


def _host(url: str) -> str:
    parts = _split(url)
    return parts[1] if parts else "the hub"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
