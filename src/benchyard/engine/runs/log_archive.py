"""Logs of runs as one flat zip: output of the devbox and of the scorers, and the traces."""

import asyncio
import json
import re
import tempfile
import zipfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.logs import Logs
from benchyard.engine.devboxes.secrets import scrubber_of
from benchyard.engine.redaction import Scrubber
from benchyard.engine.runs.scenario_runs import ScenarioRuns
from benchyard.errors import BenchyardError, NotFound
from benchyard.hosts.host import ExecutionState
from benchyard.models.executions import LogLine
from benchyard.models.runs import RunExecution, RunExecutionListView, ScenarioRun

MOST_STREAM_BYTES = 10 * 1024**2
"""Most bytes of one command's output; the end is kept."""
MOST_BYTES = 512 * 1024**2
"""Most bytes of one zip before compression; files left out are named in it."""
MOST_END_BYTES = 64 * 1024
"""Most bytes of the end of one command's output, if only its last lines are requested."""
_PIECE = 1024**2
_OF_AGENT = re.compile(r"agent(-\d+)?")
"""Ids of the executions of a trial's agent, one for each round."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class RunLogs:
    """Packs the logs of scenario runs."""

    def __init__(self, tools: EngineContext, runs: ScenarioRuns) -> None:
        self._tools = tools
        self._runs = runs
        self._logs = Logs(tools)

    @asynccontextmanager
    async def pack(self, runs: Sequence[ScenarioRun]) -> AsyncIterator["LogArchive"]:
        """Yield a zip of the logs of these runs; it is removed afterwards."""
        folder = self._tools.settings.data / "tmp"
        folder.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix="logs-", suffix=".zip") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                writer = _Writer(archive)
                for run in runs:
                    await self._pack(run, writer)
            yield LogArchive(Path(file.name))

    async def executions(
        self, run: ScenarioRun, *, lines: int, limit: int, of_agent: bool
    ) -> RunExecutionListView:
        """Return the last commands in a run's devbox with the end of their outputs, without secrets."""
        scenario = await self._runs.scenario(run)
        # In a `live` scenario the scorers' own commands are among them.
        scrubber = await scrubber_of(self._tools, run.devbox_id, (scenario.scoring_secrets or {}).values())
        try:
            found = await self._tools.host.executions(run.devbox_id)
        except NotFound:
            # Outputs of devboxes that ended long ago have been removed.
            found = []
        states = [each for each in found if not of_agent or _OF_AGENT.fullmatch(each.id)]
        shown = []
        for state in states[-limit:]:
            ends = {
                stream: await asyncio.to_thread(
                    _last_lines,
                    await self._output(state, stream, size, scrubber, MOST_END_BYTES),
                    lines,
                )
                for stream, size in (("stdout", state.stdout_bytes), ("stderr", state.stderr_bytes))
            }
            fields = {name: getattr(state, name) for name in ("status", "exit_status", "hint")}
            fields |= {"execution_id": state.id, "start_time_ms": state.start_ms, "end_time_ms": state.end_ms}
            sizes = {"stdout_bytes": state.stdout_bytes, "stderr_bytes": state.stderr_bytes}
            shown.append(RunExecution.model_validate(fields | ends | sizes))
        return RunExecutionListView(executions=shown, total_count=len(states))

    async def _pack(self, run: ScenarioRun, writer: "_Writer") -> None:
        scenario = await self._runs.scenario(run)
        scrubber = await scrubber_of(self._tools, run.devbox_id, (scenario.scoring_secrets or {}).values())
        await writer.add(run, "run.json", run.view(scenario).model_dump_json(indent=2).encode())
        for number in range(1, run.round + 1):
            # Include the rounds before the last one.
            found = run.result_of(number)
            prefix = f"round-{number}-" if number < run.round else ""
            for index, result in enumerate(found.scoring_function_results if found else []):
                name = f"{prefix}scorer-{index}-{result.scoring_function_name}.log"
                said = await asyncio.to_thread(scrubber.text, result.output)
                await writer.add(run, name, said.encode(errors="replace"))
        try:
            lines = await self._logs.lines(run.devbox_id, None, None)
            states = await self._tools.host.executions(run.devbox_id)
        except NotFound:
            # Outputs of devboxes that ended long ago have been removed.
            lines, states = [], []
        await writer.add(run, "devbox.log", await asyncio.to_thread(_texts, lines, scrubber))
        for state in states:
            for stream, size in (("stdout", state.stdout_bytes), ("stderr", state.stderr_bytes)):
                if size:
                    content = await self._output(state, stream, size, scrubber)
                    await writer.add(run, f"{state.id}.{stream}.log", content)
        for trace in run.traces:
            try:
                _, pieces = await self._tools.objects.content(trace.object_id)
                await writer.stream(run, f"trace-{trace.name}", scrubber.pieces(pieces))
            except BenchyardError as error:
                writer.left_out.append(f"trace-{trace.name}: {error.message}")
        await writer.finish(run)

    async def _output(
        self,
        state: ExecutionState,
        stream: str,
        size: int,
        scrubber: Scrubber,
        most: int = MOST_STREAM_BYTES,
    ) -> bytes:
        start = max(0, size - most)
        # From a little earlier, in case a secret begins there.
        first = max(0, start - scrubber.longest)
        pieces = self._tools.host.output(state.devbox_id, state.id, stream, first, follow=False)
        data = b"".join([piece async for piece in pieces])
        return (await asyncio.to_thread(scrubber.data, data, start - first))[:most]


