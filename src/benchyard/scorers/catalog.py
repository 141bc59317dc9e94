"""Scorers by type: parses the `scorer` part of a scoring function."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from benchyard import registry
from benchyard.errors import UsageError
from benchyard.hosts import dependencies
from benchyard.hosts.dependencies import Dependency
from benchyard.scorers.base import Scorer, ScoringContext

_ROOM = "scorers"
_ENDING = "_scorer"


def types() -> list[str]:
    """Return the types of scorers, as they are on the wire."""
    return list(_names())


def _names() -> dict[str, str]:
    return {name.replace("-", "_") + _ENDING: name for name in registry.names(_ROOM)}


def parse(type: str, fields: Mapping[str, Any], context: ScoringContext) -> Scorer[Any]:
    """Return the scorer of that type; raises UsageError with the invalid field or the known types."""
    names = _names()
    if type not in names:
        raise UsageError(f"no scorer has the type {type[:100]!r}; there are: {', '.join(names)}")
    found: Any = registry.load(_ROOM, names[type])
    try:
        config = found.Config.model_validate(dict(fields))
    except ValidationError as error:
        raise UsageError(f"{type}: {_describe_error(error)}") from error
    scorer: Scorer[Any] = found(config, context)
    return scorer


def missing_dependencies(types: Iterable[str]) -> dict[str, list[Dependency]]:
    """Map each type that cannot be used now to the dependencies that the server lacks for it."""
    names = _names()
    found = {}
    for type in types:
        if type in names and (
            missing := dependencies.missing(registry.load(_ROOM, names[type]).dependencies)
        ):
            found[type] = missing
    return found


def _describe_error(error: ValidationError) -> str:
    first, *others = error.errors(include_url=False, include_context=False, include_input=False)
    field = ".".join(map(str, first["loc"])) or "it"
    more = f" (and {len(others)} more)" if others else ""
    return f"{field}: {first['msg'].removeprefix('Value error, ')}{more}"
