"""The catalog of agents that come with the server or that plugins add: from a name and kwargs to an agent."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from benchyard import registry
from benchyard.agents.base import Agent
from benchyard.errors import UsageError
from benchyard.registry import nearest

_ROOM = "agents"


def names() -> list[str]:
    """Return the names of all agents that need no registration."""
    return registry.names(_ROOM)


def kwargs_of(name: str) -> frozenset[str] | None:
    """Return the kwargs that an agent takes; None if the catalog does not have it."""
    return frozenset(registry.load(_ROOM, name).Config.model_fields) if name in names() else None


def kwarg_descriptions(name: str) -> dict[str, str]:
    """Return the kwargs that an agent of the catalog takes -> the purpose of each."""
    fields = registry.load(_ROOM, name).Config.model_fields
    needed = {key: " Needed." if field.is_required() else "" for key, field in fields.items()}
    return {key: f"{field.description or ''}{needed[key]}".strip() for key, field in fields.items()}


def source_type(name: str) -> str | None:
    """Return the kind of source that an agent is installed from; None if it is a part of the server."""
    agent: Any = registry.load(_ROOM, name) if name in names() else None
    if agent is None or agent.default_version is None:
        return None
    return str(agent.package(agent.default_version).type)


def keys_of(name: str) -> Mapping[str, tuple[str, ...]]:
    """Return provider -> variables, any of which may hold a key for it; empty if the agent asks no model."""
    agent: Mapping[str, tuple[str, ...]] = registry.load(_ROOM, name).keys if name in names() else {}
    return agent


def make(name: str, kwargs: Mapping[str, str]) -> Agent[Any]:
    """Return the agent of this name; raises UsageError with the invalid kwarg, or the known names."""
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
        raise UsageError(f"agent {name!r}: {_describe_error(error)}", field="kwargs") from error
    agent: Agent[Any] = found(config)
    return agent


def _describe_error(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"])) or "it"
    if first["type"] == "missing":
        return f"the kwarg {field!r} is missing; give it, for instance with --agent-kwargs {field}=..."
    return f"{field}: {first['msg'].removeprefix('Value error, ')}"
