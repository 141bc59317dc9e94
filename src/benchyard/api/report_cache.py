"""Reports that were made: those of ended jobs are remembered, the others made again not too often."""

import asyncio
import gzip
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

_REMEMBERED_BYTES = 64 * 1024**2
_LEAST_SECONDS = 0.5
_PAUSE = 10.0
"""Pause before the report of a running job is made again, as a multiple of the time that making it took."""
_MOST_RECENT = 64


@dataclass(frozen=True)
class Report:
    """A report as compressed JSON."""

    packed: bytes

    @property
    def text(self) -> bytes:
        """Return the JSON."""
        return gzip.decompress(self.packed)

    @property
    def tag(self) -> str:
        """Return the entity tag of its content."""
        return f'"{hashlib.sha256(self.packed).hexdigest()[:32]}"'

    def respond(self, request: Request) -> Response:
        """Return it as an answer: compressed where the client takes that, or as not modified."""
        headers = {"etag": self.tag, "vary": "accept-encoding", "cache-control": "no-cache"}
        if self.tag in [each.strip() for each in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return Response(self.packed, media_type="application/json", headers=headers)
        return Response(self.text, media_type="application/json", headers=headers)


class ReportCache:
    """The reports that were made, by key."""

    def __init__(self) -> None:
        self._known: OrderedDict[object, Report] = OrderedDict()
        self._size = 0
        self._recent: OrderedDict[object, _Recent] = OrderedDict()

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
        recent = self._recent.get(key)
        if recent is None or recent.is_stale:
            recent = self._recent[key] = _Recent(asyncio.ensure_future(make()), time.monotonic())
            recent.making.add_done_callback(recent.end)
            while len(self._recent) > _MOST_RECENT:
                self._recent.popitem(last=False)
        report = await asyncio.shield(recent.making)
        if is_settled and key not in self._known:
            self.remember(key, report)
            self._recent.pop(key, None)
        return report

    def remember(self, key: object, report: Report) -> None:
        """Keep a report, and drop those that were not asked for longest."""
        self._known[key] = report
        self._size += len(report.packed)
        while self._size > _REMEMBERED_BYTES:
            _, dropped = self._known.popitem(last=False)
            self._size -= len(dropped.packed)


class _Recent:
    """A report that is being made, or was made a moment ago."""

    def __init__(self, making: "asyncio.Future[Report]", begin: float) -> None:
        self.making = making
        self._begin = begin
        self._end: float | None = None

    def end(self, making: "asyncio.Future[Report]") -> None:
        """Note when it was made; a failure is told to those who wait, and not remembered."""
        self._end = time.monotonic()
        if making.cancelled() or making.exception() is not None:
            self._end = -1.0

    @property
    def is_stale(self) -> bool:
        """Tell whether it is time to make it again."""
        if self._end is None:
            return False
        pause = max(_LEAST_SECONDS, _PAUSE * (self._end - self._begin))
        return time.monotonic() > self._end + pause
