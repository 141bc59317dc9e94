"""Rooms of scorers: a fresh devbox from the frozen disk, or with `live` the run's own devbox."""

import asyncio
import contextlib
import logging
import os
import posixpath
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from benchyard.devboxes.base import Capability, HostFolder, OpenFile
from benchyard.engine.background import retry_store
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.boot import PRISTINE, home_of, start_request, usual_home
from benchyard.engine.devboxes.commands import wait_for_completion
from benchyard.engine.devboxes.descriptors import write_content, write_contents, write_pieces
from benchyard.engine.devboxes.start_image import DEFAULT_IMAGE
from benchyard.engine.disk_use import is_short
from benchyard.engine.images.build import erase_devbox
from benchyard.engine.network.egress import close_door, open_door, plan_of_devbox
from benchyard.engine.network.policies import phased_plan, plan_of
from benchyard.engine.runs import repository_settings
from benchyard.engine.runs.conditions import Conditions
from benchyard.engine.runs.tamper import TamperFindings, WorkPaths
from benchyard.errors import (
    BenchyardError,
    Conflict,
    DiskFull,
    NotFound,
    NotSupported,
    ScorerFailed,
    UsageError,
)
from benchyard.hosts.cancellation import run_to_end
from benchyard.hosts.grading import OpenedFiles
from benchyard.hosts.host import ExecRequest, ExecutionState, kept_file
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.devboxes import Devbox
from benchyard.models.network_policies import Egress
from benchyard.models.runs import REFERENCE_KEY, FinalState, ScenarioRun
from benchyard.models.scenarios import Isolation, Scenario, ScenarioEnvironment
from benchyard.models.trials import TrialNetwork
from benchyard.scorers.base import AS_USUAL, ProgramOptions, Room, RoomResult, Scorer, Verdict
from benchyard.scorers.kits import answer_command, python_kit, start_tools

SCORING_PREFIX = "scoring-"
"""Prefix of the ids of scorers' executions."""
_PRIVATE = "/run/benchyard-"
"""Prefix of the folders with scorers' own files; a token of 16 digits follows."""
_ROOT = "root"
_REMOVED_AT_ONCE = 100
_MOST_READ = 50
"""Most files with settings of git that are read before a scorer begins."""
_REMOVE_SECONDS = 10.0
"""Time for a removal command in a devbox, whose programs may have been replaced."""


@dataclass(frozen=True)
class AnswerUser:
    """User and program for running the answer from a scorer that grades as root."""

    user: str
    """User that the answer runs as."""
    python: str
    """Program that runs the offered command."""


@dataclass(frozen=True)
class RoomRequest:
    """Place, user and time of a scorer's work."""

    devbox_id: str
    user: str
    """User of the scorer."""
    working_directory: str | None
    """None means the user's home."""
    seconds: float
    env: Mapping[str, str] = field(default_factory=dict)
    label: str = "0"
    """Distinguishes this scorer's executions from those of others."""
    answer: AnswerUser | None = None
    """Set if the answer runs as another user than the scorer."""


