"""Log of a build: lines in a file, with secrets masked, readable from any line on."""

import asyncio
import logging
import os
import re
from collections import deque
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from benchyard.engine.clock import now_ms
from benchyard.hosts import output
from benchyard.models.blueprints import HIDDEN, BuildLogLine, BuildLogUpdate

MAX_BYTES = 16 * 1024**2
MAX_LINE = 8192
MAX_LINES = 20_000
"""Most lines in one answer."""
LAST_LINES = 5
_RESERVED_BYTES = 64 * 1024
"""Bytes kept free for the engine's own lines at the end."""

_log = logging.getLogger(__name__)


class BuildLogs:
    """The logs of all builds, one file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self) -> None:
        """Make the folder."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def writer(self, blueprint_id: str, hidden: Iterable[str] = ()) -> "BuildLog":
        """Return a log to write to; it continues an earlier one, and masks the hidden values."""
        return BuildLog(self._file(blueprint_id), LogMask(hidden))

    def lines(self, blueprint_id: str) -> list[BuildLogLine]:
        """Return the newest lines, oldest first; blocks. Earlier lines can be followed."""
        file = self._file(blueprint_id)
        if not file.exists():
            return []
        texts = file.read_bytes().split(b"\n")[-MAX_LINES:]
        return [line for text in texts if (line := _line(text))]

    async def follow(
        self, blueprint_id: str, offset: int, ended: asyncio.Event
    ) -> AsyncIterator[BuildLogUpdate]:
        """Yield lines from a byte offset on, until the build has ended and all of them were read."""
        left = b""
        async for data in output.follow(self._file(blueprint_id), offset, ended):
            *whole, left = (left + data).split(b"\n")
            for text in whole:
                offset += len(text) + 1
                if line := _line(text):
                    yield BuildLogUpdate(offset=offset, **line.model_dump())

    def forget(self, blueprint_id: str) -> None:
        """Remove the log of a build."""
        self._file(blueprint_id).unlink(missing_ok=True)

    def _file(self, blueprint_id: str) -> Path:
        return self._folder / f"{blueprint_id}.jsonl"


class LogMask:
    """Removes secret values from texts; of a value with several lines, each line."""

    def __init__(self, hidden: Iterable[str]) -> None:
        parts = {part for value in hidden for part in (value, *value.splitlines()) if part.strip()}
        ordered = sorted(parts, key=len, reverse=True)
        self.longest = max((len(part.encode()) for part in ordered), default=0)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def hide(self, text: str) -> str:
        """Return the text with the values masked."""
        return self._pattern.sub(HIDDEN, text) if self._pattern else text


class BuildLog:
    """Log of a build for writing. Use as a context manager; `line` and `note` run in the event loop."""

    def __init__(self, file: Path, mask: LogMask) -> None:
        self.mask = mask
        self.last: deque[str] = deque(maxlen=LAST_LINES)
        """The newest lines of output."""
        self._path = file
        self._size = 0

    def __enter__(self) -> Self:
        self._file = self._path.open("ab+", buffering=0)
        self._size = self._file.seek(0, os.SEEK_END)
        if self._size:
            self._file.seek(-1, os.SEEK_END)
            if self._file.read(1) != b"\n":
                # A killed server left half a line.
                self._write(b"\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def line(self, text: str, *, is_cut: bool = False) -> None:
        """Add a line of output; a full log drops it."""
        shown = self.mask.hide(text)
        if is_cut:
            # The end of the text may be the first part of a hidden value.
            shown = shown[: max(0, len(shown) - self.mask.longest)]
        shown = shown[:MAX_LINE]
        self.last.append(shown)
        room = MAX_BYTES - _RESERVED_BYTES - self._size
        if room > 0:
            self._add("info", shown)
            if self._size >= MAX_BYTES - _RESERVED_BYTES:
                self._add("warning", f"the log is full ({MAX_BYTES} bytes); what follows is not kept")

    def note(self, text: str, level: str = "info") -> None:
        """Add a line of the engine's own."""
        if self._size < MAX_BYTES:
            self._add(level, self.mask.hide(text)[:MAX_LINE])

    def _add(self, level: str, message: str) -> None:
        # JSON can carry half a surrogate pair, UTF-8 cannot; that must not end the build.
        message = message.encode(errors="replace").decode()
        line = BuildLogLine(level=level, message=message, timestamp_ms=now_ms())
        self._write(line.model_dump_json().encode() + b"\n")

    def _write(self, data: bytes) -> None:
        try:
            self._size += self._file.write(data)
        except OSError as error:
            # Losing a log line must not fail the action it describes.
            _log.warning("a line of the log %s is lost: %s", self._path.name, error)


class OutputLines:
    """Splits a command's output into log lines; of an endless line only the beginning is kept."""

    def __init__(self, log: BuildLog) -> None:
        self._log = log
        self._most = MAX_LINE * 4 + log.mask.longest
        self._left = b""
        self._is_skipping = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        *whole, left = data.split(b"\n")
        for text in whole:
            self._add(text)
            if not self._is_skipping:
                self._emit()
            self._is_skipping = False
        self._add(left)

    def finish(self) -> None:
        """Add the rest after the end of the output."""
        if self._left:
            self._emit()

    def _add(self, data: bytes) -> None:
        if self._is_skipping:
            return
        self._left += data[: self._most + 1 - len(self._left)]
        if len(self._left) > self._most:
            self._emit(is_cut=True)
            self._is_skipping = True

    def _emit(self, *, is_cut: bool = False) -> None:
        text = self._left.decode(errors="replace").rstrip("\r").rpartition("\r")[2]
        self._left = b""
        self._log.line(text, is_cut=is_cut)


def _line(text: bytes) -> BuildLogLine | None:
    try:
        return BuildLogLine.model_validate_json(text)
    except ValidationError:
        # Half a line: a server was killed, or an offset points into a line.
        return None
