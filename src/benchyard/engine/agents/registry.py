"""Agents for jobs and devboxes: chosen by name, installed once, and ready to be shown."""

import asyncio
import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchyard import registry
from benchyard.agents import catalog, placeholders
from benchyard.agents.base import Agent
from benchyard.agents.own_agent import FOLDER_NAME, InstalledAgent, OwnAgent, OwnAgentConfig
from benchyard.agents.public_agent import PublicAgent
from benchyard.devboxes.base import Capability, Shown
from benchyard.engine.agents import public
from benchyard.engine.agents.installing import Installer
from benchyard.engine.agents.records import LATEST, AgentRecords
from benchyard.engine.journal import now_ms
from benchyard.engine.launch import MAX_TOKEN_CHARACTERS
from benchyard.engine.tools import Tools
from benchyard.engine.work import until_kept
from benchyard.errors import BenchyardError, InstallFailed, NotSupported, UsageError, from_os
from benchyard.hosts import dependencies
from benchyard.hosts.dependencies import Dependency
from benchyard.hosts.kits import Kit, KitFolders
from benchyard.models.agents import (
    AgentChoice,
    AgentDevboxCountsView,
    AgentInstallView,
    AgentView,
    RegisteredAgent,
)
from benchyard.models.devboxes import Devbox, MountedAgent
from benchyard.models.mounts import AgentMount
from benchyard.store.collection import Collection