class DevboxRoom(Room):
    """A scorer's view of a devbox."""

    def __init__(self, tools: EngineContext, room_request: RoomRequest, working_directory: str) -> None:
        self.working_directory = working_directory
        self._tools = tools
        self._room_request = room_request
        self._token = secrets.token_hex(8)
        self._private = f"{_PRIVATE}{self._token}"
        self._kept: dict[str, tuple[OpenFile, bytes]] = {}
        """Private files by path that are written, all at once, before anything else is done in the devbox."""
        self._writing = asyncio.Lock()
        self._put: list[str] = []
        self._made: list[str] = []
        """Folders that this room has made."""
        self._commands = 0
        self._offered: dict[str, str] = {}
        self._deadline = asyncio.get_running_loop().time() + room_request.seconds

    async def put(self, path: str, content: bytes, *, mode: int = 0o644) -> str:
        await self._write_kept()
        whole = posixpath.normpath(posixpath.join(self.working_directory, path))
        self._put.append(whole)
        if self._room_request.answer:
            mode &= 0o700
            if not any(f"{whole}/".startswith(f"{folder}/") for folder in self._made):
                self.guarded = (*self.guarded, whole)
        # As root: the agent may have made the place unwritable for the user.
        await self._write(
            whole, content, self._tools.host.open_fresh(self._room_request.devbox_id, whole, _ROOT, mode)
        )
        return whole

    async def keep(self, name: str, content: bytes) -> str:
        return self._keep(name, content)

    async def keep_pieces(self, name: str, pieces: AsyncIterator[bytes]) -> str:
        """Store content in pieces as `keep` does, without holding all of it in memory."""
        await self._write_kept()
        path = f"{self._private}/{posixpath.basename(name)}"
        host, asked = self._tools.host, self._room_request
        try:
            await write_pieces(await host.open_kept(asked.devbox_id, path, asked.user), path, pieces)
        except UsageError as error:
            raise ScorerFailed(f"{path[:200]} could not be put in place: {error.message}") from error
        return path

    def _keep(self, name: str, content: bytes, *, program: bool = False) -> str:
        path = f"{self._private}/{posixpath.basename(name)}"
        # Private: a scorer may run the answer as another user, who must not read the expected results.
        self._kept[path] = kept_file(path, self._room_request.user, program=program), content
        return path

    async def _write_kept(self) -> None:
        async with self._writing:
            kept, self._kept = self._kept, {}
            if kept:
                await self._write_all(kept)

    async def _write_all(self, kept: dict[str, tuple[OpenFile, bytes]]) -> None:
        requests = [request for request, _content in kept.values()]
        with self._explain(f"{requests[0].path[:200]} could not be put in place"):
            opened = await self._tools.host.open_all(self._room_request.devbox_id, requests)
            await write_contents(opened, {path: content for path, (_request, content) in kept.items()})

    async def offer(self, given: AnswerUser) -> None:
        """Install the command that runs the answer, and set its path for all commands of this room."""
        # A single argument: the kernel does not split the rest of a program's first line.
        program = answer_command.program(f"{given.python} -IS", given.user, self._room_request.env)
        self._offered = {answer_command.VARIABLE: self._keep(answer_command.NAME, program, program=True)}

    async def _write(self, path: str, content: bytes, opening: Awaitable[int]) -> None:
        with self._explain(f"{path[:200]} could not be put in place"):
            await write_content(await opening, path, content)

    @contextlib.contextmanager
    def _explain(self, failure: str) -> Iterator[None]:
        """Turn refusals of the devbox, even a full memory disk, into a failure of the scorer."""
        try:
            yield
        except DiskFull as error:
            if is_short(self._tools.settings.data):
                raise
            raise ScorerFailed(f"{failure}: there is no space left where it leads to") from error
        except UsageError as error:
            raise ScorerFailed(f"{failure}: {error.message}") from error

    async def clear(self, folder: str, user: str | None = None) -> None:
        await self._write_kept()
        whole = posixpath.normpath(posixpath.join(self.working_directory, folder))
        self._made.append(whole)
        with self._explain(f"{whole[:200]} could not be made anew"):
            await self._tools.host.rooms.make_folder(self._room_request.devbox_id, whole, user or _ROOT)

    async def fetch(self, path: str, limit: int) -> bytes | None:
        await self._write_kept()
        whole = posixpath.normpath(posixpath.join(self.working_directory, path))
        try:
            descriptor = await self._tools.host.open_read(self._room_request.devbox_id, whole, _ROOT)
        except NotFound:
            return None
        except UsageError as error:
            raise ScorerFailed(f"{whole[:200]} could not be read: {error.message}") from error
        try:
            content = await asyncio.to_thread(_read, descriptor, limit)
        except OSError as error:
            # A link can lead to files made up by the kernel, and some of them refuse to be read.
            raise ScorerFailed(f"{whole[:200]} could not be read: {error.strerror}") from error
        if len(content) > limit:
            raise ScorerFailed(f"{whole[:200]} is larger than {limit} bytes")
        return content

    async def run(self, argv: Sequence[str], how: ProgramOptions = AS_USUAL) -> RoomResult:
        await self._write_kept()
        left = self._deadline - asyncio.get_running_loop().time()
        if left <= 0:
            return RoomResult(exit_status=137, stdout=b"", stderr=b"", timed_out=True)
        self._commands += 1
        request = ExecRequest(
            id=f"{SCORING_PREFIX}{self._room_request.label}-{self._token}-{self._commands}",
            command="",
            argv=tuple(argv),
            cwd=how.cwd or self.working_directory,
            user=how.user or self._room_request.user,
            env={**self._room_request.env, **self._offered, **how.env},
            timeout_seconds=left,
            strict=True,
        )
        state = await wait_for_completion(
            self._tools, await self._tools.host.exec(self._room_request.devbox_id, request)
        )
        return RoomResult(
            exit_status=state.exit_status or 0,
            stdout=await self._end(state, "stdout", state.stdout_bytes, how.most_output),
            stderr=await self._end(state, "stderr", state.stderr_bytes, how.most_output),
            timed_out=state.timed_out,
            signal=state.signal,
            truncated=state.stdout_truncated,
        )

    async def _end(self, state: ExecutionState, stream: str, size: int, most: int) -> bytes:
        if not size:
            return b""
        start = max(0, size - most)
        pieces = self._tools.host.output(state.devbox_id, state.id, stream, start, follow=False)
        return b"".join([piece async for piece in pieces])[-most:]

    async def leave(self) -> None:
        """Remove the scorer's files from a devbox that goes on and may be graded again.

        Their content is erased first, without a program of the devbox, then the names are removed.
        """
        host, devbox_id = self._tools.host, self._room_request.devbox_id
        for folder in (self._private, *self._made):
            with contextlib.suppress(UsageError, NotSupported):
                await host.rooms.make_folder(devbox_id, folder, _ROOT)
        for path in self._put:
            with contextlib.suppress(UsageError, NotSupported):
                os.close(await host.open_fresh(devbox_id, path, _ROOT, 0o600))
        names = [*self._made, *self._put]
        for at in range(0, max(1, len(names)), _REMOVED_AT_ONCE):
            request = ExecRequest(
                id=f"{SCORING_PREFIX}{self._room_request.label}-{self._token}-clear-{at}",
                command="",
                argv=("/bin/rm", "-rf", "--", self._private, *names[at : at + _REMOVED_AT_ONCE]),
                cwd="/",
                user=_ROOT,
                timeout_seconds=_REMOVE_SECONDS,
                strict=True,
            )
            await wait_for_completion(self._tools, await host.exec(devbox_id, request))


