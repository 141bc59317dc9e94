"""Logs for the API: notes of the engine and output of executions, in order and bounded."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.commands import log_source_of
from benchyard.engine.devboxes.executions import TextDecoder
from benchyard.engine.devboxes.states import ENDED
from benchyard.errors import NotFound
from benchyard.hosts.host import ExecutionState
from benchyard.models.executions import LogLine, StreamName

MAX_EXECUTIONS = 200
LINES_EACH = 100
LINES_ONE = 5000
MAX_LINE = 8192
MOST_LINES = 20_000
MOST_CHARACTERS = 4 * 1024**2
"""Of the lines of one answer: the newest executions are shown as far as these go."""
READ_BYTES = 256 * 1024
READ_LINES = 2000
"""Most lines that a follower reads of a stream before it looks at the next one."""
_BATCH = 100
POLL_SECONDS = 0.5
_STREAMS: tuple[tuple[StreamName, str], ...] = (("stdout", "info"), ("stderr", "error"))


class Logs:
    """The logs of all devboxes."""

    def __init__(self, tools: EngineContext) -> None:
        self._tools = tools

    async def lines(self, devbox_id: str, execution_id: str | None, shell_name: str | None) -> list[LogLine]:
        """Return the log, oldest first: the newest lines of the newest executions."""
        await self._tools.live_devboxes.get(devbox_id)
        states = await self._states(devbox_id)
        if execution_id is not None:
            states = [state for state in states if state.id == execution_id]
            if not states:
                raise NotFound(f"devbox {devbox_id} has no execution {execution_id[:200]}")
        if shell_name is not None:
            states = [state for state in states if state.shell_name == shell_name]
        is_whole = execution_id is None and shell_name is None
        found = await asyncio.to_thread(self._tools.journal.lines, devbox_id) if is_whole else []
        each = LINES_EACH if execution_id is None else LINES_ONE
        lines, characters = MOST_LINES, MOST_CHARACTERS
        # The newest executions first, since only so many lines are shown; each of them is shown whole.
        parts: list[list[LogLine]] = []
        for state in reversed(states[-MAX_EXECUTIONS:]):
            parts.append(await self._lines_of(state, each))
            lines -= len(parts[-1])
            characters -= sum(len(line.message or "") + len(line.cmd or "") for line in parts[-1])
            if lines <= 0 or characters <= 0:
                break
        for part in reversed(parts):
            found += part
        return sorted(found, key=lambda line: line.timestamp_ms)

    async def follow(self, devbox_id: str) -> AsyncIterator[LogLine]:
        """Yield new lines from now on, until the devbox has ended."""
        await self._tools.live_devboxes.get(devbox_id)
        follower = _Follower(self._tools, devbox_id)
        await follower.skip()
        return follower.lines()

    async def _states(self, devbox_id: str) -> list[ExecutionState]:
        try:
            return await self._tools.host.executions(devbox_id)
        except NotFound:
            # The devbox ended before the host knew it.
            return []

    async def _lines_of(self, state: ExecutionState, limit: int) -> list[LogLine]:
        found = [_begin(state)]
        for stream, level in _STREAMS:
            text, _ = await self._tools.host.tail(state.devbox_id, state.id, stream, limit)
            found += await asyncio.to_thread(_outputs, state, text, level)
        if state.status == "completed":
            found.append(_end(state))
        return found


@dataclass
class _ReadPosition:
    offsets: dict[str, int] = field(default_factory=dict)
    is_ended: bool = False


class _Follower:
    """Position of a reader in a growing log."""

    def __init__(self, tools: EngineContext, devbox_id: str) -> None:
        self._tools = tools
        self._devbox_id = devbox_id
        self._positions: dict[str, _ReadPosition] = {}
        self._noted = 0
        self._is_behind = False
        """True if there was more to be read than is read at once."""

    async def skip(self) -> None:
        """Skip all present lines."""
        self._noted = len(await asyncio.to_thread(self._tools.journal.lines, self._devbox_id))
        for state in await self._tools.host.executions(self._devbox_id):
            offsets = {"stdout": state.stdout_bytes, "stderr": state.stderr_bytes}
            self._positions[state.id] = _ReadPosition(offsets, is_ended=state.status == "completed")

    async def lines(self) -> AsyncIterator[LogLine]:
        """Yield new lines until the devbox has ended."""
        while True:
            devbox = await self._tools.live_devboxes.get(self._devbox_id)
            found = await self._new()
            for at, line in enumerate(found):
                yield line
                if at % _BATCH == _BATCH - 1:
                    await asyncio.sleep(0)
            if self._is_behind:
                continue
            if devbox.status in ENDED:
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _new(self) -> list[LogLine]:
        self._is_behind = False
        notes = await asyncio.to_thread(self._tools.journal.lines, self._devbox_id)
        found = notes[self._noted :] if len(notes) >= self._noted else notes
        self._noted = len(notes)
        for state in await self._tools.host.executions(self._devbox_id):
            found += await self._new_of(state)
        return found

    async def _new_of(self, state: ExecutionState) -> list[LogLine]:
        position = self._positions.get(state.id)
        if position is None:
            position = self._positions[state.id] = _ReadPosition()
            found = [_begin(state)]
        elif position.is_ended:
            return []
        else:
            found = []
        for stream, level in _STREAMS:
            text = await self._read(state, stream, position)
            found += await asyncio.to_thread(_outputs, state, text, level)
        at_end = position.offsets.get("stdout", 0) >= state.stdout_bytes
        at_end = at_end and position.offsets.get("stderr", 0) >= state.stderr_bytes
        if state.status == "completed" and at_end:
            position.is_ended = True
            found.append(_end(state))
        return found

    async def _read(self, state: ExecutionState, stream: StreamName, position: _ReadPosition) -> str:
        start = position.offsets.get(stream, 0)
        data = bytearray()
        async for piece in self._tools.host.output(state.devbox_id, state.id, stream, start, follow=False):
            data += piece
            if len(data) >= READ_BYTES:
                break
        is_last = state.status == "completed" and len(data) < READ_BYTES
        cut = _end_of_lines(data, READ_LINES)
        if cut < len(data):
            del data[cut:]
            is_last = False
            self._is_behind = True
        chunk = TextDecoder(start).feed(bytes(data), final=is_last)
        if chunk is None:
            return ""
        position.offsets[stream] = chunk.offset
        return chunk.output


def _begin(state: ExecutionState) -> LogLine:
    return LogLine(
        source=log_source_of(state.id),
        timestamp_ms=state.start_ms,
        cmd=state.command[:MAX_LINE],
        cmd_id=state.id,
        shell_name=state.shell_name,
    )


def _end(state: ExecutionState) -> LogLine:
    return LogLine(
        level="info" if state.exit_status == 0 else "error",
        source=log_source_of(state.id),
        timestamp_ms=state.end_ms or state.start_ms,
        cmd_id=state.id,
        exit_code=state.exit_status,
        shell_name=state.shell_name,
        message=state.hint,
    )


def _end_of_lines(data: bytearray, count: int) -> int:
    """Return where so many lines end, or the end of the data."""
    if data.count(b"\n") <= count:
        return len(data)
    at = 0
    for _ in range(count):
        at = data.index(b"\n", at) + 1
    return at


def _outputs(state: ExecutionState, text: str, level: str) -> list[LogLine]:
    """Return the lines of an output; only a line feed ends one, as when they are counted."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [_output(state, line.removesuffix("\r"), level) for line in lines]


def _output(state: ExecutionState, text: str, level: str) -> LogLine:
    # Output lines carry no times: those of a command are placed between its begin and its end.
    return LogLine(
        level=level,
        source=log_source_of(state.id),
        timestamp_ms=state.end_ms or state.start_ms,
        message=text[:MAX_LINE],
        cmd_id=state.id,
        shell_name=state.shell_name,
    )
