"""Rules of ATIF trajectories; uses the standard library alone, since workers load it too."""

import json
import marshal
from typing import BinaryIO

from benchyard.errors import UsageError
from benchyard.gateway.trajectory.documents import document_text
from benchyard.workers.json_texts import ValueCount

MOST_VALUES = 1_000_000
"""Most values of a trajectory: more would take the memory of many trajectories."""
_ATIF = "ATIF-"
_PIECE_BYTES = 1024**2


def check_atif(trajectory: object) -> None:
    """Refuse an invalid trajectory; raises UsageError naming the missing part."""
    if not isinstance(trajectory, dict):
        raise UsageError("a trajectory is a JSON object", field="trajectory")
    version = trajectory.get("schema_version")
    if not isinstance(version, str) or not version.startswith(_ATIF):
        raise UsageError("a trajectory has a schema_version such as ATIF-v1.4", field="trajectory")
    if not isinstance(trajectory.get("steps"), list):
        raise UsageError("a trajectory has a list of steps", field="trajectory")


def json_text(content: BinaryIO) -> bytes:
    """Return a trajectory, given in the interpreter's own format, as JSON text with one step per line."""
    value = marshal.load(content)  # noqa: S302  (written by the server itself)
    return document_text(value).encode()


def is_atif(content: BinaryIO) -> bool:
    """Tell whether a file is a trajectory; a file with too many values is not."""
    values = ValueCount()
    while piece := content.read(_PIECE_BYTES):
        if values.feed(piece) > MOST_VALUES:
            return False
    content.seek(0)
    try:
        check_atif(json.load(content))
    except (UsageError, ValueError, RecursionError, MemoryError):
        return False
    return True
