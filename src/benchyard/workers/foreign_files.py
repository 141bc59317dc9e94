"""Archives and JSON files of foreign origin, unpacked and parsed by workers.

A few bytes of such a file can cost its reader hours, or all memory.
"""

import asyncio
import marshal
import struct
from typing import Any, BinaryIO

from benchyard.errors import UsageError
from benchyard.models.scoring.attachments import MOST_PACKED_BYTES, PackedFile, unpack_files
from benchyard.workers import json_texts
from benchyard.workers.workers import WorkerCall, WorkerLimits

_UNPACK = "benchyard.workers.foreign_files:unpack"
_ARCHIVE_LIMITS = WorkerLimits(
    seconds=60.0, memory_bytes=2 * 1024**3, output_bytes=MOST_PACKED_BYTES + 64 * 1024**2
)
_SIZE = struct.Struct("<Q")


def unpack(content: BinaryIO) -> bytes:
    """Return the files of an archive in one piece: the size of their list, the list, and their contents."""
    try:
        files = list(unpack_files(content.read()))
    except UsageError as error:
        return _with_header({"reason": error.message})
    names = [(name, file.mode, len(file.content)) for name, file in files]
    return _with_header({"files": names}) + b"".join(file.content for _, file in files)


def _with_header(told: dict[str, Any]) -> bytes:
    head = marshal.dumps(told)
    return _SIZE.pack(len(head)) + head


async def archive_files(archive: bytes, call: WorkerCall) -> dict[str, PackedFile]:
    """Return the files of an archive by their paths; raises UsageError if it is invalid or too large."""
    return await asyncio.to_thread(_read, await call(_UNPACK, archive, limits=_ARCHIVE_LIMITS))


def _read(made: bytes) -> dict[str, PackedFile]:
    (size,) = _SIZE.unpack_from(made)
    at = _SIZE.size + size
    # The data come from a worker, one of our own processes; no other party can write this form.
    sizes = marshal.loads(made[_SIZE.size : at])  # noqa: S302
    if "reason" in sizes:
        raise UsageError(sizes["reason"])
    values = {}
    for name, mode, length in sizes["files"]:
        values[name] = PackedFile(made[at : at + length], mode)
        at += length
    return values


MOST_JSON_BYTES = 3 * 1024**2
_PARSE = "benchyard.workers.json_texts:parse"
_JSON_LIMITS = WorkerLimits(output_bytes=64 * MOST_JSON_BYTES)


async def json_value(content: bytes, call: WorkerCall) -> object:
    """Return the value of a JSON text; raises UsageError if it is invalid or too large."""
    if len(content) > MOST_JSON_BYTES:
        raise UsageError(f"it has more than {MOST_JSON_BYTES} bytes of JSON")
    parsed = await asyncio.to_thread(
        json_texts.ParsedJson.of, await call(_PARSE, content, limits=_JSON_LIMITS)
    )
    if parsed.reason is not None:
        raise UsageError(f"it is not valid JSON: {parsed.reason}")
    value: object = parsed.value
    return value
