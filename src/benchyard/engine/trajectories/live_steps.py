"""Steps of agents that still work, as a stream, from the calls that the gateway records."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.secrets import scrubber_of
from benchyard.engine.network.gateway_access import Grants
from benchyard.engine.redaction import Scrubber
from benchyard.engine.runs.model_access import grant_id_of
from benchyard.errors import UsageError
from benchyard.gateway.trajectory.live_steps import LiveCursor
from benchyard.models.jobs import TRIAL_KEY
from benchyard.models.runs import RunState, ScenarioRun
from benchyard.models.trajectories.live_steps import LiveStep
from benchyard.store.collection import Collection
from benchyard.workers.workers import WorkerLimits

_LIVE = "benchyard.engine.trajectories.call_traces:make_live_steps"
_LIMITS = WorkerLimits(seconds=30, memory_bytes=2 * 1024**3, output_bytes=256 * 1024**2)
_PAUSE_SECONDS = 0.5
"""Time between two looks at whether anything was recorded."""
_SETTLED_MS = 300
"""Time within which calls that ended may be recorded in another order."""
_FOREVER_MS = 2**53


@dataclass(frozen=True)
class AgentAtWork:
    """An agent at work, and access to its steps."""

    grants: Grants
    grant_id: str
    """The grant under which the gateway records its calls."""
    scrubber: Callable[[], Awaitable[Scrubber]]
    reason_of_end: Callable[[], Awaitable[str | None]]
    """Returns why no more steps will come; None while the agent works, or has not begun."""


async def follow_steps(tools: EngineContext, agent: AgentAtWork, cursor: LiveCursor) -> AsyncIterator[bytes]:
    """Yield frames of server-sent events until the agent has ended.

    Looking costs two calls of `stat`; a worker reads the record only when it has changed.
    """
    seen: object = ()
    async with agent.grants.reader(agent.grant_id) as file:
        while True:
            # Before the record is read: every call recorded by then is sent before the end.
            ended = await agent.reason_of_end()
            changed = _version(file)
            has_more = False
            if changed != seen or ended:
                before = _FOREVER_MS if ended else now_ms() - _SETTLED_MS
                frames, cursor, has_more = await _frames(tools, agent, file, cursor, before)
                if frames:
                    yield frames
            if ended and not has_more:
                end = LiveStep(kind="end", cursor=str(cursor), message=ended)
                yield f"id: {cursor}\ndata: {end.model_dump_json(exclude_none=True)}\n\n".encode()
                return
            if not has_more:
                # The next look sends a call that ended just now.
                is_settled = changed is None or now_ms() - changed[0] // 1_000_000 > 2 * _SETTLED_MS
                seen = changed if is_settled else ()
                await asyncio.sleep(_PAUSE_SECONDS)


async def _frames(
    tools: EngineContext, agent: AgentAtWork, file: Path, cursor: LiveCursor, before_ms: int
) -> tuple[bytes, LiveCursor, bool]:
    """Return the next frames, the place after them, and whether there may be more at once."""
    secrets = (await agent.scrubber()).values
    given = {"file": str(file), "cursor": str(cursor), "before_ms": before_ms, "secrets": secrets}
    made: bytes = await tools.workers.call(_LIVE, b"", given, _LIMITS)
    line, _, frames = made.partition(b"\n")
    place, more = line.decode().split()
    return frames, LiveCursor.of(place), more == "1"


def _version(file: Path) -> tuple[int, int, int] | None:
    """Return a value that changes with a record: the time and the sizes of its files; None without any."""
    found = []
    for each in (file, file.with_name(f"{file.name}-wal")):
        # A record without a writer has no log.
        with contextlib.suppress(FileNotFoundError):
            found.append(each.stat())
    if not found:
        return None
    return max(each.st_mtime_ns for each in found), found[0].st_size, found[-1].st_size


class LiveRunSteps:
    """Steps of runs with code of the client's that calls models."""

    def __init__(self, tools: EngineContext, runs: Collection[ScenarioRun], grants: Grants) -> None:
        self._tools = tools
        self._runs = runs
        self._grants = grants

    async def follow(self, run_id: str, cursor: str | None) -> AsyncIterator[bytes]:
        """Return the frames of a run's steps; raises NotFound, or UsageError for a wrong cursor."""
        own = await self._runs.get(run_id)
        if trial_id := own.metadata.get(TRIAL_KEY):
            raise UsageError(f"run {run_id} belongs to trial {trial_id}; follow the steps of that")

        async def scrubber() -> Scrubber:
            run = await self._runs.get(run_id)
            routes = run.gateway.routes.values() if run.gateway else ()
            names = [route.secret for route in routes if route.secret]
            return await scrubber_of(self._tools, run.devbox_id, names)

        async def reason_of_end() -> str | None:
            run = await self._runs.get(run_id)
            return None if run.state is RunState.RUNNING else f"the run is {run.state.value}"

        agent = AgentAtWork(self._grants, grant_id_of(run_id), scrubber, reason_of_end)
        return follow_steps(self._tools, agent, LiveCursor.of(cursor))
