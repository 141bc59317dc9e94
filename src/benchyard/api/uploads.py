"""Multipart uploads with the parts `path` and `file`, received piece by piece."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from fastapi import Request
from python_multipart import multipart
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from benchyard.errors import UsageError

MAX_PATH_BYTES = 4096
MAX_PARTS = 16
_FILE, _PATH = b"file", b"path"


@dataclass(frozen=True)
class Upload:
    """A received upload: its target path, and its bytes in an unnamed file, positioned at the beginning."""

    path: str
    file: BinaryIO


@asynccontextmanager
async def receive_upload(request: Request, folder: Path) -> AsyncIterator[Upload]:
    """Receive an upload; raises UsageError for a malformed or truncated one, leaving no files behind."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise UsageError("send multipart/form-data with the parts path and file")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        parts = _Parts(file)
        try:
            parser = MultipartParser(boundary, parts.callbacks())
            async for piece in request.stream():
                await asyncio.to_thread(parser.write, piece)
        except MultipartParseError as error:
            raise UsageError(f"the multipart body cannot be read: {error}") from error
        except ClientDisconnect as error:
            raise UsageError("the upload was cut short; send it again") from error
        path = parts.complete()
        file.seek(0)
        yield Upload(path, file)


class _Parts:
    """Sorts the parsed parts into the path and the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._path = bytearray()
        self._seen: set[bytes] = set()
        self._name = b""
        self._header = [bytearray(), bytearray()]
        self._is_complete = False

    def callbacks(self) -> "multipart.MultipartCallbacks":
        """Return the callbacks of the parser, by name."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": partial(self._add_header, 0),
            "on_header_value": partial(self._add_header, 1),
            "on_header_end": self._end_header,
            "on_headers_finished": self._check_part,
            "on_part_data": self._data,
            "on_end": self._end,
        }

    def complete(self) -> str:
        """Return the path, once all parts have arrived; raises UsageError."""
        if not self._is_complete:
            raise UsageError("the upload was cut short; send it again")
        for part in (_PATH, _FILE):
            if part not in self._seen:
                raise UsageError(f"the part {part.decode()} is missing", field=part.decode())
        try:
            return self._path.decode()
        except UnicodeDecodeError as error:
            raise UsageError("path must be UTF-8", field="path") from error

    def _begin(self) -> None:
        self._name = b""

    def _add_header(self, half: int, data: bytes, start: int, end: int) -> None:
        # The parser bounds the size and the number of headers.
        self._header[half] += data[start:end]

    def _end_header(self) -> None:
        field, value = bytes(self._header[0]).lower(), bytes(self._header[1])
        self._header = [bytearray(), bytearray()]
        if field == b"content-disposition":
            _, options = parse_options_header(value)
            self._name = options.get(b"name", b"")

    def _check_part(self) -> None:
        if self._name in self._seen:
            raise UsageError(f"the part {self._name.decode(errors='replace')[:100]} came twice")
        self._seen.add(self._name)
        if len(self._seen) > MAX_PARTS:
            raise UsageError(f"the upload has more than {MAX_PARTS} parts; send path and file only")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name == _FILE:
            self._file.write(data[start:end])
        elif self._name == _PATH:
            self._path += data[start:end]
            if len(self._path) > MAX_PATH_BYTES:
                raise UsageError(f"path is over {MAX_PATH_BYTES} bytes", field="path")

    def _end(self) -> None:
        self._is_complete = True
