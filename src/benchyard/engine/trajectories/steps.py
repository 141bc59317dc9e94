"""Steps of stored trajectories: their index, steps by their numbers, and searches, all without secrets."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from weakref import WeakValueDictionary

from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.descriptors import read_pieces
from benchyard.engine.devboxes.secrets import scrubber_of
from benchyard.engine.ids import id_from_bytes
from benchyard.engine.objects import OBJECT_PREFIX
from benchyard.engine.trajectories.step_index import (
    HEAD_BYTES,
    WHOLE_BYTES,
    IndexHead,
    StepSpan,
    packed_table,
    spans_in,
    table_range,
)
from benchyard.errors import NotFound, UsageError, WorkerFailed
from benchyard.gateway.trajectory.documents import MOST_BYTES
from benchyard.models.objects import ObjectRequest, ObjectState
from benchyard.models.runs import RUN_KEY, ScenarioRun, Trace
from benchyard.workers.workers import WorkerLimits

MOST_AT_ONCE = 200
"""Most steps in one answer."""
MOST_ANSWER_BYTES = 4 * 1024**2
MOST_FOUND = 500
_MAKE = "benchyard.engine.trajectories.step_index:make_index"
_FIND = "benchyard.engine.trajectories.step_index:find_steps"
_MAKE_LIMITS = WorkerLimits(seconds=120, memory_bytes=4 * 1024**3, output_bytes=3 * MOST_BYTES)
_FIND_LIMITS = WorkerLimits(seconds=30, memory_bytes=2 * 1024**3, output_bytes=16 * 1024**2)
_KEPT_MS = 30 * 24 * 3600 * 1000
"""Time that an index is kept; afterwards the next reader has it made again."""
_PIECE_BYTES = 256 * 1024


@dataclass(frozen=True)
class _OpenIndex:
    """An index file, and the file in which the steps are."""

    trace: str
    head: IndexHead
    head_bytes: int
    index: int
    """Descriptor of the index file."""
    steps: int
    """Descriptor of the file with the steps: the index file or the stored trajectory."""

    async def packed(self) -> bytes:
        """Return the index as compressed JSON."""
        begin = self.head_bytes + self.head.table_bytes
        return await asyncio.to_thread(os.pread, self.index, self.head.index_bytes, begin)

    async def table(self, first: int, last: int) -> bytes:
        """Return the table of the spans of some steps."""
        begin, end = table_range(first, last)
        return await asyncio.to_thread(os.pread, self.index, end - begin, self.head_bytes + begin)

    def text(self, span: StepSpan) -> bytes:
        """Return a step, or its cut form if it has one; blocks."""
        if span.cut_length:
            return os.pread(self.index, span.cut_length, span.cut_offset)
        return os.pread(self.steps, span.length, span.offset)


class TrajectorySteps:
    """Steps of the trajectories of all runs; an index is made with its first use, and kept with the run."""

    def __init__(self, tools: EngineContext) -> None:
        self._tools = tools
        self._making: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def index(self, run: ScenarioRun, name: str | None) -> bytes:
        """Return the index of a trajectory as compressed JSON."""
        async with self._open_index(run, name) as opened:
            return await opened.packed()

    async def some(self, run: ScenarioRun, name: str | None, first: int, last: int) -> bytes:
        """Return steps by their numbers, as many as one answer holds, as JSON."""
        if last < first:
            raise UsageError(f"there are no steps from {first} to {last}; give the smaller number first")
        async with self._open_index(run, name) as opened:
            last = min(last, opened.head.count)
            table = await opened.table(first, last) if first <= last else b""
            return await asyncio.to_thread(_answer, opened, spans_in(table), first, last)

    async def whole(self, run: ScenarioRun, name: str | None, number: int) -> AsyncIterator[bytes]:
        """Return the bytes of one step, however large; raises NotFound."""
        pieces = self._pieces(run, name, number)
        # Begun here, so that an error is an answer and not the end of a stream.
        await anext(pieces)
        return pieces

    async def _pieces(self, run: ScenarioRun, name: str | None, number: int) -> AsyncIterator[bytes]:
        async with self._open_index(run, name) as opened:
            if not 1 <= number <= opened.head.count:
                raise NotFound(f"{opened.trace} has the steps 1 to {opened.head.count}, and no step {number}")
            (span,) = spans_in(await opened.table(number, number))
            yield b""
            for begin in range(span.offset, span.offset + span.length, _PIECE_BYTES):
                size = min(_PIECE_BYTES, span.offset + span.length - begin)
                yield await asyncio.to_thread(os.pread, opened.steps, size, begin)

    async def find(self, run: ScenarioRun, name: str | None, text: str, most: int) -> bytes:
        """Return the steps that contain a text, as JSON; a worker searches."""
        async with self._open_index(run, name) as opened:
            table = await opened.table(1, opened.head.count)
            given = {"table": await asyncio.to_thread(packed_table, table), "text": text, "most": most}
            try:
                found: bytes = await self._tools.workers.call(_FIND, opened.steps, given, _FIND_LIMITS)
            except WorkerFailed as error:
                raise UsageError(f"{opened.trace} could not be searched: {error.message}") from error
            return found

    @contextlib.asynccontextmanager
    async def _open_index(self, run: ScenarioRun, name: str | None) -> AsyncIterator[_OpenIndex]:
        trace = _trace(run, name)
        with contextlib.ExitStack() as files:
            index = await self._index_file(run, trace)
            files.callback(os.close, index)
            head, head_bytes = IndexHead.of(await asyncio.to_thread(os.pread, index, HEAD_BYTES, 0))
            if head.reason is not None:
                raise UsageError(head.reason, field="trace")
            steps = index
            if not head.is_inside:
                steps = await self._tools.objects.open_content(trace.object_id)
                files.callback(os.close, steps)
            yield _OpenIndex(trace.name, head, head_bytes, index, steps)

    async def _index_file(self, run: ScenarioRun, trace: Trace) -> int:
        """Return a descriptor of a trajectory's index file, which is made if there is none."""
        secrets = sorted((await scrubber_of(self._tools, run.devbox_id)).values)
        # Other secrets hide other parts of the same trajectory.
        source = json.dumps([trace.object_id, secrets])
        id = id_from_bytes(OBJECT_PREFIX, self._tools.vault.derive("trajectory-steps", source))
        async with self._making.setdefault(id, asyncio.Lock()):
            known = await self._tools.objects.records.find(id)
            if known is None or (await self._tools.objects.get(id)).state != ObjectState.READ_ONLY:
                await self._make(id, run.id, trace, secrets)
            return await self._tools.objects.open_content(id)

    async def _make(self, id: str, run_id: str, trace: Trace, secrets: list[str]) -> None:
        objects = self._tools.objects
        content = await objects.open_content(trace.object_id)
        given = {"name": trace.name, "secrets": secrets}
        try:
            made = await self._tools.workers.make_file(_MAKE, content, given, _MAKE_LIMITS)
        except WorkerFailed as error:
            message = f"{trace.name} cannot be read step by step: {error.message}; it can still be downloaded"
            raise UsageError(message, field="trace") from error
        finally:
            os.close(content)
        try:
            # Remove the rest of an earlier one that was interrupted or has expired.
            await objects.remove(id)
            name = f"{trace.name[:200]}.index"
            wanted = ObjectRequest(
                name=name, content_type="binary", metadata={RUN_KEY: run_id}, ttl_ms=_KEPT_MS
            )
            await objects.create(id, wanted, None)
            await objects.upload(id, read_pieces(made, name, os.fstat(made).st_size))
            await objects.complete(id)
        finally:
            os.close(made)


