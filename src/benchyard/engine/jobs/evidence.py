"""Evidence of trials for their problems: the stored facts of each, and the findings made of them.

Findings of a job are a file of lines. They can be made again: a lost or broken file only costs time.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchyard.engine.reported_jobs import ReportedJobs
from benchyard.engine.runs.model_access import CALLS_NAME
from benchyard.engine.trajectories.traces import Traces
from benchyard.errors import BenchyardError
from benchyard.models.runs import ScenarioRun, Trace
from benchyard.models.trials import Trial
from benchyard.store.collection import Collection

BATCH_TRIALS = 50
BATCH_BYTES = 64 * 1024**2
"""Size of evidence above which no more trials are added to a batch."""
MOST_TRAJECTORY_BYTES = 256 * 1024**2
MOST_CALLS_BYTES = 64 * 1024**2
_FOLDER = "problems"
_PIECE_BYTES = 1024**2


@dataclass
class EvidenceBatch:
    """Evidence of some trials: a description of each, and a file with their trajectories and calls."""

    descriptor: int
    items: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0


class TrialEvidence:
    """Reads the stored facts of trials, and stores the findings made of them."""

    def __init__(self, data: Path, jobs: ReportedJobs, runs: Collection[ScenarioRun], traces: Traces) -> None:
        self._data = data
        self._jobs = jobs
        self._runs = runs
        self._traces = traces

    async def write(self, job_id: str, wanted: Sequence[tuple[str, str | None]], batch: EvidenceBatch) -> int:
        """Add trials, by their ids and those of their runs, until the batch is full; return their number."""
        part = wanted[:BATCH_TRIALS]
        ids = [id for id, _ in part]
        trials = {trial.id: trial for trial in await self._jobs.trials_of(job_id, ids)}
        run_ids = [run_id for _, run_id in part if run_id]
        runs = {run.id: run for run in await self._runs.all({"id": run_ids})} if run_ids else {}
        for place, (id, run_id) in enumerate(part):
            if id in trials:
                batch.items.append(await self._item(trials[id], runs.get(run_id or ""), batch))
            if batch.size >= BATCH_BYTES:
                return place + 1
        return len(part)

    async def append(self, job_id: str, lines: bytes) -> None:
        """Keep findings of a job, a line of JSON each."""
        await asyncio.to_thread(_append, self._data, job_id, lines)
        if not await self._jobs.exists(job_id):
            # It was deleted meanwhile.
            await asyncio.to_thread(forget_findings, self._data, job_id)

    async def copy(self, job_id: str, descriptor: int) -> None:
        """Append the findings that are kept of a job to a file."""
        await asyncio.to_thread(_copy, self._data, job_id, descriptor)

    async def _item(self, trial: Trial, run: ScenarioRun | None, batch: EvidenceBatch) -> dict[str, Any]:
        sizes: dict[str, int | None] = {"trajectory": None, "calls": None}
        unread = None
        for name, trace, most in () if run is None else self._traces_of(run):
            if trace.size_bytes > most:
                unread = f"{trace.name} has more than {most} bytes"
                continue
            try:
                sizes[name] = await self._add(run, trace, batch)
            except BenchyardError as error:
                unread = f"{trace.name} cannot be read: {error.message}"
        return {
            "trial": trial.model_dump(mode="json"),
            "result": run.result.model_dump(mode="json") if run and run.result else None,
            "tamper": run.tamper.model_dump(mode="json") if run and run.tamper else None,
            "unread": unread,
            **sizes,
        }

    def _traces_of(self, run: ScenarioRun) -> list[tuple[str, Trace, int]]:
        trajectory = next((trace for trace in run.traces if trace.kind == "atif"), None)
        found = [] if trajectory is None else [("trajectory", trajectory, MOST_TRAJECTORY_BYTES)]
        # Only the server's own record of calls: others may be no such file.
        own = (
            trace
            for trace in run.traces
            if trace.name == CALLS_NAME and self._traces.is_free(run, trace.name)
        )
        return [*found, *(("calls", each, MOST_CALLS_BYTES) for each in own)]

    async def _add(self, run: ScenarioRun | None, trace: Trace, batch: EvidenceBatch) -> int:
        size = 0
        pieces = await self._traces.content(run.id if run else "", trace.name)
        try:
            async for piece in pieces:
                await asyncio.to_thread(_write, batch.descriptor, piece)
                size += len(piece)
        except BenchyardError:
            os.ftruncate(batch.descriptor, batch.size)
            os.lseek(batch.descriptor, batch.size, os.SEEK_SET)
            raise
        batch.size += size
        return size


def forget_findings(data: Path, job_id: str) -> None:
    """Remove the findings of a job that is deleted."""
    _file(data, job_id).unlink(missing_ok=True)


def _file(data: Path, job_id: str) -> Path:
    return data / _FOLDER / f"{job_id}.jsonl"


def _append(data: Path, job_id: str, lines: bytes) -> None:
    (data / _FOLDER).mkdir(mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(_file(data, job_id), flags, 0o600)
    try:
        # The line before may have been cut by a kill.
        _write(descriptor, b"\n" + lines)
    finally:
        os.close(descriptor)


def _copy(data: Path, job_id: str, descriptor: int) -> None:
    try:
        file = _file(data, job_id).open("rb")
    except FileNotFoundError:
        return
    with file:
        while piece := file.read(_PIECE_BYTES):
            _write(descriptor, piece)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