class LogArchive:
    """A zip on disk, ready to be sent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.size = path.stat().st_size

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the zip in pieces that fit into memory."""
        with self._path.open("rb") as file:
            while piece := await asyncio.to_thread(file.read, _PIECE):
                yield piece


class _Writer:
    """Writes entries with flat names that begin with the run's id, up to a size."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._left = MOST_BYTES
        self.left_out: list[str] = []

    async def add(self, run: ScenarioRun, name: str, content: bytes) -> None:
        if len(content) > self._left:
            self.left_out.append(f"{name}: {len(content)} bytes, more than fit")
            return
        self._left -= len(content)
        await asyncio.to_thread(self._archive.writestr, _flat(run, name), content)

    async def stream(self, run: ScenarioRun, name: str, pieces: AsyncIterator[bytes]) -> None:
        with self._archive.open(_flat(run, name), "w", force_zip64=True) as entry:
            async for piece in pieces:
                self._left -= len(piece)
                if self._left < 0:
                    self.left_out.append(f"{name}: cut, more than fits")
                    return
                await asyncio.to_thread(entry.write, piece)

    async def finish(self, run: ScenarioRun) -> None:
        """Add a list of the files that were left out."""
        if self.left_out:
            text = "\n".join(self.left_out)
            await asyncio.to_thread(self._archive.writestr, _flat(run, "left-out.txt"), text)
            self.left_out = []


def _last_lines(data: bytes, count: int) -> str:
    lines = data.decode(errors="replace").splitlines(keepends=True)
    return "".join(lines[-count:]) if count else ""


def _flat(run: ScenarioRun, name: str) -> str:
    # The original's command line extracts entries under their names, without making folders.
    return f"{run.id}_{_UNSAFE.sub('-', name)[:150]}"


def _texts(lines: Sequence[LogLine], scrubber: Scrubber) -> bytes:
    return "".join(_text(line, scrubber) for line in lines).encode(errors="replace")


def _text(line: LogLine, scrubber: Scrubber) -> str:
    fields = line.model_dump(exclude_none=True, exclude={"timestamp_ms"})
    fields |= {name: scrubber.text(fields[name]) for name in ("message", "cmd") if name in fields}
    return json.dumps({"timestamp_ms": line.timestamp_ms, **fields}, ensure_ascii=False) + "\n"
