"""The room a scorer grades in: a devbox of its own, or in `live` scenarios the one that was worked in."""

import asyncio
import contextlib
import os
import posixpath
import secrets
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchyard.engine.descriptors import write_content, write_pieces
from benchyard.engine.disk_space import is_short
from benchyard.engine.homes import home_of
from benchyard.engine.setup import completed
from benchyard.engine.tools import Tools
from benchyard.errors import BenchyardError, DiskFull, NotFound, NotSupported, ScorerFailed, UsageError
from benchyard.hosts.host import ExecRequest, ExecutionState
from benchyard.hosts.uninterrupted import uninterrupted
from benchyard.scorers.base import AS_USUAL, ProgramOptions, Room, RoomResult
from benchyard.scorers.kits import answer_command

SCORING_PREFIX = "scoring-"
"""What the ids of scorers' executions begin with."""
_PRIVATE = "/run/benchyard-"
"""What the folders begin with in which scorers keep their own; a token of 16 digits follows."""
_ROOT = "root"
_REMOVED_AT_ONCE = 100
_REMOVE_SECONDS = 10.0
"""For a program of a devbox that takes something away; it may be another by now."""


@dataclass(frozen=True)
class AnswerUser:
    """What a scorer that grades as root is offered to run the answer with."""

    user: str
    """Who the answer is run as."""
    python: str
    """The program that runs the command which is offered."""


@dataclass(frozen=True)
class Place:
    """Where, as whom and for how long a scorer works."""

    devbox_id: str
    user: str
    """Who grades."""
    working_directory: str | None
    """None is the user's home."""
    seconds: float
    env: Mapping[str, str] = field(default_factory=dict)
    label: str = "0"
    """Tells this scorer's executions from those of others."""
    answer: AnswerUser | None = None
    """Where what is graded has another user than who grades."""


