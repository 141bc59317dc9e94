"""Agents for the API and for jobs: register, find by name, install once, show in devboxes."""

import asyncio
import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from benchyard import registry
from benchyard.agents import catalog, placeholders
from benchyard.agents.base import Agent
from benchyard.agents.own_agent import FOLDER_NAME, InstalledAgent, OwnAgent, OwnAgentConfig, check_kwargs
from benchyard.agents.public_agent import PublicAgent
from benchyard.devboxes.base import Capability, HostFolder
from benchyard.engine.agents import public
from benchyard.engine.agents.installer import Installer
from benchyard.engine.background import retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.request_checks import MAX_TOKEN_CHARACTERS
from benchyard.engine.objects import Objects
from benchyard.errors import (
    BenchyardError,
    Conflict,
    Forbidden,
    InstallFailed,
    NotFound,
    NotSupported,
    UsageError,
    from_os,
)
from benchyard.hosts import dependencies
from benchyard.hosts.dependencies import Dependency
from benchyard.hosts.kits import Kit, KitFolders
from benchyard.models.agents import (
    AgentChoice,
    AgentDevboxCountsView,
    AgentInstallView,
    AgentRequest,
    AgentView,
    RegisteredAgent,
)
from benchyard.models.devboxes import Devbox, MountedAgent
from benchyard.models.launch import AgentMount
from benchyard.models.pages import Page, Query
from benchyard.registry import nearest
from benchyard.store.collection import Collection

AGENT_PREFIX = "agt_"
LATEST = "latest"
"""The version that stands for the newest one."""
OWN = {"status": "own"}
PUBLIC = {"status": "public"}

_MOST_LISTED = 20


