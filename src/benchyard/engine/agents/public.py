"""Public agents as records: what a version of one is, where it comes from, and which are there."""

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
"""In the folder of an installed public agent: which one it is."""


def record(choice: AgentChoice) -> RegisteredAgent | None:
    """The agent that a job has chosen, as something to install; None for one that comes with us whole."""
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
    """What a public agent is made of; None for a user's own."""
    if not record.is_public or record.version is None:
        return None
    found: type[PublicAgent] = registry.load("agents", record.name)  # type: ignore[type-arg]
    return found.package(record.version)


def choose(name: str, version: str | None, kwargs: Mapping[str, str]) -> AgentChoice:
    """One of those that come with us, in a version; raises UsageError for what it does not have or take."""
    agent = catalog.make(name, kwargs)
    if version is not None and agent.default_version is None:
        raise UsageError(f"agent {name!r} comes with the server and has no versions to choose from")
    if version is not None:
        check_version(name, version)
    return AgentChoice(name=name, version=version or agent.default_version, kwargs=dict(kwargs))


def write_note(folder: Path, record: RegisteredAgent) -> None:
    """Write into an agent's folder which public one it is; a user's own has no such note (blocks)."""
    place = folder / NOTE
    if place.is_symlink() or place.is_file():
        place.unlink()
    if package_of(record):
        place.write_text(json.dumps([record.name, record.version]))


def installed_versions(kits: Path) -> dict[str, list[str]]:
    """Name -> the versions of public agents that lie in the cache (blocks)."""
    found: dict[str, set[str]] = {}
    for path in kits.glob(f"*/{NOTE}"):
        # Those that are still being made have an ending.
        if path.is_file() and not path.is_symlink() and not path.parent.suffix:
            name, version = json.loads(path.read_text())
            found.setdefault(name, set()).add(version)
    return {name: sorted(versions) for name, versions in found.items()}


def view(
    record: RegisteredAgent, versions: Mapping[str, list[str]], keyless: Collection[str] = ()
) -> AgentView:
    """An agent as the wire shows it; of one that comes with us, also what it needs and what is there."""
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
