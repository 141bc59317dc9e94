"""Readers of agents' output: one JSON object a line. It comes from a devbox, so its form is not relied on."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Event = Mapping[str, Any]

_LONGEST = 500
_DEEPEST = 8
"""Depth to which errors within errors are followed."""


def events(text: str) -> list[Event]:
    """Return the objects of a stream, in order; other lines are left out."""
    return list(_objects(text.splitlines()))


def last(found: Iterable[Event], *types: str) -> Event | None:
    """Return the last event of one of these types."""
    chosen = None
    for event in found:
        if event.get("type") in types:
            chosen = event
    return chosen


def dig(value: object, *path: str) -> object:
    """Return the value under these nested names; None if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def parts(value: object, *path: str) -> list[Event]:
    """Return the objects of the list under these names."""
    value_found = dig(value, *path)
    return (
        [part for part in value_found if isinstance(part, Mapping)] if isinstance(value_found, list) else []
    )


def error_line(value: object) -> str:
    """Return an error's message as one short line; for a JSON answer, the message inside."""
    text = ""
    for _ in range(_DEEPEST):
        if isinstance(value, str):
            text = " ".join(value.split())
            value = next(_objects([text]), None) if text.startswith("{") else None
        if not isinstance(value, Mapping):
            break
        value = value.get("message") or dig(value, "data", "message") or value.get("error")
    return text[:_LONGEST]


def text_of(content: object) -> str:
    """Return the text of a tool's result, which is a text or a list of parts with texts."""
    if isinstance(content, list):
        return "\n".join(text for part in content if isinstance(text := dig(part, "text"), str))
    return content if isinstance(content, str) else ""


def _objects(lines: Iterable[str]) -> Iterator[Event]:
    for line in lines:
        if not line.lstrip().startswith("{"):
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value
