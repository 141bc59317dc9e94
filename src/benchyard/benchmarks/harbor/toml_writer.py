"""TOML of plain data."""

from collections.abc import Mapping
from typing import Any

import tomli_w

from benchyard.errors import UsageError


def dump(data: Mapping[str, Any]) -> str:
    """Return a document, without the values that are None; raises UsageError for invalid Unicode."""
    written = tomli_w.dumps(_without_none(data))
    try:
        written.encode()
    except UnicodeEncodeError as error:
        near = written[max(0, error.start - 40) : error.end + 40]
        raise UsageError(f"a text that is not valid Unicode cannot be written as TOML: {near!r}") from error
    return written


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list | tuple) else value
