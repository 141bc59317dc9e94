"""Terminals for the API: named sessions with one client at a time, kept for a while without one.

A session is an execution on a terminal. Its output file is the stream, so a returning client sees all output
printed meanwhile; the id of the execution is made from the session's name, so sessions outlive the server.
"""

import asyncio
import hashlib
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from benchyard.devboxes.base import Kill, Resize, Signal, Stdin
from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.commands import PTY_PREFIX
from benchyard.engine.devboxes.service import Devboxes
from benchyard.engine.ids import random_id
from benchyard.errors import BenchyardError, Conflict, NotFound, UsageError
from benchyard.hosts.host import ExecRequest
from benchyard.models.devboxes import SESSION_NAME, DevboxStatus, PtyControlRequest

IDLE_TTL_SECONDS = 600
REPLAY_BYTES = 64 * 1024
DEFAULT_SIZE = (80, 24)
MAX_SIZE = 1000
SWEEP_SECONDS = 5.0
CLOSE_SECONDS = 5.0
_INPUT_BYTES = 64 * 1024


@dataclass
class TerminalSession:
    """Terminal session, and whether a client is attached."""

    devbox_id: str
    name: str
    execution_id: str
    size: tuple[int, int] = DEFAULT_SIZE
    is_attached: bool = False
    left_ms: int = field(default_factory=now_ms)


