"""The work of runs, from their final states: what changed, the diff, single files, and a devbox on it."""

import asyncio
import json
import os
import posixpath
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.secrets import scrubber_of
from benchyard.engine.devboxes.service import Devboxes
from benchyard.engine.devboxes.start_image import require_image_support
from benchyard.engine.redaction import Scrubber
from benchyard.engine.runs.scenario_runs import ScenarioRuns
from benchyard.errors import Conflict, NotFound, UsageError, WorkerFailed
from benchyard.models.devboxes import Devbox, DevboxRequest
from benchyard.models.jobs import TRIAL_KEY
from benchyard.models.launch import LaunchParameters
from benchyard.models.results.work import OPENED_KEY, WorkScope, WorkSide
from benchyard.models.runs import FinalState, RunState, ScenarioRun
from benchyard.workers.workers import WorkerLimits

MOST_FILES = 10_000
"""Most paths on a page."""
MOST_DIFF_BYTES = 4 * 1024**2
MOST_CONTENT_BYTES = 4 * 1024**2
_AT_ONCE = 2
_MOST_PATH = 4096
_LIMITS = WorkerLimits(seconds=30.0, memory_bytes=4 * 1024**3, output_bytes=256 * 1024**2)
_MODULE = "benchyard.workers.work_reports"
_RESOURCES = ("custom_cpu_cores", "custom_disk_size", "custom_gb_memory", "resource_size_request")
_KEPT = {*_RESOURCES, "architecture", "user_parameters"}
"""Launch parameters of a run that an opened devbox has too: its commands were run, its network is another."""


@dataclass(frozen=True)
class WorkWish:
    """Choice of paths: the work, all that was changed, or one path and everything below it."""

    scope: WorkScope = "work"
    path: str | None = None
    """Absolute, or from the working directory."""


@dataclass(frozen=True)
class WorkContent:
    """A part of a file, and the size of the whole."""

    data: bytes
    size: int