@contextlib.asynccontextmanager
async def open_room(
    tools: EngineContext, room_request: RoomRequest, *, stays: bool = False
) -> AsyncIterator[DevboxRoom]:
    """Open a room in a running devbox; with `stays` the devbox goes on without the scorer's files."""
    room = DevboxRoom(
        tools,
        room_request,
        room_request.working_directory or await home_of(tools, room_request.devbox_id, room_request.user),
    )
    try:
        if room_request.answer:
            await room.offer(room_request.answer)
        yield room
    finally:
        if stays:
            with contextlib.suppress(BenchyardError):
                await run_to_end(room.leave())


async def clear_rooms(tools: EngineContext, devbox_id: str) -> None:
    """Remove scorers' files from a devbox in which a killed server graded; no scorer may be at work."""
    request = ExecRequest(
        id=f"{SCORING_PREFIX}sweep-{secrets.token_hex(8)}",
        command="",
        argv=("/bin/sh", "-c", f"rm -rf -- {_PRIVATE}{'?' * 16}"),
        cwd="/",
        user=_ROOT,
        timeout_seconds=_REMOVE_SECONDS,
        strict=True,
    )
    await wait_for_completion(tools, await tools.host.exec(devbox_id, request))


def _read(descriptor: int, limit: int) -> bytes:
    """Return the content of a file, up to one byte more than the limit."""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit + 1)


_log = logging.getLogger(__name__)


def frozen_id(run: ScenarioRun) -> str:
    """Return the id of the image in which a run's disk is frozen for its present scoring."""
    return f"{run.id}-{run.scorings}"


