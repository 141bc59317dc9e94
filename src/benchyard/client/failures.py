"""From an error on the wire back to a class of our own error tree."""

import json
from collections.abc import Iterator
from typing import Any

from benchyard.errors import (
    BenchyardError,
    Conflict,
    Forbidden,
    NotFound,
    NotYet,
    StillWaiting,
    StoreError,
    TooLarge,
    TooMany,
    Unauthorized,
    UsageError,
)

LONGEST_MESSAGE = 2000
BY_STATUS = {
    kind.http_status: kind
    for kind in (
        UsageError,
        Unauthorized,
        Forbidden,
        NotFound,
        StillWaiting,
        Conflict,
        TooLarge,
        TooMany,
        NotYet,
        StoreError,
    )
}


def error_from(status: int, content: bytes) -> BenchyardError:
    """The error an answer stands for: by its code, else by its status."""
    body = _object(content)
    kind = _by_code().get(str(body.get("code"))) or _by_status(status)
    message = body.get("message")
    if not isinstance(message, str) or not message:
        message = f"the server answered {status}"
    error = kind(message[:LONGEST_MESSAGE])
    details = body.get("details")
    if isinstance(details, dict):
        error.details.update({str(name): value for name, value in details.items()})
    return error


def _object(content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _by_status(status: int) -> type[BenchyardError]:
    if status in BY_STATUS:
        return BY_STATUS[status]
    return UsageError if 400 <= status < 500 else BenchyardError


def _by_code() -> dict[str, type[BenchyardError]]:
    """Only classes that have a code of their own: others that were imported share their parent's."""
    return {kind.code: kind for kind in _tree(BenchyardError) if "code" in vars(kind)}


def _tree(kind: type[BenchyardError]) -> Iterator[type[BenchyardError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _tree(child)