class Terminals:
    """The terminals of all devboxes."""

    def __init__(self, tools: EngineContext, devboxes: Devboxes) -> None:
        self._tools = tools
        self._host = tools.host
        self._devboxes = devboxes
        self._sessions: dict[tuple[str, str], TerminalSession] = {}
        self._making = asyncio.Lock()

    async def open(self) -> None:
        """Load the sessions that still run, and start the sweep of abandoned ones."""
        for devbox in self._tools.live_devboxes.live():
            if devbox.status is DevboxStatus.RUNNING:
                for state in self._host.under_way(devbox.id):
                    if state.id.startswith(PTY_PREFIX):
                        # The name is unknown until a client asks for it.
                        self._sessions[devbox.id, state.id] = TerminalSession(devbox.id, state.id, state.id)
        self._tools.work.repeat("pty/sweep", self._sweep, SWEEP_SECONDS, "closing abandoned terminals")

    async def connect(
        self, devbox_id: str, name: str, size: tuple[int, int] | None
    ) -> tuple[TerminalSession, bool]:
        """Return the session with this name, made if it is missing, and whether it is new."""
        check_name(name)
        await self._devboxes.running(devbox_id)
        async with self._making:
            session = await self._find(devbox_id, name)
            is_new = session is None
            if session is None:
                session = await self._make(devbox_id, name, size or DEFAULT_SIZE)
            elif size:
                await self._resize(session, size)
        return session, is_new

    async def control(self, devbox_id: str, name: str, request: PtyControlRequest) -> str:
        """Resize, signal or close a session; returns the result."""
        check_name(name)
        await self._devboxes.running(devbox_id)
        session = await self._find(devbox_id, name)
        if session is None:
            raise NotFound(f"devbox {devbox_id} has no terminal session {name}; connect to it first")
        if request.action == "resize":
            size = valid_size(request.cols, request.rows)
            if size is None:
                raise UsageError(f"resize needs cols and rows from 1 to {MAX_SIZE}")
            await self._resize(session, size)
            return "resized"
        if request.action == "signal":
            number = getattr(signal.Signals, request.signal or "", None)
            if not isinstance(number, signal.Signals):
                raise UsageError(
                    f"no such signal: {(request.signal or '')[:32]!r}; give a name such as SIGTERM",
                    field="signal",
                )
            if not await self._host.control(devbox_id, session.execution_id, Signal(number)):
                raise UsageError(f"the shell of terminal session {session.name} has ended")
            return "signaled"
        await self._close(session)
        return "closed"

    @asynccontextmanager
    async def attach(self, devbox_id: str, name: str) -> AsyncIterator[TerminalSession]:
        """Attach as the one client of a session; raises Conflict if there is one already, NotFound."""
        await self._devboxes.running(devbox_id)
        session = await self._find(devbox_id, name)
        if session is None:
            raise NotFound(f"devbox {devbox_id} has no terminal session {name}; GET /pty/{name} makes it")
        if session.is_attached:
            raise Conflict(f"another client is attached to terminal session {name}")
        session.is_attached = True
        try:
            yield session
        finally:
            session.is_attached = False
            session.left_ms = now_ms()

    async def output(self, session: TerminalSession) -> AsyncIterator[bytes]:
        """Yield the terminal's last output, then all new output until its shell has ended."""
        state = await self._host.execution(session.devbox_id, session.execution_id)
        offset = max(0, state.stdout_bytes - REPLAY_BYTES)
        async for data in self._host.output(session.devbox_id, session.execution_id, "stdout", offset):
            yield data

    async def type(self, session: TerminalSession, data: bytes) -> bool:
        """Send input; False when the shell has ended."""
        await self._devboxes.running(session.devbox_id)
        for start in range(0, len(data), _INPUT_BYTES):
            piece = Stdin(data[start : start + _INPUT_BYTES])
            if not await self._host.control(session.devbox_id, session.execution_id, piece):
                return False
        return True

    async def exit_status(self, session: TerminalSession) -> int | None:
        """Return the exit status of the shell, or None while it runs."""
        return (await self._host.execution(session.devbox_id, session.execution_id)).exit_status

    async def _find(self, devbox_id: str, name: str) -> TerminalSession | None:
        session = self._sessions.get((devbox_id, name))
        if session is None:
            prefix = _execution_prefix(name)
            for state in await self._host.executions(devbox_id):
                if state.id.startswith(prefix) and state.status != "completed":
                    self._sessions.pop((devbox_id, state.id), None)
                    session = TerminalSession(devbox_id, name, state.id)
                    self._sessions[devbox_id, name] = session
            return session
        state = await self._host.execution(devbox_id, session.execution_id)
        if state.status == "completed":
            self._forget(session)
            return None
        return session

    async def _make(self, devbox_id: str, name: str, size: tuple[int, int]) -> TerminalSession:
        session = TerminalSession(devbox_id, name, random_id(_execution_prefix(name)), size)
        await self._host.exec(devbox_id, ExecRequest(id=session.execution_id, command="", pty=size))
        self._sessions[devbox_id, name] = session
        return session

    async def _resize(self, session: TerminalSession, size: tuple[int, int]) -> None:
        await self._host.control(session.devbox_id, session.execution_id, Resize(*size))
        session.size = size

    async def _close(self, session: TerminalSession) -> None:
        self._forget(session)
        await self._host.control(session.devbox_id, session.execution_id, Signal(signal.SIGHUP))
        await self._host.control(session.devbox_id, session.execution_id, Kill(tree=False))
        # Wait: until its end, the shell would be found again as a session with that name.
        await self._host.wait(session.devbox_id, session.execution_id, CLOSE_SECONDS)

    def _forget(self, session: TerminalSession) -> None:
        if self._sessions.get((session.devbox_id, session.name)) is session:
            del self._sessions[session.devbox_id, session.name]

    async def _sweep(self) -> None:
        for session in list(self._sessions.values()):
            try:
                if session.is_attached:
                    await self._devboxes.running(session.devbox_id)
                elif now_ms() - session.left_ms > IDLE_TTL_SECONDS * 1000:
                    await self._close(session)
            except BenchyardError:
                # The devbox is suspended or has ended, and its terminals with it.
                self._forget(session)


def check_name(name: str) -> None:
    """Refuse an invalid session name."""
    if not re.fullmatch(SESSION_NAME, name):
        raise UsageError("a terminal session's name has 1 to 256 letters, digits, '-' and '_'")


def valid_size(columns: int | None, rows: int | None) -> tuple[int, int] | None:
    """Return the size of a terminal, or None unless both are given and in range."""
    if columns is None or rows is None:
        return None
    return (columns, rows) if 1 <= columns <= MAX_SIZE and 1 <= rows <= MAX_SIZE else None


def _execution_prefix(name: str) -> str:
    return f"{PTY_PREFIX}{hashlib.sha256(name.encode()).hexdigest()[:24]}-"