@dataclass(frozen=True)
class ScoringCase:
    """A run to be scored, with the facts about it."""

    run: ScenarioRun
    scenario: Scenario
    devbox: Devbox
    facts: Mapping[str, object] = field(default_factory=dict)
    trajectory: str | None = None
    """Id of the object with the run's uploaded trajectory, for scorers to read."""
    kept: FinalState | None = None
    """The final state to score; None while the devbox is scored itself."""

    @property
    def scorer_seconds(self) -> float:
        """Return the time limit of each scorer."""
        return self.scenario.scorer_seconds * self.run.scorer_multiplier

    @property
    def isolation(self) -> Isolation:
        """Return the isolation of the answer from the agent that made it."""
        return self.scenario.isolation

    @property
    def working_directory(self) -> str:
        """Return the directory of the work, as set when the devbox began, whatever it says now."""
        return self.scenario.working_directory or self.home

    @property
    def home(self) -> str:
        """Return the home of the user, as it was when the devbox began."""
        home = self.devbox.purpose.home if self.devbox.purpose else None
        return home or usual_home(self.user)

    @property
    def work(self) -> WorkPaths:
        """Return the paths of the work, and the part of the disk that scorers get."""
        answer = self.whole("answer_paths")
        if self.isolation == "answer":
            return WorkPaths((self.working_directory, *answer), carried=answer)
        return WorkPaths(
            (self.working_directory, *answer) if self.isolation == "system" else (self.working_directory,),
            home=self.home,
        )

    def whole(self, field: str) -> tuple[str, ...]:
        """Return the paths of one of the scenario's rules, absolute."""
        paths: list[str] = getattr(self.scenario, field) or []
        return tuple(posixpath.normpath(posixpath.join(self.working_directory, path)) for path in paths)

    @property
    def is_reference(self) -> bool:
        """Tell whether the run only applied the reference output."""
        return REFERENCE_KEY in self.run.metadata

    @property
    def image_id(self) -> str:
        """Return the id of the image in which the disk is frozen."""
        return frozen_id(self.run)

    @property
    def start_image_id(self) -> str:
        """Return the image of the disk before the work; it exists only if the scenario `keeps_start`."""
        return (self.kept and self.kept.start_image_id) or self.devbox.id + PRISTINE

    @property
    def user(self) -> str:
        """Return the user that the work was done as."""
        return self.devbox.launch_parameters.username


@dataclass(frozen=True)
class RoomContext:
    """Shared state of the stages of one scoring."""

    tools: EngineContext
    kits: Kits
    case: ScoringCase
    findings: TamperFindings
    egress: Egress | None = None
    """Egress of scorers; None if the scenario does not set it."""
    unknown: str | None = None
    """Reason why the egress of scorers is unknown."""
    conditions: Conditions = field(default_factory=Conditions)

    @property
    def network(self) -> TrialNetwork | None:
        """Return the word for the scorers' network; None if no devbox runs."""
        if self.tools.host.pretends or self.unknown:
            return None
        devbox = self.case.devbox
        if self.case.isolation != "live":
            return plan_of(self.egress or Egress()).word(asks_models=False)
        switches = devbox.purpose is not None and devbox.purpose.agent_egress is not None
        plan = phased_plan(self.egress) if switches and self.egress else plan_of_devbox(self.tools, devbox)
        return plan.word(asks_models=False)

    async def room_request(self, devbox_id: str, index: int, scorer: Scorer[Any] | None) -> RoomRequest:
        """Return the place, user and environment of a scorer in this case."""
        offered, user = None, scorer.user if scorer else None
        if user is not None and not self.tools.host.pretends:
            kit = await answer_command.kit(self.kits)
            offered = AnswerUser(self.case.user, python_kit.program(kit.target))
        env = {}
        for variable, name in (self.case.scenario.scoring_secrets or {}).items():
            try:
                env[variable] = await retry_store(self.tools.secrets.value, name)
            except NotFound as error:
                reason = f"the scenario's scorers need a secret: {error.message}"
                raise ScorerFailed(reason, cause="machine") from error
        return RoomRequest(
            devbox_id=devbox_id,
            user=user or self.case.user,
            working_directory=self.case.working_directory,
            seconds=self.case.scorer_seconds,
            env=env,
            label=f"{self.case.run.scorings}-{index}",
            answer=offered,
        )

    async def make_kits(self, scorer: Scorer[Any]) -> tuple[Kit, ...]:
        """Return the kits of a scorer; raises ScorerFailed, with the machine as its default cause."""
        try:
            return await kits_of(scorer, self.kits)
        except ScorerFailed as error:
            raise ScorerFailed(error.message, cause=error.cause or "machine", **error.details) from error

    async def watched(self, scorer: Scorer[Any], devbox_id: str, room: DevboxRoom) -> Verdict:
        """Let a scorer grade, and note which changed files are opened meanwhile."""
        if path := await self._keep_trajectory(room):
            scorer.context = replace(scorer.context, facts={**self.case.facts, "trajectory_path": path})
        await self._read_settings(devbox_id)
        # In threads: the agent may have changed as many files as are listed.
        paths = await asyncio.to_thread(self.findings.watched)
        opened: OpenedFiles | None = None
        began = time.monotonic()
        try:
            if not paths:
                self.findings.saw(None if self.findings.changes is None else [])
                return await scorer.score(room)
            async with self.tools.host.rooms.watch_opens(devbox_id, paths) as opened:
                return await scorer.score(room)
        finally:
            # A failed scorer has opened files too.
            if paths:
                self.findings.saw(opened.paths if opened else None, opened.unwatched if opened else ())
            await asyncio.to_thread(self.findings.put_below, room.guarded)
            is_late = time.monotonic() - began >= self.case.scorer_seconds
            self.conditions.look_at_load(
                "the scorer's time ran out while" if is_late else "while it was scored"
            )
            await self.conditions.look_at_network(self.tools, devbox_id, "while it was scored")

    async def _read_settings(self, devbox_id: str) -> None:
        """Note the changed settings of repositories by which git behaves in another way."""
        changed = await asyncio.to_thread(self.findings.settings_to_read)
        for path in changed[:_MOST_READ]:
            if await self._changes_git(devbox_id, path):
                self.findings.note_settings(path)
        for path in changed[_MOST_READ:]:
            self.findings.note_settings(path)

    async def _changes_git(self, devbox_id: str, path: str) -> bool:
        try:
            descriptor = await self.tools.host.open_read(devbox_id, path, _ROOT)
        except NotFound:
            return False
        except BenchyardError:
            # None of git's own files can be opened and not read.
            return True

        def look() -> bool:
            content = _read(descriptor, repository_settings.most_bytes(path))
            return repository_settings.changes_git(path, content)

        try:
            return await asyncio.to_thread(look)
        except OSError:
            return True

    async def _keep_trajectory(self, room: DevboxRoom) -> str | None:
        """Write the run's trajectory into a room, in pieces; returns its path, or None without one."""
        if self.case.trajectory is None:
            return None
        try:
            _, pieces = await self.tools.objects.content(self.case.trajectory)
        except (NotFound, Conflict):
            return None
        return await room.keep_pieces("trajectory.json", pieces)


