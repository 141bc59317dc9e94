"""Registered agents as the API sees them: made, found, listed, deleted; none ever changes."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from benchyard.agents import catalog
from benchyard.agents.own_agent import FOLDER_NAME, check_kwargs
from benchyard.engine.agents import public
from benchyard.engine.asked import Asked
from benchyard.engine.journal import now_ms
from benchyard.engine.objects import Objects
from benchyard.errors import Conflict, Forbidden, NotFound, UsageError
from benchyard.models.agents import AgentChoice, AgentRequest, RegisteredAgent
from benchyard.models.pages import Page, Query
from benchyard.registry import nearest
from benchyard.store.collection import Collection

AGENT_PREFIX = "agt_"
LATEST = "latest"
"""The version that means the newest one."""
OWN = {"status": "own"}
PUBLIC = {"status": "public"}

_MOST_LISTED = 20


class AgentRecords:
    """All agents that can be named: those that come with us are public, the others are somebody's own."""

    def __init__(self, records: Collection[RegisteredAgent], objects: Objects) -> None:
        self.records = records
        self._objects = objects
        self._making = asyncio.Lock()

    async def publish(self) -> None:
        """Let those that come with us be listed, and no others that once did."""
        wanted = {f"{public.PREFIX}{name}": name for name in catalog.names()}
        known = await self.records.ids(PUBLIC)
        for id in known - set(wanted):
            await self.records.delete(id)
        for id in sorted(set(wanted) - known):
            record = RegisteredAgent(id=id, create_time_ms=now_ms(), name=wanted[id], is_public=True)
            await self.records.insert_once(record)

    async def create(self, asked: Asked, request: AgentRequest) -> RegisteredAgent:
        """Keep a new one; the very same again is what there is. Raises Conflict where only the name is."""
        await self._check(request)
        record = RegisteredAgent(
            id=asked.id,
            create_time_ms=now_ms(),
            request_hash=asked.request_hash,
            name=request.name,
            version=request.version,
            source=request.source,
            run_command=request.run_command,
            metadata=request.metadata or {},
        )
        async with self._making:
            existing = await self._versions(record.name, record.version) if record.version else []
            if not existing or await self.records.find(asked.id):
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
            raise UsageError(f"{LATEST!r} is the newest of all versions, and no version", field="version")
        if "@" in request.name[1:]:
            raise UsageError("a name has no `@` in it; give `version` apart from it", field="name")
        if request.source and request.source.object:
            await self._objects.content(request.source.object.object_id)
        if not request.source and f"{{{FOLDER_NAME}}}" in (request.run_command or ""):
            raise UsageError(f"{{{FOLDER_NAME}}} needs a source to be installed", field="source")

    async def get(self, id: str) -> RegisteredAgent:
        """The agent of that id; raises NotFound."""
        return await self.records.get(id)

    async def delete(self, id: str) -> None:
        """Forget one; devboxes that show it go on. Raises Forbidden for those that come with us."""
        if (await self.records.get(id)).is_public:
            raise Forbidden(f"agent {id} comes with the server and stays")
        await self.records.delete(id)

    async def page(self, query: Query, version: str | None) -> Page[RegisteredAgent]:
        """One page, newest first; of a version, or with `latest` only the newest of what fits."""
        if version == LATEST:
            found = await self.records.page(replace(query, limit=1, starting_after=None))
            return Page(found.items, has_more=False, total_count=len(found.items))
        where = {**query.where, **({"parent": version} if version else {})}
        return await self.records.page(replace(query, where=where))

    async def named(self, name: str | None, id: str | None) -> RegisteredAgent:
        """The agent of that id, else the newest of that name; raises UsageError with what to do."""
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
        """What a job shall run; raises UsageError with the agents, versions or kwargs there are."""
        if agent_id is None and name in catalog.names():
            return _ours(name, version, kwargs)
        found = await (self.named(name, agent_id) if agent_id else self.versioned(name, version))
        if found.is_public and found.name == name:
            return _ours(name, version, kwargs)
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

    async def versioned(self, name: str, version: str | None) -> RegisteredAgent:
        """A version of an agent, the newest unless one is said; raises UsageError with those there are."""
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
        """Those of a name, newest first."""
        return await self.records.all({"name": name, **({"parent": version} if version else {})})

    async def _unknown(self, name: str) -> RegisteredAgent:
        own = [each.name for each in await self.records.all(OWN)]
        known = list(dict.fromkeys([*catalog.names(), *own]))
        more = f" and {len(known) - _MOST_LISTED} more" if len(known) > _MOST_LISTED else ""
        raise UsageError(
            f"no agent is called {name[:100]!r}{nearest(name, known)}; there are: "
            f"{', '.join(known[:_MOST_LISTED])}{more}. Register your own with `benchyard agent register`"
        )


def _ours(name: str, version: str | None, kwargs: Mapping[str, str]) -> AgentChoice:
    return public.chosen(name, None if version == LATEST else version, kwargs)


def _content(record: RegisteredAgent) -> tuple[object, ...]:
    return record.source, record.run_command, record.metadata