class AgentRecords:
    """Records of all agents: public ones come with Benchyard, the others were registered by users."""

    def __init__(self, records: Collection[RegisteredAgent], objects: Objects) -> None:
        self.records = records
        self._objects = objects
        self._making = asyncio.Lock()

    async def publish(self) -> None:
        """List the agents that come with this release, and no others that an earlier one had."""
        wanted = {f"{public.PREFIX}{name}": name for name in catalog.names()}
        known = await self.records.ids(PUBLIC)
        for id in known - set(wanted):
            await self.records.delete(id)
        for id in sorted(set(wanted) - known):
            record = RegisteredAgent(id=id, create_time_ms=now_ms(), name=wanted[id], is_public=True)
            await self.records.insert_once(record)

    async def create(self, caller: Caller, request: AgentRequest) -> RegisteredAgent:
        """Register an agent, or return an identical one. Raises Conflict if only the name is equal."""
        await self._check(request)
        record = RegisteredAgent(
            id=caller.id,
            create_time_ms=now_ms(),
            request_hash=caller.request_hash,
            name=request.name,
            version=request.version,
            source=request.source,
            run_command=request.run_command,
            metadata=request.metadata or {},
        )
        async with self._making:
            existing = await self._versions(record.name, record.version) if record.version else []
            if not existing or await self.records.find(caller.id):
                kept, _ = await self.records.insert_once(record)
                return kept
        if _content(existing[0]) != _content(record):
            raise Conflict(
                f"agent {record.name}@{record.version} is there already and never changes; register another "
                f"version, or delete {existing[0].id} first",
                existing=True,
            )
        return existing[0]

    async def _check(self, request: AgentRequest) -> None:
        if request.name in catalog.names():
            raise UsageError(f"{request.name!r} comes with the server; choose another name", field="name")
        if request.version == LATEST:
            raise UsageError(
                f"{LATEST!r} means the newest version, and cannot be a version itself", field="version"
            )
        if "@" in request.name[1:]:
            raise UsageError("a name has no `@` in it; give `version` separately", field="name")
        if request.source and request.source.object:
            await self._objects.content(request.source.object.object_id)
        if not request.source and f"{{{FOLDER_NAME}}}" in (request.run_command or ""):
            raise UsageError(f"{{{FOLDER_NAME}}} needs a source to be installed", field="source")

    async def get(self, id: str) -> RegisteredAgent:
        """Return the agent with this id; raises NotFound."""
        return await self.records.get(id)

    async def delete(self, id: str) -> None:
        """Delete an agent; devboxes that show it go on. Raises Forbidden for public agents."""
        if (await self.records.get(id)).is_public:
            raise Forbidden(f"agent {id} comes with the server and cannot be deleted")
        await self.records.delete(id)

    async def page(self, query: Query, version: str | None) -> Page[RegisteredAgent]:
        """Return a page, newest first; of one version, or with `latest` only the newest match."""
        if version == LATEST:
            found = await self.records.page(replace(query, limit=1, starting_after=None))
            return Page(found.items, has_more=False, total_count=len(found.items))
        where = {**query.where, **({"parent": version} if version else {})}
        return await self.records.page(replace(query, where=where))

    async def named(self, name: str | None, id: str | None) -> RegisteredAgent:
        """Return the agent with this id, else the newest with this name; raises UsageError with advice."""
        if id:
            try:
                return await self.records.get(id)
            except NotFound as error:
                raise UsageError(f"no agent has the id {id[:200]!r}; see `benchyard agent list`") from error
        if not name:
            raise UsageError("name an agent: agent_id or agent_name")
        found = await self._versions(name, None)
        return found[0] if found else await self._unknown(name)

    async def resolve(
        self, name: str, agent_id: str | None, version: str | None, kwargs: Mapping[str, str]
    ) -> AgentChoice:
        """Return a job's choice of agent; raises UsageError with the known agents, versions or kwargs."""
        if agent_id is None and name in catalog.names():
            return _public_choice(name, version, kwargs)
        found = await (self.named(name, agent_id) if agent_id else self.version_of(name, version))
        if found.is_public and found.name == name:
            return _public_choice(name, version, kwargs)
        if found.name != name or (version not in (None, LATEST) and found.version != version):
            known = f"{found.name}@{found.version}" if found.version else found.name
            raise UsageError(f"agent {found.id} is {known}; give its own name and version, or no agent_id")
        if found.run_command is None:
            raise UsageError(
                f"agent {found.name!r} was registered without a command to run it; register it again with "
                "`benchyard agent register ... --run 'CMD {prompt_file}'`"
            )
        check_kwargs(found.name, found.run_command, kwargs)
        return AgentChoice(name=found.name, version=found.version, agent_id=found.id, kwargs=dict(kwargs))

    async def version_of(self, name: str, version: str | None) -> RegisteredAgent:
        """Return a version of an agent, by default the newest; raises UsageError with the known versions."""
        found = await self._versions(name, None)
        if not found:
            return await self._unknown(name)
        if version in (None, LATEST):
            return found[0]
        for each in found:
            if each.version == version:
                return each
        versions = [each.version for each in found if each.version]
        listed = ", ".join(versions[:_MOST_LISTED]) or "none"
        raise UsageError(
            f"agent {name!r} has no version {str(version)[:100]!r}{nearest(str(version), versions)}; "
            f"there are: {listed}"
        )

    async def _versions(self, name: str, version: str | None) -> list[RegisteredAgent]:
        """Return the agents with this name, newest first."""
        return await self.records.all({"name": name, **({"parent": version} if version else {})})

    async def _unknown(self, name: str) -> RegisteredAgent:
        own = [record.name for record in await self.records.all(OWN)]
        known = list(dict.fromkeys([*catalog.names(), *own]))
        more = f" and {len(known) - _MOST_LISTED} more" if len(known) > _MOST_LISTED else ""
        raise UsageError(
            f"no agent is called {name[:100]!r}{nearest(name, known)}; there are: "
            f"{', '.join(known[:_MOST_LISTED])}{more}. Register your own with `benchyard agent register`"
        )


def _public_choice(name: str, version: str | None, kwargs: Mapping[str, str]) -> AgentChoice:
    return public.choose(name, None if version == LATEST else version, kwargs)


def _content(record: RegisteredAgent) -> tuple[object, ...]:
    return record.source, record.run_command, record.metadata