class WorkChanges:
    """Reads the disks that runs left; nothing of them is parsed on the event loop."""

    def __init__(self, tools: EngineContext, runs: ScenarioRuns, devboxes: Devboxes) -> None:
        self._tools = tools
        self._runs = runs
        self._devboxes = devboxes
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def files(self, run_id: str, wish: WorkWish, limit: int, after: str | None) -> bytes:
        """Return a page of the paths that differ from the start, as the JSON of a `WorkFilesView`."""
        run, state = await self._run_with_state(run_id)
        async with self._examined(run, state, _report_parameters(state, wish, contents=False)) as report:
            made = await self._make(report, "list_files", {"limit": limit, "after": after})
        start = b"run" if state.start_image_id else b"image"
        return await self._scrubbed(run, b'{"start": "%s", %s' % (start, made[1:]))

    async def diff(self, run_id: str, wish: WorkWish) -> bytes:
        """Return a unified diff from the start to the work; its top names the paths that it leaves out."""
        run, state = await self._run_with_state(run_id)
        async with self._examined(run, state, _report_parameters(state, wish, contents=True)) as report:
            made = await self._make(report, "make_diff", {"most_bytes": MOST_DIFF_BYTES})
        return await self._scrubbed(run, made)

    async def content(self, run_id: str, path: str, side: WorkSide, offset: int, limit: int) -> WorkContent:
        """Return a part of a file as it was before or after the work; of a link, its target."""
        run, state = await self._run_with_state(run_id)
        scrubber = await self._scrubber(run)
        # The text beside the part shows a value that only begins or ends in it.
        begin = max(0, offset - scrubber.longest)
        length = offset - begin + limit + scrubber.longest
        wanted = {"read": _absolute(path, state), "side": side, "offset": begin, "limit": length}
        async with self._examined(run, state, wanted) as report:
            facts, data = await asyncio.to_thread(_read_content, report)
        when = "at its start" if side == "before" else "at its end"
        described = f"{path[:200]!r} of scenario run {run_id} {when}"
        if facts["is_machines"]:
            raise Conflict(f"{described} is the server machine's own file; its content is not shown")
        if facts["type"] is None:
            raise NotFound(f"there is no {described}")
        if facts["type"] not in ("file", "link"):
            raise UsageError(f"{described} is no file and no link: it has no content", field="path")
        at = min(offset - begin, len(data))
        part = await asyncio.to_thread(scrubber.part, data, at, min(at + limit, len(data)))
        return WorkContent(part, facts["size"])

    async def open(self, run_id: str, caller: Caller, name: str | None) -> Devbox:
        """Start a devbox on the disk that a run left, with its user, resources and the scenario's variables.

        It has the network and the lifetime of any devbox, and neither the agent's secrets nor its tokens.
        """
        run, state = await self._run_with_state(run_id)
        require_image_support(self._tools)
        scenario = await self._runs.scenario(run)
        environment = scenario.environment.environment_variables if scenario.environment else None
        request = DevboxRequest(
            name=name or f"opened-{run.id}",
            metadata={OPENED_KEY: run.metadata.get(TRIAL_KEY, run.id)},
            blueprint_id=state.image_id,
            launch_parameters=LaunchParameters(**state.launch_parameters.model_dump(include=_KEPT)),
            environment_variables=environment,
        )
        return await self._devboxes.create(caller, request)

    async def _run_with_state(self, run_id: str) -> tuple[ScenarioRun, FinalState]:
        run = await self._runs.get(run_id)
        return run, final_state_of(run)

    @asynccontextmanager
    async def _examined(
        self, run: ScenarioRun, state: FinalState, wanted: Mapping[str, Any]
    ) -> AsyncIterator[Path]:
        images = self._tools.images
        try:
            final = await images.get(state.image_id)
            start = await images.get(state.start_image_id) if state.start_image_id else None
        except NotFound as error:
            raise Conflict(f"what scenario run {run.id} left was removed from the image store") from error
        async with self._turns, images.examined(final, start, wanted) as report:
            yield report

    async def _make(self, report: Path, function: str, parameters: Mapping[str, Any]) -> bytes:
        descriptor = os.open(report, os.O_RDONLY | os.O_CLOEXEC)
        try:
            made: bytes = await self._tools.workers.call(
                f"{_MODULE}:{function}", descriptor, parameters, _LIMITS
            )
            return made
        except WorkerFailed as error:
            raise Conflict(
                f"what was changed is too much to be shown at once ({error.message}); name a path, or open "
                "the final state as a devbox"
            ) from error
        finally:
            os.close(descriptor)

    async def _scrubber(self, run: ScenarioRun) -> Scrubber:
        return await scrubber_of(self._tools, run.devbox_id, run.secrets.values())

    async def _scrubbed(self, run: ScenarioRun, data: bytes) -> bytes:
        return await asyncio.to_thread((await self._scrubber(run)).data, data)


def final_state_of(run: ScenarioRun) -> FinalState:
    """Return the final state of a run; raises Conflict that says why there is none, or what would keep it."""
    if run.final_state is not None:
        return run.final_state
    if run.state in (RunState.RUNNING, RunState.SCORING):
        raise Conflict(
            f"scenario run {run.id} is {run.state}: what it leaves can be looked at once it was scored"
        )
    never = "it was not scored, and only what was scored is kept"
    why = never if run.result is None else run.final_state_gone or "it was scored before this server kept any"
    raise Conflict(f"what scenario run {run.id} left is not there: {why}")


def _report_parameters(state: FinalState, wish: WorkWish, *, contents: bool) -> dict[str, Any]:
    return {
        "folders": [posixpath.normpath(state.working_directory)],
        "home": state.home and posixpath.normpath(state.home),
        "paths": [_absolute(wish.path, state)] if wish.path else [],
        "all": wish.scope == "all",
        "contents": contents,
    }


def _absolute(path: str, state: FinalState) -> str:
    """Return a path that may be relative to the working directory; raises UsageError for none at all."""
    if not path or len(path) > _MOST_PATH or "\0" in path:
        raise UsageError("name a path of at most 4096 characters, without NUL", field="path")
    return posixpath.normpath(posixpath.join(state.working_directory, path)).replace("//", "/")


def _read_content(report: Path) -> tuple[dict[str, Any], bytes]:
    with report.open("rb") as file:
        facts: dict[str, Any] = json.loads(file.readline())
        return facts, file.read()