class Agents:
    """All agents of this server, those that come with it and those that were registered."""

    def __init__(self, tools: Tools, records: Collection[RegisteredAgent], kits: KitFolders) -> None:
        self.known = AgentRecords(records, tools.objects)
        self._tools = tools
        self._kits = kits
        self._installer = Installer(tools, kits)
        self._under_way: dict[str, asyncio.Future[InstalledAgent]] = {}

    async def open(self) -> None:
        """Remove what a stop left half-made, and let the agents that come with us be listed."""
        await self._kits.sweep()
        await self.known.publish()

    async def resolve(
        self, name: str, agent_id: str | None, version: str | None, kwargs: Mapping[str, str]
    ) -> AgentChoice:
        """What a job shall run; raises UsageError with the agents, versions or kwargs there are."""
        return await self.known.resolve(name, agent_id, version, kwargs)

    async def check(self, choice: AgentChoice, model: str | None) -> Agent[Any] | None:
        """The agent, if it comes with us; raises UsageError where it cannot be run with this model.

        Nothing is installed for it. Of the models of one that asks through the gateway nothing is said: whose
        they are depends on the upstreams of the server.
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
        """Agents as the wire shows them."""
        versions = await asyncio.to_thread(public.installed, self._tools.settings.data / "kits")
        keyless = self._tools.settings.keyless_upstreams
        return [
            public.view(record, versions, keyless).model_copy(update={"server_lacks": self._lacks(record)})
            for record in records
        ]

    async def ready(self, choice: AgentChoice) -> tuple[Agent[Any], tuple[Shown, ...]]:
        """The agent, installed, and what its devbox must show; raises an error that says what went wrong."""
        if choice.agent_id is None:
            agent = catalog.make(choice.name, choice.kwargs)
            if isinstance(agent, PublicAgent) and (made := public.record(choice)):
                agent.installed = await self.installed(made)
            return agent, self._shown(await agent.kits(self._kits))
        record = await self.known.get(choice.agent_id)
        if record.run_command is None:
            raise UsageError(f"agent {record.name!r} was registered without a command to run it")
        installed = await self.installed(record)
        config = OwnAgentConfig(name=record.name, run_command=record.run_command, kwargs=choice.kwargs)
        return OwnAgent(config, installed), self._shown(installed.kits)

    async def missing(self, choice: AgentChoice) -> RegisteredAgent | None:
        """The agent that has to be installed before this choice can be used; None if it is there."""
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
            choice = public.chosen(name, None if version == LATEST else version, {})
            is_published = issubclass(registry.load("agents", name), PublicAgent)
            record, version = public.record(choice) if is_published else None, choice.version
        else:
            record = await self.known.versioned(name, version)
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
        """Where an agent lies, installed if it is not yet: once for all who ask at the same time."""
        if record.source is None:
            return InstalledAgent(())
        self._require_mounts()
        future = self._under_way.get(record.id)
        if future is None:
            future = self._under_way[record.id] = asyncio.get_running_loop().create_future()
            # Not cut short by a caller who goes away: others wait for it, or will.
            self._tools.work.start(f"agent/{record.id}", partial(self._install, record, token, future))
        return await asyncio.shield(future)

    async def _install(
        self, record: RegisteredAgent, token: str | None, future: "asyncio.Future[InstalledAgent]"
    ) -> None:
        try:
            future.set_result(await self._installer.install(record, token))
        except BenchyardError as error:
            future.set_exception(error)
            # Who asked may be gone: then nobody is told, and the next one tries again.
            future.exception()
        except OSError as error:
            future.set_exception(from_os(error))
            future.exception()
        except asyncio.CancelledError:
            future.cancel()
            raise
        finally:
            if not future.done():
                # A bug of ours, told in the log: whoever waits must not seem to have been cancelled.
                future.set_exception(InstallFailed("the server made a mistake; its log tells which"))
                future.exception()
            self._under_way.pop(record.id, None)

    def counts(self) -> AgentDevboxCountsView:
        """How many live devboxes show which agent."""
        found = Counter(
            name for devbox in self._tools.roster.live() for name in {each.name for each in devbox.agents}
        )
        return AgentDevboxCountsView(counts=dict(sorted(found.items())), total_count=found.total())

    async def mounted(self, mount: AgentMount) -> MountedAgent:
        """What a new devbox notes of an agent to show; raises UsageError for what cannot be."""
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

    async def provided(self, devbox: Devbox) -> Devbox:
        """The record of a devbox once its agents are installed and it says where they lie."""
        if all(agent.shown for agent in devbox.agents):
            return devbox
        agents = [agent if agent.shown else await self._provided(agent) for agent in devbox.agents]
        noted = partial(
            self._tools.roster.change, devbox.id, lambda record: record.model_copy(update={"agents": agents})
        )
        return await until_kept(noted)

    async def _provided(self, agent: MountedAgent) -> MountedAgent:
        token = self._tools.vault.open(agent.auth_token) if agent.auth_token else None
        record = await until_kept(partial(self.known.get, agent.agent_id))
        installed = await self.installed(record, token)
        shown = {kit.target: str(kit.source) for kit in installed.kits}
        if agent.path:
            shown[agent.path] = str(installed.kits[0].source)
        return agent.model_copy(update={"shown": shown, "auth_token": None})

    def _lacks(self, record: RegisteredAgent) -> list[str] | None:
        if record.is_public and record.source is None and record.name in catalog.names():
            # As it is listed; what it is made of is known of its versions only.
            record = public.record(AgentChoice(name=record.name)) or record
        return [each.name for each in self._missing(record)] or None

    def _missing(self, record: RegisteredAgent) -> list[Dependency]:
        """What this server lacks to install and run an agent."""
        needed: tuple[Dependency, ...] = ()
        if record.source and record.source.type == "pip":
            needed = (dependencies.UV,)
        elif record.source and record.source.type == "npm":
            capabilities, _ = self._tools.host.report()
            # Another default image than this machine's own files has its own npm.
            needed = (
                dependencies.NODE,
                *((dependencies.NPM,) if Capability.HOST_VIEW in capabilities else ()),
            )
        return dependencies.missing(needed)

    def _require_installable(self, record: RegisteredAgent | None) -> None:
        if record and (missing := self._missing(record)):
            raise UsageError(f"agent {record.name!r} cannot be installed: {missing[0].complaint}")

    def _shown(self, kits: tuple[Kit, ...]) -> tuple[Shown, ...]:
        if kits:
            self._require_mounts()
        return tuple(Shown(kit.source, kit.target) for kit in kits)

    def _require_mounts(self) -> None:
        capabilities, _ = self._tools.host.report()
        if Capability.MOUNTS not in capabilities:
            raise NotSupported(
                "agents are shown in devboxes, which this driver cannot; use the native driver"
            )


def check_mount(mount: AgentMount) -> None:
    """Refuse a place or a token that cannot be passed on."""
    path = mount.agent_path
    if path is not None and ("\0" in path or not path.startswith("/") or posixpath.normpath(path) != path):
        raise UsageError(f"agent_path must be a plain absolute path, not {path[:200]!r}", field="agent_path")
    token = mount.auth_token or ""
    if len(token) > MAX_TOKEN_CHARACTERS or "\0" in token:
        raise UsageError(f"a token may have {MAX_TOKEN_CHARACTERS} characters, no NUL", field="auth_token")