class GradingRoom(ABC):
    """Place in which one scorer grades."""

    @abstractmethod
    async def grade(self, scorer: Scorer[Any]) -> Verdict:
        """Return the scorer's verdict; raises ScorerFailed."""

    @abstractmethod
    async def has_sound_machine(self) -> bool:
        """Tell whether the machine can run such a devbox now; if not, the answer did not break it."""


@dataclass(frozen=True)
class RoomImages:
    """Images of the rooms apart from the run's own devbox."""

    answer: str
    """The final disk, or the graded part of it."""
    base: str | None = None
    """Disk without the answer; None if the whole disk is graded."""


class CleanRoom(GradingRoom):
    """A fresh devbox from an image, for this scorer alone, so that scorers do not see each other's files."""

    def __init__(self, context: RoomContext, images: RoomImages, index: int) -> None:
        self._context = context
        self._images = images
        self._index = index

    async def grade(self, scorer: Scorer[Any]) -> Verdict:
        kits = await self._context.make_kits(scorer)
        if not scorer.draws:
            is_whole_disk = self._images.base is None
            own = await self._start_tools() if scorer.uses_shell and is_whole_disk else None
            shown = (*kits, own) if own else kits
            async with self._room(self._images.answer, shown, scorer) as (devbox_id, room):
                room.tools = own.target if own else None
                return await self._context.watched(scorer, devbox_id, room)
        if self._images.base is None:
            told = "this scorer needs scoring_isolation `answer`: it grades a drawn answer alone"
            raise ScorerFailed(told, cause="scorer")
        async with self._room(self._images.answer, kits, scorer) as (_, room):
            scorer.answer = await scorer.draw(room)
        async with self._room(self._images.base, kits, scorer) as (devbox_id, room):
            return await self._context.watched(scorer, devbox_id, room)

    async def has_sound_machine(self) -> bool:
        try:
            async with self._room(self._start_image(), ()) as (_, room):
                return not (
                    await room.run(("/bin/sh", "-c", ":"), ProgramOptions(cwd="/", user="root"))
                ).timed_out
        except (BenchyardError, OSError) as error:
            _log.warning("a room without an answer did not come up either: %s", error)
            return False

    def _start_image(self) -> str:
        """Return the image that the work began from, as far as it is still known."""
        case = self._context.case
        if self._images.base is not None or case.kept is None:
            return self._images.base or case.devbox.image
        environment = case.scenario.environment or ScenarioEnvironment()
        return environment.blueprint_id or environment.snapshot_id or DEFAULT_IMAGE

    async def _start_tools(self) -> Kit | None:
        """Return the shell and tools of the start image as a kit; None if they cannot be found or shown."""
        tools, case = self._context.tools, self._context.case
        kept = case.kept.start_image_id if case.kept else None
        if Capability.MOUNTS not in tools.host.capabilities or (case.kept and kept is None):
            return None
        try:
            image = await tools.images.get(kept) if kept else await tools.images.held(case.devbox.id)
            rootfs = tools.images.rootfs(image or await tools.host.image(case.devbox.image))
            return await start_tools.make(rootfs, self._context.kits)
        except (BenchyardError, OSError) as error:
            _log.warning("run %s is graded without the tools of its start: %s", case.run.id, error)
            return None

    @contextlib.asynccontextmanager
    async def _room(
        self, image: str, kits: tuple[Kit, ...], scorer: Scorer[Any] | None = None
    ) -> AsyncIterator[tuple[str, DevboxRoom]]:
        tools = self._context.tools
        # A new id each time: the devbox of an earlier server is being removed.
        devbox_id = f"{self._context.case.image_id}-{self._index}-{secrets.token_hex(4)}"
        record = self._record(devbox_id, image)
        try:
            tracing = bool(self._context.case.scenario.scoring_tracing)
            request = replace(
                await start_request(tools, record), mounts=mounts_of(tools, kits), tracing=tracing
            )
            await tools.host.start(request)
            await open_door(tools, record)
            if scorer is not None:
                # Before its time begins.
                await self._context.findings.looked()
            room_request = await self._context.room_request(devbox_id, self._index, scorer)
            async with open_room(tools, room_request) as room:
                yield devbox_id, room
        finally:
            # In the background: the verdict does not depend on the devbox's end.
            tools.work.start(f"room/{devbox_id}", partial(_end_room, tools, devbox_id), finish=True)

    def _record(self, devbox_id: str, image: str) -> Devbox:
        """Return a record like the run's devbox: same user, variables and size; no secrets, own network."""
        if self._context.unknown:
            raise ScorerFailed(self._context.unknown, cause="machine")
        own = {"id": devbox_id, "image": image, "egress": self._context.egress or Egress()}
        return self._context.case.devbox.model_copy(update={**own, "secrets": {}, "purpose": None})


