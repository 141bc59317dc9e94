"""Reports that were made: those of ended jobs are remembered, the others made again not too often."""

import asyncio
import gzip
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property

from starlette.requests import Request
from starlette.responses import Response

_REMEMBERED_BYTES = 64 * 1024**2
_LEAST_SECONDS = 0.5
_PAUSE = 10.0
"""A report of what is still running is made again after so many times its own duration, at the earliest."""
_MOST_RECENT = 64
_RECENT_BYTES = 32 * 1024**2
"""Size of the reports of what is still running that are kept, at most; the newest one is kept in any case."""
_SMALL_BYTES = 16 * 1024
"""Compressed size up to which a report is unpacked on the event loop."""


@dataclass(frozen=True)
class Report:
    """A report as compressed JSON."""

    packed: bytes

    @property
    def text(self) -> bytes:
        """Return the JSON."""
        return gzip.decompress(self.packed)

    @cached_property
    def tag(self) -> str:
        """Return the entity tag of its content: a weak one, which holds for every encoding."""
        return tag_of(self.packed)

    def respond(self, request: Request) -> Response:
        """Return it as an answer: compressed where the client takes that, or as not modified."""
        if request.method == "GET" and is_known(self.tag, request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=self._headers())
        if takes_gzip(request.headers.get("accept-encoding", "")):
            headers = {**self._headers(), "content-encoding": "gzip"}
            return Response(self.packed, media_type="application/json", headers=headers)
        return Response(self.text, media_type="application/json", headers=self._headers())

    async def answer(self, request: Request) -> Response:
        """Return the same as `respond`; a large report is handled in a thread."""
        if len(self.packed) <= _SMALL_BYTES:
            return self.respond(request)
        return await asyncio.to_thread(self.respond, request)

    def _headers(self) -> dict[str, str]:
        return {"etag": self.tag, "vary": "accept-encoding", "cache-control": "no-cache"}


def tag_of(content: bytes) -> str:
    """Return the entity tag of a content."""
    return f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'


def is_known(tag: str, asked: str) -> bool:
    """Tell whether a client's `if-none-match` has a tag; weak and strong tags are compared alike."""
    known = [each.strip().removeprefix("W/") for each in asked.split(",")]
    return "*" in known or tag.removeprefix("W/") in known


def takes_gzip(accepted: str) -> bool:
    """Tell whether a client's `accept-encoding` allows gzip: by its name, or else as any encoding."""
    wishes: dict[str, float] = {}
    for part in accepted.lower().split(","):
        name, *options = (each.strip() for each in part.split(";"))
        wishes["gzip" if name == "x-gzip" else name] = _weight(options)
    return wishes.get("gzip", wishes.get("*", 0.0)) > 0


def _weight(options: list[str]) -> float:
    for option in options:
        key, _, value = option.partition("=")
        if key.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


class ReportCache:
    """The reports that were made, by key."""

    def __init__(self) -> None:
        self._known: OrderedDict[object, Report] = OrderedDict()
        self._size = 0
        self._recent: OrderedDict[object, _Recent] = OrderedDict()

    @property
    def size(self) -> int:
        """Return the size of what is remembered, in bytes."""
        return self._size

    def find(self, key: object) -> Report | None:
        """Return a remembered report, or None."""
        if (known := self._known.get(key)) is not None:
            self._known.move_to_end(key)
        return known

    async def get(self, key: object, make: Callable[[], Awaitable[Report]], *, is_settled: bool) -> Report:
        """Return what is remembered or was made a moment ago; all who ask meanwhile wait for one making.

        What is still changing is made again at most after ten times as long as it took, so that polls take no
        more than a tenth of a processor, however large it is and however many there are.
        """
        if (known := self.find(key)) is not None:
            return known
        # What was made before its subject settled is never remembered.
        place = key, is_settled
        recent = self._recent.get(place)
        if recent is None or recent.is_stale:
            recent = self._recent[place] = _Recent(asyncio.ensure_future(make()), time.monotonic())
            self._recent.move_to_end(place)
            recent.making.add_done_callback(recent.end)
            self._forget_old()
        report = await asyncio.shield(recent.making)
        if is_settled and key not in self._known:
            self.remember(key, report)
        if is_settled and self._recent.get(place) is recent:
            del self._recent[place]
        self._forget_old()
        return report

    def remember(self, key: object, report: Report) -> None:
        """Keep a report, and drop those that were not asked for longest."""
        if (old := self._known.pop(key, None)) is not None:
            self._size -= len(old.packed)
        self._known[key] = report
        self._size += len(report.packed)
        while self._size > _REMEMBERED_BYTES:
            _, dropped = self._known.popitem(last=False)
            self._size -= len(dropped.packed)

    def _forget_old(self) -> None:
        """Drop the oldest of what was made a moment ago; who waits for one of them still gets it."""
        size = sum(each.size for each in self._recent.values())
        while len(self._recent) > 1 and (len(self._recent) > _MOST_RECENT or size > _RECENT_BYTES):
            _, dropped = self._recent.popitem(last=False)
            size -= dropped.size


class _Recent:
    """A report that is being made, or was made a moment ago."""

    def __init__(self, making: "asyncio.Future[Report]", begin: float) -> None:
        self.making = making
        self.size = 0
        self._begin = begin
        self._end: float | None = None

    def end(self, making: "asyncio.Future[Report]") -> None:
        """Note when it was made; a failure is told to those who wait, and not remembered."""
        self._end = time.monotonic()
        if making.cancelled() or making.exception() is not None:
            self._end = -1.0
        else:
            self.size = len(making.result().packed)

    @property
    def is_stale(self) -> bool:
        """Tell whether it is time to make it again."""
        if self._end is None:
            return False
        pause = max(_LEAST_SECONDS, _PAUSE * (self._end - self._begin))
        return time.monotonic() > self._end + pause
