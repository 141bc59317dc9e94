"""From a name and kwargs to one of the agents that come with us, or that others added."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from benchyard import registry
from benchyard.agents.base import Agent
from benchyard.errors import UsageError
from benchyard.registry import nearest

_ROOM = "agents"


def names() -> list[str]:
    """The agents there are without registering any."""
    return registry.names(_ROOM)


def kwargs_of(name: str) -> frozenset[str] | None:
    """The kwargs that an agent takes; None for one that is not among those there are."""
    return frozenset(registry.load(_ROOM, name).Config.model_fields) if name in names() else None


def kwarg_descriptions(name: str) -> dict[str, str]:
    """The kwargs that one of those there are takes -> what each is for."""
    fields = registry.load(_ROOM, name).Config.model_fields
    needed = {key: " Needed." if field.is_required() else "" for key, field in fields.items()}
    return {key: f"{field.description or ''}{needed[key]}".strip() for key, field in fields.items()}


def source_type(name: str) -> str | None:
    """Where one of those there are is installed from; None for one that comes with the server whole."""
    found: Any = registry.load(_ROOM, name) if name in names() else None
    if found is None or found.default_version is None:
        return None
    return str(found.package(found.default_version).type)


def keys_of(name: str) -> Mapping[str, tuple[str, ...]]:
    """Provider -> the variables any of which holds a key for it; none for one that asks no model."""
    found: Mapping[str, tuple[str, ...]] = registry.load(_ROOM, name).keys if name in names() else {}
    return found


def make(name: str, kwargs: Mapping[str, str]) -> Agent[Any]:
    """The agent of that name; raises UsageError with the kwarg that is wrong, or the names there are."""
    if name not in names():
        raise UsageError(
            f"no agent is called {name[:100]!r}{nearest(name, names())}; there are: {', '.join(names())}"
        )
    found: Any = registry.load(_ROOM, name)
    known = found.Config.model_fields
    for key in kwargs:
        if key not in known:
            listed = ", ".join(known) or "none"
            raise UsageError(
                f"agent {name!r} takes no kwarg {key[:100]!r}{nearest(key, known)}; those it takes: {listed}",
                field="kwargs",
            )
    try:
        config = found.Config.model_validate(dict(kwargs))
    except ValidationError as error:
        raise UsageError(f"agent {name!r}: {_told(error)}", field="kwargs") from error
    agent: Agent[Any] = found(config)
    return agent


def _told(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"])) or "it"
    if first["type"] == "missing":
        return f"the kwarg {field!r} is missing; give it, for instance with --agent-kwargs {field}=..."
    return f"{field}: {first['msg'].removeprefix('Value error, ')}"