class Agents:
    """All agents of this server, public and registered."""

    def __init__(self, tools: EngineContext, records: Collection[RegisteredAgent], kits: KitFolders) -> None:
        self.known = AgentRecords(records, tools.objects)
        self._tools = tools
        self._kits = kits
        self._installer = Installer(tools, kits)
        self._under_way: dict[str, asyncio.Future[InstalledAgent]] = {}

    async def open(self) -> None:
        """Remove half-made folders of an earlier server, and list the public agents."""
        await self._kits.sweep()
        await self.known.publish()

    async def resolve(
        self, name: str, agent_id: str | None, version: str | None, kwargs: Mapping[str, str]
    ) -> AgentChoice:
        """Return a job's choice of agent; raises UsageError with the known agents, versions or kwargs."""
        return await self.known.resolve(name, agent_id, version, kwargs)

    async def check(self, choice: AgentChoice, model: str | None) -> Agent[Any] | None:
        """Return a public agent, else None; raises UsageError if it cannot run with this model.

        No agent is installed for this check. The model of an agent that calls the gateway is not checked: its
        provider depends on the server's upstreams.
        """
        if choice.agent_id is None:
            agent = catalog.make(choice.name, choice.kwargs)
            if isinstance(agent, PublicAgent):
                self._require_installable(public.record(choice))
            else:
                agent.check(model)
            return agent
        record = await self.known.get(choice.agent_id)
        if record.run_command is None:
            raise UsageError(f"agent {record.name!r} was registered without a command to run it")
        placeholders.check(record.run_command, model, (FOLDER_NAME, *(choice.kwargs or {})))
        self._require_installable(record)
        return None

    async def views(self, records: Sequence[RegisteredAgent]) -> list[AgentView]:
        """Return agents as the API shows them."""
        versions = await asyncio.to_thread(public.installed_versions, self._tools.settings.data / "kits")
        keyless = self._tools.settings.keyless_upstreams
        return [
            public.view(record, versions, keyless).model_copy(
                update={"server_lacks": [program.name for program in self._missing(record)] or None}
            )
            for record in records
        ]

    async def ready(self, choice: AgentChoice) -> tuple[Agent[Any], tuple[HostFolder, ...]]:
        """Return the agent, installed, and the folders its devbox must show; raises if that is impossible."""
        if choice.agent_id is None:
            agent = catalog.make(choice.name, choice.kwargs)
            if isinstance(agent, PublicAgent) and (made := public.record(choice)):
                agent.installed = await self.installed(made)
            return agent, self._shown_kits(await agent.kits(self._kits))
        record = await self.known.get(choice.agent_id)
        if record.run_command is None:
            raise UsageError(f"agent {record.name!r} was registered without a command to run it")
        installed = await self.installed(record)
        config = OwnAgentConfig(name=record.name, run_command=record.run_command, kwargs=choice.kwargs)
        return OwnAgent(config, installed), self._shown_kits(installed.kits)

    async def missing(self, choice: AgentChoice) -> RegisteredAgent | None:
        """Return the agent that must be installed before this choice can be used; None if it is there."""
        if choice.agent_id is None:
            found = registry.load("agents", choice.name)
            record = public.record(choice) if issubclass(found, PublicAgent) else None
        else:
            record = await self.known.get(choice.agent_id)
        if record is None or record.source is None or await self._installer.is_installed(record):
            return None
        return record

    async def install(self, name: str, version: str | None) -> AgentInstallView:
        """Install an agent ahead of its first use, unless it is there; raises InstallFailed."""
        record: RegisteredAgent | None
        if name in catalog.names():
            choice = public.choose(name, None if version == LATEST else version, {})
            is_published = issubclass(registry.load("agents", name), PublicAgent)
            record, version = public.record(choice) if is_published else None, choice.version
        else:
            record = await self.known.version_of(name, version)
            version = record.version
        if record is None or record.source is None:
            return AgentInstallView(name=name, version=version, was_installed=True)
        self._require_mounts()
        was_installed = await self._installer.is_installed(record)
        begun = now_ms()
        await self.installed(record)
        return AgentInstallView(
            name=name,
            version=version,
            source=record.source.type,
            was_installed=was_installed,
            duration_ms=0 if was_installed else max(0, now_ms() - begun),
        )

    async def installed(self, record: RegisteredAgent, token: str | None = None) -> InstalledAgent:
        """Return where an agent lies, installing it if necessary, once for all callers at the same time."""
        if record.source is None:
            return InstalledAgent(())
        self._require_mounts()
        future = self._under_way.get(record.id)
        if future is None:
            future = self._under_way[record.id] = asyncio.get_running_loop().create_future()
            # Not cancelled with its caller: others may wait for it too.
            self._tools.work.start(f"agent/{record.id}", partial(self._install, record, token, future))
        return await asyncio.shield(future)

    async def _install(
        self, record: RegisteredAgent, token: str | None, future: "asyncio.Future[InstalledAgent]"
    ) -> None:
        try:
            future.set_result(await self._installer.install(record, token))
        except (BenchyardError, OSError) as error:
            future.set_exception(from_os(error))
            # The caller may be gone: then the error is dropped, and the next caller tries again.
            future.exception()
        except asyncio.CancelledError:
            future.cancel()
            raise
        finally:
            if not future.done():
                # A bug, reported in the log: waiting callers must not seem to have been cancelled.
                future.set_exception(InstallFailed("the server made a mistake; its log tells which"))
                future.exception()
            self._under_way.pop(record.id, None)

    def counts(self) -> AgentDevboxCountsView:
        """Return how many live devboxes show each agent."""
        found = Counter(
            name
            for devbox in self._tools.live_devboxes.live()
            for name in {agent.name for agent in devbox.agents}
        )
        return AgentDevboxCountsView(counts=dict(sorted(found.items())), total_count=found.total())

    async def mount_of(self, mount: AgentMount) -> MountedAgent:
        """Return an agent as a new devbox notes it; raises UsageError if it cannot be shown."""
        record = await self.known.named(mount.agent_name, mount.agent_id)
        if record.source is None:
            raise UsageError(f"agent {record.name!r} has no source, so there is nothing to mount")
        self._require_mounts()
        is_package = record.source.type in ("npm", "pip")
        if mount.agent_path is None and not is_package:
            raise UsageError("agents from git and objects need agent_path, where to show them")
        check_mount(mount)
        return MountedAgent(
            agent_id=record.id,
            name=record.name,
            is_package=is_package,
            path=mount.agent_path,
            auth_token=self._tools.vault.seal(mount.auth_token) if mount.auth_token else None,
        )

    async def provide(self, devbox: Devbox) -> Devbox:
        """Install the agents of a devbox, and return its record with their places."""
        if all(agent.shown for agent in devbox.agents):
            return devbox
        agents = [agent if agent.shown else await self._provide_one(agent) for agent in devbox.agents]
        return await retry_store(
            self._tools.live_devboxes.change,
            devbox.id,
            lambda record: record.model_copy(update={"agents": agents}),
        )

    async def _provide_one(self, agent: MountedAgent) -> MountedAgent:
        token = self._tools.vault.open(agent.auth_token) if agent.auth_token else None
        record = await retry_store(self.known.get, agent.agent_id)
        installed = await self.installed(record, token)
        shown = {kit.target: str(kit.source) for kit in installed.kits}
        if agent.path:
            shown[agent.path] = str(installed.kits[0].source)
        return agent.model_copy(update={"shown": shown, "auth_token": None})

    def _missing(self, record: RegisteredAgent) -> list[Dependency]:
        """Return the programs that this server lacks to install and run an agent."""
        if record.is_public and record.source is None and record.name in catalog.names():
            # The record as it is listed has no source; the record of a version has one.
            record = public.record(AgentChoice(name=record.name)) or record
        source = record.source.type if record.source else None
        if source == "pip":
            return dependencies.missing((dependencies.UV,))
        if source != "npm":
            return []
        # Where devboxes show this machine's own files, npm must be among them; other default images have it.
        npm = (dependencies.NPM,) if Capability.HOST_VIEW in self._tools.host.capabilities else ()
        return dependencies.missing((dependencies.NODE, *npm))

    def _require_installable(self, record: RegisteredAgent | None) -> None:
        if record and (missing := self._missing(record)):
            raise UsageError(f"agent {record.name!r} cannot be installed: {missing[0].complaint}")

    def _shown_kits(self, kits: tuple[Kit, ...]) -> tuple[HostFolder, ...]:
        if kits:
            self._require_mounts()
        return tuple(HostFolder(kit.source, kit.target) for kit in kits)

    def _require_mounts(self) -> None:
        if Capability.MOUNTS not in self._tools.host.capabilities:
            raise NotSupported(
                "agents are mounted in devboxes, which this driver cannot do; use the native driver"
            )


def check_mount(mount: AgentMount) -> None:
    """Refuse a path or a token that cannot be passed on."""
    path = mount.agent_path
    if path is not None and ("\0" in path or not path.startswith("/") or posixpath.normpath(path) != path):
        raise UsageError(f"agent_path must be a plain absolute path, not {path[:200]!r}", field="agent_path")
    token = mount.auth_token or ""
    if len(token) > MAX_TOKEN_CHARACTERS or "\0" in token:
        raise UsageError(
            f"a token has at most {MAX_TOKEN_CHARACTERS} characters, and no NUL", field="auth_token"
        )
