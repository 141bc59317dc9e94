"""Files that are uploaded with a run: anything at all, or a trajectory in ATIF."""

import json
from collections.abc import AsyncIterator

from benchyard.engine.devboxes import Asked
from benchyard.engine.runs.scenario_runs import ScenarioRuns
from benchyard.engine.tools import Tools
from benchyard.errors import Conflict, NotFound, UsageError
from benchyard.models.objects import ObjectRequest, ObjectState
from benchyard.models.runs import ScenarioRun, Trace, TraceRequest

MOST_TRACES = 100
RUN_KEY = "benchyard.scenario_run"
"""The metadata of a trace's object that tells which run it belongs to."""
_ATIF = "ATIF-"


class Traces:
    """The traces of all runs; each is an object of its own."""

    def __init__(self, tools: Tools, runs: ScenarioRuns) -> None:
        self._tools = tools
        self._runs = runs

    async def add(self, run_id: str, asked: Asked, request: TraceRequest) -> ScenarioRun:
        """Keep a trace with a run; `asked` names a trajectory's object. The same again changes nothing."""
        run = await self._runs.get(run_id)
        existing = next((each for each in run.traces if each.name == request.name), None)
        if existing is not None and existing.object_id != (request.object_id or asked.id):
            raise Conflict(f"scenario run {run_id} has a trace {request.name!r}; choose another name")
        trace = existing or await self._trace(run_id, asked, request)

        def apply(run: ScenarioRun) -> ScenarioRun:
            if any(each.name == trace.name for each in run.traces):
                return run
            if len(run.traces) >= MOST_TRACES:
                raise UsageError(f"a run keeps at most {MOST_TRACES} traces; pack them into one file")
            return run.model_copy(update={"traces": [*run.traces, trace]})

        return await self._runs.records.change(run_id, apply)

    async def content(self, run_id: str, name: str) -> AsyncIterator[bytes]:
        """The bytes of a trace; raises NotFound."""
        run = await self._runs.get(run_id)
        trace = next((each for each in run.traces if each.name == name), None)
        if trace is None:
            raise NotFound(f"scenario run {run_id} has no trace {name[:200]!r}")
        _, pieces = await self._tools.objects.content(trace.object_id)
        return pieces

    async def _trace(self, run_id: str, asked: Asked, request: TraceRequest) -> Trace:
        if (request.object_id is None) == (request.trajectory is None):
            raise UsageError("give either object_id or trajectory")
        object_id = request.object_id or await self._stored(run_id, asked, request)
        try:
            stored, _ = await self._tools.objects.content(object_id)
        except NotFound as error:
            raise UsageError(f"no object {object_id[:200]!r}", field="object_id") from error
        return Trace(
            name=request.name, kind=request.kind, object_id=object_id, size_bytes=stored.size_bytes or 0
        )

    async def _stored(self, run_id: str, asked: Asked, request: TraceRequest) -> str:
        check_atif(request.trajectory)
        data = json.dumps(request.trajectory).encode()

        async def pieces() -> AsyncIterator[bytes]:
            yield data

        objects = self._tools.objects
        wanted = ObjectRequest(name=request.name, content_type="text", metadata={RUN_KEY: run_id})
        stored = await objects.create(asked.id, wanted, asked.request_hash)
        if stored.state == ObjectState.UPLOADING:
            await objects.upload(stored.id, pieces())
            await objects.complete(stored.id)
        return stored.id


def check_atif(trajectory: object) -> None:
    """Refuse what is no trajectory; raises UsageError naming what is missing."""
    if not isinstance(trajectory, dict):
        raise UsageError("a trajectory is a JSON object", field="trajectory")
    version = trajectory.get("schema_version")
    if not isinstance(version, str) or not version.startswith(_ATIF):
        raise UsageError("a trajectory has a schema_version such as ATIF-v1.4", field="trajectory")
    if not isinstance(trajectory.get("steps"), list):
        raise UsageError("a trajectory has a list of steps", field="trajectory")