class DevboxRoom(Room):
    """A scorer's view of a devbox."""

    def __init__(self, tools: Tools, place: Place, working_directory: str) -> None:
        self.working_directory = working_directory
        self._tools = tools
        self._place = place
        self._token = secrets.token_hex(8)
        self._private = f"{_PRIVATE}{self._token}"
        self._put: list[str] = []
        self._made: list[str] = []
        """Folders that were made anew."""
        self._commands = 0
        self._offered: dict[str, str] = {}
        self._deadline = asyncio.get_running_loop().time() + place.seconds

    async def put(self, path: str, content: bytes, *, mode: int = 0o644) -> str:
        whole = posixpath.normpath(posixpath.join(self.working_directory, path))
        self._put.append(whole)
        if self._place.answer:
            mode &= 0o700
            if not any(f"{whole}/".startswith(f"{folder}/") for folder in self._made):
                self.guarded = (*self.guarded, whole)
        # As root: what the agent made unwritable for the user must not keep a test away.
        await self._write(
            whole, content, self._tools.host.open_fresh(self._place.devbox_id, whole, _ROOT, mode)
        )
        return whole

    async def keep(self, name: str, content: bytes) -> str:
        path, opening = self._kept(name)
        await self._write(path, content, opening)
        return path

    async def keep_pieces(self, name: str, pieces: AsyncIterator[bytes]) -> str:
        """As `keep`, with a content that is nowhere in memory as a whole."""
        path, opening = self._kept(name)
        try:
            await write_pieces(await opening, path, pieces)
        except UsageError as error:
            raise ScorerFailed(f"{path[:200]} could not be put in place: {error.message}") from error
        return path

    def _kept(self, name: str) -> tuple[str, Awaitable[int]]:
        path = f"{self._private}/{posixpath.basename(name)}"
        # Not for others: a scorer may run the answer as another user, who must not read what is expected.
        return path, self._tools.host.open_kept(self._place.devbox_id, path, self._place.user)

    async def offer(self, given: AnswerUser) -> None:
        """Put the command in place that runs what is graded, and name it to all that is run here."""
        path = f"{self._private}/{answer_command.NAME}"
        host, devbox_id = self._tools.host, self._place.devbox_id
        opening = host.open_kept(devbox_id, path, self._place.user, program=True)
        # One word: the kernel passes all that follows a program's name on as one argument.
        program = answer_command.program(f"{given.python} -IS", given.user, self._place.env)
        await self._write(path, program, opening)
        self._offered = {answer_command.VARIABLE: path}

    async def _write(self, path: str, content: bytes, opening: Awaitable[int]) -> None:
        with self._explained(f"{path[:200]} could not be put in place"):
            await write_content(await opening, path, content)

    @contextlib.contextmanager
    def _explained(self, failure: str) -> Iterator[None]:
        """Tell as a failed scorer what the devbox does not allow, also where only its memory is full."""
        try:
            yield
        except DiskFull as error:
            if is_short(self._tools.settings.data):
                raise
            raise ScorerFailed(f"{failure}: there is no space left where it leads to") from error
        except UsageError as error:
            raise ScorerFailed(f"{failure}: {error.message}") from error

    async def clear(self, folder: str, user: str | None = None) -> None:
        whole = posixpath.normpath(posixpath.join(self.working_directory, folder))
        self._made.append(whole)
        with self._explained(f"{whole[:200]} could not be made anew"):
            await self._tools.host.rooms.make_folder(self._place.devbox_id, whole, user or _ROOT)

    async def fetch(self, path: str, limit: int) -> bytes | None:
        whole = posixpath.normpath(posixpath.join(self.working_directory, path))
        try:
            descriptor = await self._tools.host.open_read(self._place.devbox_id, whole, _ROOT)
        except NotFound:
            return None
        except UsageError as error:
            raise ScorerFailed(f"{whole[:200]} could not be read: {error.message}") from error
        try:
            content = await asyncio.to_thread(_read, descriptor, limit)
        except OSError as error:
            # A link can lead to files that the kernel makes up, and some of them refuse to be read.
            raise ScorerFailed(f"{whole[:200]} could not be read: {error.strerror}") from error
        if len(content) > limit:
            raise ScorerFailed(f"{whole[:200]} is larger than {limit} bytes")
        return content

    async def run(self, argv: Sequence[str], how: ProgramOptions = AS_USUAL) -> RoomResult:
        left = self._deadline - asyncio.get_running_loop().time()
        if left <= 0:
            return RoomResult(exit_status=137, stdout=b"", stderr=b"", timed_out=True)
        self._commands += 1
        request = ExecRequest(
            id=f"{SCORING_PREFIX}{self._place.label}-{self._token}-{self._commands}",
            command="",
            argv=tuple(argv),
            cwd=how.cwd or self.working_directory,
            user=how.user or self._place.user,
            env={**self._place.env, **self._offered, **how.env},
            timeout_seconds=left,
            strict=True,
        )
        state = await completed(self._tools, await self._tools.host.exec(self._place.devbox_id, request))
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
        """Take away what was kept and put here, from a devbox that goes on and may be graded again.

        What it says is gone first, without a program of the devbox, then the names.
        """
        host, devbox_id = self._tools.host, self._place.devbox_id
        for folder in (self._private, *self._made):
            with contextlib.suppress(UsageError, NotSupported):
                await host.rooms.make_folder(devbox_id, folder, _ROOT)
        for path in self._put:
            with contextlib.suppress(UsageError, NotSupported):
                os.close(await host.open_fresh(devbox_id, path, _ROOT, 0o600))
        names = [*self._made, *self._put]
        for at in range(0, max(1, len(names)), _REMOVED_AT_ONCE):
            request = ExecRequest(
                id=f"{SCORING_PREFIX}{self._place.label}-{self._token}-clear-{at}",
                command="",
                argv=("/bin/rm", "-rf", "--", self._private, *names[at : at + _REMOVED_AT_ONCE]),
                cwd="/",
                user=_ROOT,
                timeout_seconds=_REMOVE_SECONDS,
                strict=True,
            )
            await completed(self._tools, await host.exec(devbox_id, request))


@contextlib.asynccontextmanager
async def room_in(tools: Tools, place: Place, *, stays: bool = False) -> AsyncIterator[DevboxRoom]:
    """A room in a devbox that runs; with `stays` the devbox goes on, and nothing of the scorer is left."""
    room = DevboxRoom(
        tools, place, place.working_directory or await home_of(tools, place.devbox_id, place.user)
    )
    try:
        if place.answer:
            await room.offer(place.answer)
        yield room
    finally:
        if stays:
            with contextlib.suppress(BenchyardError):
                await uninterrupted(room.leave())


async def clear_rooms(tools: Tools, devbox_id: str) -> None:
    """Take away what scorers kept in a devbox that a killed server graded in; none may be at work there."""
    request = ExecRequest(
        id=f"{SCORING_PREFIX}sweep-{secrets.token_hex(8)}",
        command="",
        argv=("/bin/sh", "-c", f"rm -rf -- {_PRIVATE}{'?' * 16}"),
        cwd="/",
        user=_ROOT,
        timeout_seconds=_REMOVE_SECONDS,
        strict=True,
    )
    await completed(tools, await tools.host.exec(devbox_id, request))


def _read(descriptor: int, limit: int) -> bytes:
    """What a file holds, and a byte more than the limit where it holds more."""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit + 1)
