"""JSON of a file that somebody else wrote, as a worker reads it."""

import asyncio

from benchyard.errors import UsageError
from benchyard.workers import json_bodies
from benchyard.workers.workers import Call, Limits

MOST_BYTES = 3 * 1024**2
_PARSE = "benchyard.workers.json_bodies:parse"
_LIMITS = Limits(output_bytes=64 * MOST_BYTES)


async def value_of(content: bytes, call: Call) -> object:
    """What a text in JSON says; raises UsageError for one that is none, or too large."""
    if len(content) > MOST_BYTES:
        raise UsageError(f"it has more than {MOST_BYTES} bytes of JSON")
    found = await asyncio.to_thread(json_bodies.Parsed.of, await call(_PARSE, content, limits=_LIMITS))
    if found.reason is not None:
        raise UsageError(f"it is no JSON: {found.reason}")
    value: object = found.value
    return value