def _trace(run: ScenarioRun, name: str | None) -> Trace:
    """Return the trace of that name, or the first trajectory of a run; raises NotFound."""
    found = next(
        (trace for trace in run.traces if trace.name == name or (not name and trace.kind == "atif")), None
    )
    if found is not None:
        return found
    if name:
        raise NotFound(f"scenario run {run.id} has no trace {name[:200]!r}")
    raise NotFound(
        f"scenario run {run.id} has no trajectory; while its agent works, follow its steps as they come"
    )


def _answer(opened: _OpenIndex, spans: list[StepSpan], first: int, last: int) -> bytes:
    """Return steps as JSON, up to the size of one response, without parsing them; blocks."""
    steps: list[bytes] = []
    size = 0
    following = None
    for number, span in enumerate(spans, start=first):
        shown = span.cut_length or span.length
        if steps and (size + shown > MOST_ANSWER_BYTES or len(steps) == MOST_AT_ONCE):
            following = number
            break
        about: dict[str, object] = {"number": number, "size_bytes": span.length}
        if span.cut_length:
            about["is_cut"] = True
            about["note"] = (
                f"step {number} has {span.length} bytes, of which up to {WHOLE_BYTES} are shown; "
                "its texts are cut, and its own address has it whole"
            )
        steps.append(json.dumps(about)[:-1].encode() + b', "step": ' + opened.text(span) + b"}")
        size += shown
    head = {"trace": opened.trace, "count": opened.head.count, "next": following}
    return json.dumps(head)[:-1].encode() + b', "steps": [' + b",\n".join(steps) + b"]}"