class LiveRoom(GradingRoom):
    """The run's own devbox, for scenarios whose result is a running process."""

    def __init__(self, context: RoomContext, index: int) -> None:
        self._context = context
        self._index = index

    async def grade(self, scorer: Scorer[Any]) -> Verdict:
        devbox_id = self._context.case.devbox.id
        # The devbox shows these kits since it began.
        await self._context.make_kits(scorer)
        room_request = await self._context.room_request(devbox_id, self._index, scorer)
        stays = not self._context.tools.host.pretends
        async with open_room(self._context.tools, room_request, stays=stays) as room:
            return await self._context.watched(scorer, devbox_id, room)

    async def has_sound_machine(self) -> bool:
        devbox_id = self._context.case.devbox.id
        return devbox_id in self._context.tools.host.running()


async def _end_room(tools: EngineContext, devbox_id: str) -> None:
    await erase_devbox(tools, devbox_id)
    try:
        await close_door(tools, devbox_id)
    except BenchyardError as error:
        # The next server closes the door.
        _log.warning("the door of room %s could not be closed: %s", devbox_id, error)


async def kits_of(scorer: Scorer[Any], kits: Kits) -> tuple[Kit, ...]:
    """Return the kits that a devbox must show for a scorer: its own, and those offered by the room."""
    found = {kit.target: kit for kit in await scorer.kits(kits)}
    if scorer.user is not None:
        offered = await answer_command.kit(kits)
        found[offered.target] = offered
    return tuple(found.values())


def mounts_of(tools: EngineContext, kits: tuple[Kit, ...]) -> tuple[HostFolder, ...]:
    """Return the host folders of kits; raises ScorerFailed if the driver cannot show folders."""
    if kits and Capability.MOUNTS not in tools.host.capabilities:
        told = "this scorer needs a driver that can show folders; use the native driver"
        raise ScorerFailed(told, cause="machine")
    return tuple(HostFolder(kit.source, kit.target) for kit in kits)
