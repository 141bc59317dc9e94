"""Public agents as records: their versions, sources and installed folders."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from benchyard import registry
from benchyard.agents import catalog
from benchyard.agents.own_agent import kwargs_in
from benchyard.agents.packages import Package
from benchyard.agents.public_agent import PublicAgent, check_version
from benchyard.engine.clock import now_ms
from benchyard.errors import UsageError
from benchyard.models.agents import AgentChoice, AgentSource, AgentView, RegisteredAgent

PREFIX = "agt_public_"
NOTE = ".benchyard-agent.json"
"""File in the folder of an installed public agent that names it."""


def record(choice: AgentChoice) -> RegisteredAgent | None:
    """Return the record to install for an agent choice; None for one that is part of Benchyard itself."""
    found = registry.load("agents", choice.name)
    if not issubclass(found, PublicAgent):
        return None
    version = choice.version or found.default_version
    package = found.package(version)
    source = AgentSource.model_validate({"type": package.type, package.type: {"package_name": package.name}})
    return RegisteredAgent(
        id=f"{PREFIX}{choice.name}_{version.replace('+', '__').replace('.', '_')}",
        create_time_ms=now_ms(),
        name=choice.name,
        version=version,
        source=source,
        is_public=True,
    )


def package_of(record: RegisteredAgent) -> Package | None:
    """Return the package of a public agent; None for a user's own agent."""
    if not record.is_public or record.version is None:
        return None
    found: type[PublicAgent] = registry.load("agents", record.name)  # type: ignore[type-arg]
    return found.package(record.version)


def choose(name: str, version: str | None, kwargs: Mapping[str, str]) -> AgentChoice:
    """Return the choice of a public agent and version; raises UsageError for unknown versions or kwargs."""
    agent = catalog.make(name, kwargs)
    if version is not None and agent.default_version is None:
        raise UsageError(f"agent {name!r} comes with the server and has no versions to choose from")
    if version is not None:
        check_version(name, version)
    return AgentChoice(name=name, version=version or agent.default_version, kwargs=dict(kwargs))


def write_note(folder: Path, record: RegisteredAgent) -> None:
    """Write a note of its name and version into a public agent's folder; none for a user's own (blocks)."""
    place = folder / NOTE
    if place.is_symlink() or place.is_file():
        place.unlink()
    if package_of(record):
        place.write_text(json.dumps([record.name, record.version]))


def installed_versions(kits: Path) -> dict[str, list[str]]:
    """Return the installed versions of each public agent in the cache (blocks)."""
    found: dict[str, set[str]] = {}
    for path in kits.glob(f"*/{NOTE}"):
        # Folders with a suffix are still being made.
        if path.is_file() and not path.is_symlink() and not path.parent.suffix:
            name, version = json.loads(path.read_text())
            found.setdefault(name, set()).add(version)
    return {name: sorted(versions) for name, versions in found.items()}


def view(
    record: RegisteredAgent, versions: Mapping[str, list[str]], keyless: Collection[str] = ()
) -> AgentView:
    """Return an agent as the API shows it; for a public one also its needs and its installed versions."""
    if not record.is_public or record.name not in catalog.names():
        named = kwargs_in(record.run_command or "")
        return record.view().model_copy(update={"kwargs": dict.fromkeys(named, "") or None})
    agent = registry.load("agents", record.name)
    return record.view().model_copy(
        update={
            "version": agent.default_version,
            "installed_versions": versions.get(record.name, []) if agent.default_version else None,
            "kwargs": catalog.kwarg_descriptions(record.name) or None,
            "keys": {
                provider: [] if provider in keyless else list(names) for provider, names in agent.keys.items()
            }
            or None,
        }
    )
