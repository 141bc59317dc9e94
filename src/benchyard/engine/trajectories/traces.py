"""Files that are uploaded with a run: of any kind, or a trajectory in ATIF."""

import asyncio
import marshal
import os
from collections.abc import AsyncIterator
from typing import Any

from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.secrets import scrubber_of
from benchyard.engine.ids import id_from_bytes
from benchyard.engine.objects import OBJECT_PREFIX
from benchyard.engine.trajectories.atif import check_atif
from benchyard.errors import Conflict, NotFound, UsageError, WorkerFailed
from benchyard.models.objects import ObjectRequest, ObjectState
from benchyard.models.runs import RUN_KEY, ScenarioRun, Trace, TraceKind, TraceRequest
from benchyard.store.collection import Collection
from benchyard.workers.workers import WorkerLimits

MOST_TRACES = 100
_IS_ATIF = "benchyard.engine.trajectories.atif:is_atif"
_WRITTEN = "benchyard.engine.trajectories.atif:json_text"
_LIMITS = WorkerLimits(seconds=60, memory_bytes=4 * 1024**3, output_bytes=1024**3)
_PIECE_BYTES = 256 * 1024


class Traces:
    """The traces of all runs, each stored as an object."""

    def __init__(self, tools: EngineContext, runs: Collection[ScenarioRun]) -> None:
        self._tools = tools
        self._runs = runs

    async def add(self, run_id: str, caller: Caller, request: TraceRequest) -> ScenarioRun:
        """Add a trace to a run; `caller` names a trajectory's object. A second call changes nothing."""
        run = await self._runs.get(run_id)
        existing = next((each for each in run.traces if each.name == request.name), None)
        if existing is not None and existing.object_id != (request.object_id or caller.id):
            raise Conflict(f"scenario run {run_id} has a trace {request.name!r}; choose another name")
        trace = existing or await self._trace(run, caller, request)

        def apply(run: ScenarioRun) -> ScenarioRun:
            if any(each.name == trace.name for each in run.traces):
                return run
            if len(run.traces) >= MOST_TRACES:
                raise UsageError(f"a run keeps at most {MOST_TRACES} traces; pack them into one file")
            return run.model_copy(update={"traces": [*run.traces, trace]})

        return await self._runs.change(run_id, apply)

    async def keep(
        self, run_id: str, name: str, pieces: AsyncIterator[bytes], kind: TraceKind | None
    ) -> None:
        """Store a trace made by the server with a run; a second call with the same name changes nothing.

        Without a kind it is a trajectory or a file, which a worker finds out.
        """
        object_id = self._own_id(run_id, name)
        objects = self._tools.objects
        wanted = ObjectRequest(name=name, content_type="binary", metadata={RUN_KEY: run_id})
        stored = await objects.create(object_id, wanted, None)
        if stored.state == ObjectState.UPLOADING:
            await objects.upload(stored.id, pieces)
            await objects.complete(stored.id)
        kind = kind or ("atif" if await self._is_atif(object_id) else "file")
        await self.add(run_id, Caller(object_id), TraceRequest(name=name, kind=kind, object_id=object_id))

    def is_free(self, run: ScenarioRun, name: str) -> bool:
        """Tell whether the server's own trace with this name exists, or can be stored."""
        return all(
            trace.object_id == self._own_id(run.id, name) for trace in run.traces if trace.name == name
        )

    async def content(self, run_id: str, name: str) -> AsyncIterator[bytes]:
        """Return the bytes of a trace, without the secrets of the run; raises NotFound."""
        run = await self._runs.get(run_id)
        trace = next((each for each in run.traces if each.name == name), None)
        if trace is None:
            raise NotFound(f"scenario run {run_id} has no trace {name[:200]!r}")
        _, pieces = await self._tools.objects.content(trace.object_id)
        return (await scrubber_of(self._tools, run.devbox_id)).pieces(pieces)

    def _own_id(self, run_id: str, name: str) -> str:
        return id_from_bytes(OBJECT_PREFIX, self._tools.vault.derive("trial-logs", f"{run_id}/{name}"))

    async def _is_atif(self, object_id: str) -> bool:
        descriptor = await self._tools.objects.open_content(object_id)
        try:
            found: bool = await self._tools.workers.call(_IS_ATIF, descriptor)
        except WorkerFailed:
            # A file that takes more than a trajectory may is not one.
            return False
        finally:
            os.close(descriptor)
        return found

    async def _trace(self, run: ScenarioRun, caller: Caller, request: TraceRequest) -> Trace:
        if (request.object_id is None) == (request.trajectory is None):
            raise UsageError("give either object_id or trajectory")
        object_id = request.object_id or await self._store(run, caller, request)
        try:
            stored, _ = await self._tools.objects.content(object_id)
        except NotFound as error:
            raise UsageError(f"no object {object_id[:200]!r}", field="object_id") from error
        return Trace(
            name=request.name, kind=request.kind, object_id=object_id, size_bytes=stored.size_bytes or 0
        )

    async def _store(self, run: ScenarioRun, caller: Caller, request: TraceRequest) -> str:
        check_atif(request.trajectory)
        scrubber = await scrubber_of(self._tools, run.devbox_id)
        objects = self._tools.objects
        wanted = ObjectRequest(name=request.name, content_type="text", metadata={RUN_KEY: run.id})
        stored = await objects.create(caller.id, wanted, caller.request_hash)
        if stored.state == ObjectState.UPLOADING:
            await objects.upload(stored.id, scrubber.pieces(self._written(request.trajectory)))
            await objects.complete(stored.id)
        return stored.id

    async def _written(self, trajectory: dict[str, Any] | None) -> AsyncIterator[bytes]:
        """Yield a trajectory as text, which a worker writes, in pieces."""
        try:
            content = await asyncio.to_thread(marshal.dumps, trajectory)
            descriptor = await self._tools.workers.make_file(_WRITTEN, content, limits=_LIMITS)
        except (ValueError, WorkerFailed) as error:
            raise UsageError(
                f"the trajectory cannot be kept: {error}; upload it as an object", field="trajectory"
            ) from error
        with os.fdopen(descriptor, "rb") as file:
            while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
                yield piece
