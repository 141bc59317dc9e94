"""The log of a build: lines in a file, with secrets masked, that can be read again from any line on."""

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
"""Of one answer."""
LAST_LINES = 5
_RESERVED_BYTES = 64 * 1024
"""Kept free for what the engine itself has to say at the end."""

_log = logging.getLogger(__name__)


class BuildLogs:
    """The logs of all builds, one file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self) -> None:
        """Make the folder."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def writer(self, blueprint_id: str, hidden: Iterable[str] = ()) -> "BuildLog":
        """What a build writes to; goes on where an earlier one ended, and shows none of the hidden values."""
        return BuildLog(self._file(blueprint_id), LogMask(hidden))

    def lines(self, blueprint_id: str) -> list[BuildLogLine]:
        """The newest lines, oldest first; blocks. The others can be followed."""
        file = self._file(blueprint_id)
        if not file.exists():
            return []
        texts = file.read_bytes().split(b"\n")[-MAX_LINES:]
        return [line for text in texts if (line := _line(text))]

    async def follow(
        self, blueprint_id: str, offset: int, ended: asyncio.Event
    ) -> AsyncIterator[BuildLogUpdate]:
        """Lines from a byte offset on, until the build has ended and all of them were read."""
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
    """Takes values that nobody may read out of a text; of a value of several lines, each line."""

    def __init__(self, hidden: Iterable[str]) -> None:
        parts = {part for value in hidden for part in (value, *value.splitlines()) if part.strip()}
        ordered = sorted(parts, key=len, reverse=True)
        self.longest = max((len(part.encode()) for part in ordered), default=0)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def hide(self, text: str) -> str:
        """The text without them."""
        return self._pattern.sub(HIDDEN, text) if self._pattern else text


class BuildLog:
    """One build's log being written. Use as a context manager; `line` and `note` are called from the loop."""

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
                # A server that was killed left half a line.
                self._write(b"\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def line(self, text: str, *, is_cut: bool = False) -> None:
        """Add a line of output; once the log is full it is thrown away."""
        shown = self.mask.hide(text)
        if is_cut:
            # Its end may be the first half of something hidden.
            shown = shown[: max(0, len(shown) - self.mask.longest)]
        shown = shown[:MAX_LINE]
        self.last.append(shown)
        room = MAX_BYTES - _RESERVED_BYTES - self._size
        if room > 0:
            self._add("info", shown)
            if self._size >= MAX_BYTES - _RESERVED_BYTES:
                self._add("warning", f"the log is full ({MAX_BYTES} bytes); what follows is not kept")

    def note(self, text: str, level: str = "info") -> None:
        """Add what the engine itself has to say."""
        if self._size < MAX_BYTES:
            self._add(level, self.mask.hide(text)[:MAX_LINE])

    def _add(self, level: str, message: str) -> None:
        # Half of a surrogate pair, which JSON can carry and UTF-8 cannot, must not end the build.
        message = message.encode(errors="replace").decode()
        line = BuildLogLine(level=level, message=message, timestamp_ms=now_ms())
        self._write(line.model_dump_json().encode() + b"\n")

    def _write(self, data: bytes) -> None:
        try:
            self._size += self._file.write(data)
        except OSError as error:
            # What it tells of has happened: that its line is missing must not undo it.
            _log.warning("a line of the log %s is lost: %s", self._path.name, error)


class OutputLines:
    """Cuts a command's bytes into lines of a log; of an endless line only the beginning is kept."""

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
        """The output has ended."""
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
        # Half a line, where a server was killed or an offset fell into the middle of one.
        return None
