"""Executions for the API: start, await, feed and kill commands; their output as text."""

import codecs
import hashlib
import json
import signal
from collections.abc import AsyncIterator

from benchyard.devboxes.base import Kill, Signal, Stdin
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.commands import wait_for_completion
from benchyard.engine.devboxes.service import Devboxes
from benchyard.errors import StillWaiting, UsageError
from benchyard.hosts.host import ExecRequest, ExecutionState
from benchyard.models.executions import (
    ExecuteRequest,
    ExecuteWithIdRequest,
    ExecutionResultView,
    ExecutionView,
    ExecutionWaitRequest,
    OutputChunk,
    StdInRequest,
    StdInResult,
    StreamName,
)

CHUNK_BYTES = 64 * 1024


class TextDecoder:
    """Decodes bytes to text, and tracks the byte offset at the end of the text it has returned."""

    def __init__(self, offset: int) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._read = offset

    def feed(self, data: bytes, *, final: bool = False) -> OutputChunk | None:
        """Return the next piece of text, or None while only the start of a character is there."""
        text = self._decoder.decode(data, final)
        self._read += len(data)
        if not text:
            return None
        return OutputChunk(output=text, offset=self._read - len(self._decoder.getstate()[0]))


async def text_chunks(output: AsyncIterator[bytes], offset: int) -> AsyncIterator[OutputChunk]:
    """Yield the text of an output stream, in bounded pieces."""
    cutter = TextDecoder(offset)
    async for data in output:
        for start in range(0, len(data), CHUNK_BYTES):
            chunk = cutter.feed(data[start : start + CHUNK_BYTES])
            if chunk:
                yield chunk
    last = cutter.feed(b"", final=True)
    if last:
        yield last


HOLD_SECONDS = 25.0
KILL_SECONDS = 5.0
DEFAULT_LINES = 100
MAX_LINES = 100_000
MAX_RESULT_BYTES = 16 * 1024**2
"""Most bytes of each output stream in the answer of a command that is waited for."""


