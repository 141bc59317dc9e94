"""Downloads over HTTP: retried after interruptions, resumed, checked, and only then given final names."""

import hashlib
import ipaddress
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

import httpx

from benchyard.benchmarks.sources.base import FetchLimits, FetchProgress, SourceFile
from benchyard.benchmarks.sources.cache import path_beside
from benchyard.errors import DatasetError

T = TypeVar("T")

_MOST_REDIRECTS = 8
_LONGEST_WAIT = 120.0
_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_TOKEN = re.compile(r"[!-~]{1,1000}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Interruption(DatasetError):
    """Failure that may not repeat; `wait` is the pause that the server requests."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


@dataclass(frozen=True)
class Hub:
    """Address of a hub, and the token, which is sent to no other server."""

    address: str
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if _split(self.address) is None:
            raise DatasetError("HF_ENDPOINT must be an address that begins with https:// or http://")
        if "@" in urlsplit(self.address).netloc:
            raise DatasetError("HF_ENDPOINT must be an address without a name and a password")
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            raise DatasetError("the token for the hub has characters that no token has; check HF_TOKEN")

    def authorization(self, url: str) -> dict[str, str]:
        """Return the header that opens gated files, for the hub's own address only."""
        if self.token is None or _split(url) != _split(self.address):
            return {}
        if urlsplit(url).scheme != "https" and not _is_loopback(urlsplit(url).hostname or ""):
            raise DatasetError("the token is not sent over http://; give HF_ENDPOINT an https:// address")
        return {"Authorization": f"Bearer {self.token}"}

    def is_own(self, url: str) -> bool:
        """Tell whether an address is the hub's."""
        return _split(url) == _split(self.address)


@dataclass
class HubResponse:
    """Last response of a request, with the facts that the hub itself gave about the file."""

    response: httpx.Response
    sha256: str | None = None
    size: int | None = None
    linked_tag: str | None = None

    @property
    def tag(self) -> str | None:
        """Tag that changes when the file does; None without a strong one."""
        given = self.linked_tag or self.response.headers.get("ETag")
        return given if given and not given.startswith("W/") else None


@contextmanager
def open_response(client: httpx.Client, hub: Hub, url: str, headers: dict[str, str]) -> Iterator[HubResponse]:
    """Yield the response to a GET, its body unread; raises Interruption for failures that may not repeat."""
    answer: HubResponse | None = None
    for _ in range(_MOST_REDIRECTS):
        with _send(client, url, {**headers, **hub.authorization(url)}) as response:
            if answer is None:
                answer = HubResponse(response)
            answer.response = response
            if hub.is_own(url):
                _note(answer)
            if not response.has_redirect_location:
                _check_again(response)
                yield answer
                return
            url = _next(url, response)
    raise DatasetError(f"{_host(url)} redirects endlessly")


def retry(step: Callable[[], T], grown: Callable[[], int], limits: FetchLimits, what: str) -> T:
    """Repeat a step while it is interrupted; attempts that brought data do not count as failures."""
    deadline, failed = time.monotonic() + limits.seconds, 0
    while True:
        before = grown()
        try:
            return step()
        except Interruption as error:
            failed = 1 if grown() > before else failed + 1
            if failed >= limits.attempts or time.monotonic() > deadline:
                raise DatasetError(
                    f"{what} could not be fetched: {error.message}; tried {failed} times. Try again: what "
                    "is there already is kept. Without a network, give a copy with --from"
                ) from error
            pause = limits.pause_seconds * 2 ** (failed - 1) if error.wait is None else error.wait
            time.sleep(min(pause, _LONGEST_WAIT, max(0.0, deadline - time.monotonic())))


@contextmanager
def interruptions(url: str) -> Iterator[None]:
    """Turn broken connections into Interruption; only the host is named, since addresses can contain keys."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise Interruption(f"{_host(url)} did not answer in time") from error
    except httpx.UnsupportedProtocol as error:
        raise DatasetError(f"{_host(url)} cannot be asked: {error}") from error
    except httpx.TransportError as error:
        raise Interruption(f"the connection to {_host(url)} broke: {str(error)[:200]}") from error


@contextmanager
def _send(client: httpx.Client, url: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
    try:
        request = client.build_request("GET", url, headers={"Accept-Encoding": "identity", **headers})
    except httpx.InvalidURL as error:
        raise DatasetError(f"{_host(url)} redirects to an invalid address") from error
    with interruptions(url):
        response = client.send(request, stream=True)
    try:
        yield response
    finally:
        response.close()


def _note(answer: HubResponse) -> None:
    """Note the checksum and size that the hub sends for large files with the redirect."""
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
    delay = response.headers.get("Retry-After", "")
    wait = float(delay) if delay.isascii() and delay.isdigit() and len(delay) < 10 else None
    raise Interruption(f"{response.url.host} answered {response.status_code}", wait)


def _next(url: str, response: httpx.Response) -> str:
    try:
        target = urljoin(url, response.headers["Location"])
    except ValueError as error:
        raise DatasetError(f"{_host(url)} redirects to an invalid address") from error
    parts = _split(target)
    if parts is None:
        raise DatasetError(f"{_host(url)} redirects to an address that is neither https:// nor http://")
    if urlsplit(url).scheme == "https" and parts[0] != "https":
        raise DatasetError(f"{_host(url)} redirects from https:// to http://, which is not followed")
    return target


def _split(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of an HTTP address; None for others."""
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


_LONGEST_TAG = 1000
_RANGE = re.compile(r"bytes (?:(\d{1,18})-\d{1,18}|\*)/(\d{1,18}|\*)")


@dataclass(frozen=True)
class FileRequest:
    """A file to fetch: its address, the known facts, and its target."""

    url: str
    file: SourceFile
    target: Path
    partial: Path
    name: str
    """Name for people."""


def is_whole(file: SourceFile, path: Path) -> bool:
    """Tell whether a file exists and matches its pins."""
    if not path.is_file():
        return False
    if file.size is not None and path.stat().st_size != file.size:
        return False
    return file.sha256 is None or file_sha256(path) == file.sha256


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Download:
    """Fetches one file."""

    def __init__(self, wanted: FileRequest, hub: Hub, client: httpx.Client, limits: FetchLimits) -> None:
        self._wanted = wanted
        self._hub = hub
        self._client = client
        self._limits = limits
        self._partial = _Partial(wanted.partial)
        self._deadline = time.monotonic() + limits.seconds

    def run(self, progress: FetchProgress) -> None:
        """Fetch the file, check it, and give it its name; raises DatasetError."""
        shown = _Shown(self._wanted.name, progress)
        try:
            known = retry(lambda: self._attempt(shown), self._partial.size, self._limits, self._wanted.name)
            self._check(known)
        finally:
            shown.end()
        self._wanted.target.parent.mkdir(parents=True, exist_ok=True)
        self._partial.become(self._wanted.target)

    def _attempt(self, shown: "_Shown") -> str | None:
        """Fetch the missing part; return the checksum that the hub gave."""
        have, tag = self._partial.size(), self._partial.tag()
        if have and tag is None:
            self._partial.remove()
            have = 0
        headers = {"Range": f"bytes={have}-"} if have else {}
        with open_response(self._client, self._hub, self._wanted.url, headers) as answer:
            start = self._start(answer, have, tag)
            if start is not None:
                total = self._total(answer, start)
                self._partial.begin(start, answer.tag)
                shown.begin(total)
                self._receive(answer, total, shown)
            return answer.sha256

    def _start(self, answer: HubResponse, have: int, tag: str | None) -> int | None:
        """Return the offset of the body in the file; None if nothing is missing any more."""
        status = answer.response.status_code
        if status == 200:
            return 0
        if status not in (206, 416) or not have:
            raise self._refusal(status)
        match = _RANGE.fullmatch(answer.response.headers.get("Content-Range", ""))
        if match and answer.tag == tag:
            if status == 206 and match[1] == str(have):
                return have
            if status == 416 and match[2] == str(have):
                return None
        self._partial.remove()
        raise Interruption("the file has changed since the download began", wait=0)

    def _total(self, answer: HubResponse, start: int) -> int | None:
        coded = answer.response.headers.get("Content-Encoding", "identity")
        if coded != "identity":
            raise DatasetError(f"{self._wanted.name} comes as {coded[:20]!r}, which was not requested")
        length = answer.response.headers.get("Content-Length", "")
        rest = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None
        total = answer.size if rest is None else start + rest
        if total is not None:
            self._check_size(total)
            if self._wanted.file.size not in (None, total):
                raise DatasetError(
                    f"{self._wanted.name} has {total} bytes there, and should have {self._wanted.file.size}; "
                    "it is not what was pinned"
                )
        return total or self._wanted.file.size

    def _receive(self, answer: HubResponse, total: int | None, shown: "_Shown") -> None:
        have = self._partial.size()
        shown.reach(have)
        with self._partial.path.open("ab") as file, interruptions(str(answer.response.url)):
            for chunk in answer.response.iter_raw():
                have += len(chunk)
                self._check_size(have)
                if time.monotonic() > self._deadline:
                    raise DatasetError(
                        f"{self._wanted.name} was not complete after {self._limits.seconds:.0f} seconds; "
                        "try again: what is there already is kept"
                    )
                file.write(chunk)
                shown.reach(have)
            file.flush()
            os.fsync(file.fileno())
        if total is not None and have < total:
            raise Interruption(f"it ended after {have} of {total} bytes")

    def _check_size(self, size: int) -> None:
        limit = self._limits.file_bytes if self._wanted.file.size is None else self._wanted.file.size
        if size > limit:
            self._partial.remove()
            raise DatasetError(f"{self._wanted.name} is larger than {limit} bytes, and is not taken")

    def _check(self, told: str | None) -> None:
        """Compare the file with its pins, or else with the hub's facts about it."""
        size, pinned = self._partial.size(), self._wanted.file
        if pinned.size is not None and size != pinned.size:
            self._partial.remove()
            raise DatasetError(f"{self._wanted.name} has {size} bytes, and should have {pinned.size}")
        expected = pinned.sha256 or told
        if expected is None:
            return
        digest = file_sha256(self._partial.path)
        if digest != expected:
            self._partial.remove()
            raise DatasetError(
                f"{self._wanted.name} has the checksum {digest}, and should have {expected}: it was damaged "
                "on the way, or is not what was pinned. It was removed; try again, or give a good copy "
                "with --from"
            )

    def _refusal(self, status: int) -> DatasetError:
        if status in (401, 403):
            return DatasetError(f"{self._wanted.name}: the hub asks for a token ({status})", status=status)
        if status == 404:
            return DatasetError(f"{self._wanted.name} is not there (404)", status=status)
        return DatasetError(f"{self._wanted.name}: the hub answered {status}", status=status)


class _Partial:
    """An incomplete file, and the tag of the whole file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tag = path_beside(path, ".etag")

    def size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def tag(self) -> str | None:
        return self._tag.read_text(errors="replace") or None if self._tag.is_file() else None

    def begin(self, start: int, tag: str | None) -> None:
        """Start an empty file and note its tag, unless a part is to be continued."""
        if start:
            return
        self.remove()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if tag is not None and len(tag) <= _LONGEST_TAG:
            self._tag.write_text(tag)
        self.path.touch()

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self._tag.unlink(missing_ok=True)

    def become(self, target: Path) -> None:
        self.path.replace(target)
        self._tag.unlink(missing_ok=True)


class _Shown:
    """Reports progress: once at the beginning, and then each growth."""

    def __init__(self, name: str, progress: FetchProgress) -> None:
        self._name = name
        self._progress = progress
        self._begun = False
        self._at = 0

    def begin(self, total: int | None) -> None:
        if not self._begun:
            self._begun = True
            self._progress.started(self._name, total)

    def reach(self, position: int) -> None:
        if position != self._at:
            self._progress.advanced(position - self._at)
            self._at = position

    def end(self) -> None:
        if self._begun:
            self._progress.done()