class Executions:
    """The commands of all devboxes."""

    def __init__(self, tools: EngineContext, devboxes: Devboxes) -> None:
        self._tools = tools
        self._host = tools.host
        self._devboxes = devboxes

    async def start(self, devbox_id: str, caller: Caller, request: ExecuteRequest) -> ExecutionView:
        """Start a command and return at once."""
        state = await self._start(devbox_id, _exec_request(caller, request))
        return await self._view(state, DEFAULT_LINES)

    async def run(self, devbox_id: str, caller: Caller, request: ExecuteRequest) -> ExecutionResultView:
        """Run a command to its end, however long it takes."""
        if request.attach_stdin:
            raise UsageError("attach_stdin is not possible here; use execute_async")
        state = await self._start(devbox_id, _exec_request(caller, request))
        state = await wait_for_completion(self._tools, state)
        hint = state.hint
        if max(state.stdout_bytes, state.stderr_bytes) > MAX_RESULT_BYTES:
            hint = hint or f"Only the end of the output is shown; execution {state.id} has all of it."
        return ExecutionResultView(
            devbox_id=devbox_id,
            exit_status=state.exit_status or 0,
            stdout=await self._end(state, "stdout", state.stdout_bytes),
            stderr=await self._end(state, "stderr", state.stderr_bytes),
            shell_name=state.shell_name,
            hint=hint,
        )

    async def run_with_id(
        self, devbox_id: str, request: ExecuteWithIdRequest, last_n: str | None
    ) -> ExecutionView:
        """Run a command under the caller's id and wait a while for its end; the same id never runs twice."""
        lines = line_count(last_n)
        content = json.dumps([request.command, request.shell_name])
        state = await self._start(
            devbox_id,
            ExecRequest(
                id=str(request.command_id),
                command=request.command,
                shell_name=request.shell_name,
                request_hash=hashlib.sha256(content.encode()).hexdigest(),
            ),
        )
        seconds = HOLD_SECONDS if request.optimistic_timeout is None else request.optimistic_timeout
        return await self._view(await self._wait(state, seconds), lines)

    async def get(self, devbox_id: str, execution_id: str, last_n: str | None) -> ExecutionView:
        """Return an execution as it is; raises NotFound."""
        lines = line_count(last_n)
        return await self._view(await self._state(devbox_id, execution_id), lines)

    async def wait(
        self, devbox_id: str, execution_id: str, request: ExecutionWaitRequest, last_n: str | None
    ) -> ExecutionView:
        """Return an execution once it has one of the statuses; raises StillWaiting when the time is over."""
        lines = line_count(last_n)
        requested = request.timeout_seconds
        seconds = HOLD_SECONDS if requested is None else min(requested, HOLD_SECONDS)
        state = await self._state(devbox_id, execution_id)
        if state.status not in request.statuses:
            state = await self._wait(state, seconds)
        if state.status not in request.statuses:
            raise StillWaiting(f"execution {execution_id} is {state.status}; ask again", status=state.status)
        return await self._view(state, lines)

    async def kill(self, devbox_id: str, execution_id: str, *, group: bool) -> ExecutionView:
        """Kill a command, with `group` all it started; one that has ended stays as it is."""
        state = await self._state(devbox_id, execution_id)
        if state.status != "completed":
            await self._host.control(devbox_id, execution_id, Kill(tree=group))
            state = await self._host.wait(devbox_id, execution_id, KILL_SECONDS)
        return await self._view(state, DEFAULT_LINES)

    async def send(self, devbox_id: str, execution_id: str, request: StdInRequest) -> StdInResult:
        """Send text, then a signal, to a command; `success` is False when it has ended."""
        if request.text is None and request.signal is None:
            raise UsageError("give text, signal, or both")
        await self._state(devbox_id, execution_id)
        sent = True
        if request.text is not None:
            sent = await self._host.control(devbox_id, execution_id, Stdin(request.text.encode()))
        if request.signal == "EOF":
            sent = await self._host.control(devbox_id, execution_id, Stdin(close=True)) and sent
        elif request.signal == "INTERRUPT":
            sent = await self._host.control(devbox_id, execution_id, Signal(signal.SIGINT)) and sent
        return StdInResult(devbox_id=devbox_id, execution_id=execution_id, success=sent)

    async def stream(
        self, devbox_id: str, execution_id: str, stream: StreamName, offset: str | None
    ) -> AsyncIterator[OutputChunk]:
        """Return the text of an output from a byte offset, until the execution has completed."""
        start = byte_offset(offset)
        await self._state(devbox_id, execution_id)
        return text_chunks(self._host.output(devbox_id, execution_id, stream, start), start)

    async def raw(
        self, devbox_id: str, execution_id: str, stream: StreamName, offset: str | None, *, follow: bool
    ) -> AsyncIterator[bytes]:
        """Return the bytes of an output from an offset."""
        start = byte_offset(offset)
        await self._state(devbox_id, execution_id)
        return self._host.output(devbox_id, execution_id, stream, start, follow=follow)

    async def _start(self, devbox_id: str, request: ExecRequest) -> ExecutionState:
        if "\0" in request.command:
            raise UsageError("a command cannot hold a NUL character")
        await self._devboxes.running(devbox_id)
        return await self._host.exec(devbox_id, request)

    async def _state(self, devbox_id: str, execution_id: str) -> ExecutionState:
        await self._devboxes.get(devbox_id)
        return await self._host.execution(devbox_id, execution_id)

    async def _wait(self, state: ExecutionState, seconds: float) -> ExecutionState:
        if state.status == "completed" or seconds <= 0:
            return state
        return await self._host.wait(state.devbox_id, state.id, seconds)

    async def _end(self, state: ExecutionState, stream: StreamName, size: int) -> str:
        if not size:
            return ""
        if size < MAX_LINES:
            text, _ = await self._host.tail(state.devbox_id, state.id, stream, MAX_LINES)
            return text
        start = max(0, size - MAX_RESULT_BYTES)
        pieces = self._host.output(state.devbox_id, state.id, stream, start, follow=False)
        return b"".join([piece async for piece in pieces]).decode(errors="replace")

    async def _view(self, state: ExecutionState, lines: int) -> ExecutionView:
        fields = {
            "devbox_id": state.devbox_id,
            "execution_id": state.id,
            "status": state.status,
            "exit_status": state.exit_status,
            "shell_name": state.shell_name,
            "hint": state.hint,
        }
        if state.status != "completed":
            return ExecutionView.model_validate(fields)
        stdout, is_stdout_cut = await self._host.tail(state.devbox_id, state.id, "stdout", lines)
        stderr, is_stderr_cut = await self._host.tail(state.devbox_id, state.id, "stderr", lines)
        output = {
            "stdout": stdout,
            "stdout_truncated": is_stdout_cut or state.stdout_truncated,
            "stderr": stderr,
            "stderr_truncated": is_stderr_cut or state.stderr_truncated,
        }
        return ExecutionView.model_validate(fields | output)


def line_count(last_n: str | None) -> int:
    """Return the number of lines to show; raises UsageError for an invalid number."""
    if last_n is None:
        return DEFAULT_LINES
    if not (last_n.isascii() and last_n.isdigit() and len(last_n) < 10 and int(last_n) <= MAX_LINES):
        raise UsageError(f"last_n must be a number from 0 to {MAX_LINES}", field="last_n")
    return int(last_n)


def byte_offset(offset: str | None) -> int:
    """Return the byte offset at which to start in a stream; raises UsageError for an invalid one."""
    if not offset:
        return 0
    if not (offset.isascii() and offset.isdigit() and len(offset) < 16):
        raise UsageError("offset must be a number of bytes", field="offset")
    return int(offset)


def _exec_request(caller: Caller, request: ExecuteRequest) -> ExecRequest:
    return ExecRequest(
        id=caller.id,
        command=request.command,
        shell_name=request.shell_name,
        attach_stdin=bool(request.attach_stdin),
        request_hash=caller.request_hash,
    )
