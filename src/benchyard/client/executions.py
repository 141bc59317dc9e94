"""Executions: commands in a devbox, their input and their output."""

import time
import uuid
from dataclasses import dataclass

import httpx

from benchyard.client.core import (
    RETRIES,
    TRANSFER_TIMEOUT,
    Emit,
    Flow,
    Request,
    Steps,
    at,
    backoff,
    fetch,
    open_body,
    pause,
    read,
    send,
)
from benchyard.client.verbs import Group, S, call, items
from benchyard.errors import ServerUnreachable, StillWaiting
from benchyard.models.executions import (
    ExecuteRequest,
    ExecuteWithIdRequest,
    ExecutionView,
    ExecutionWaitRequest,
    KillRequest,
    StdInRequest,
    StdInResult,
    StreamName,
)

HOLD_SECONDS = 20
OPTIMISTIC_SECONDS = 20
SILENCE_SECONDS = 60.0


@dataclass(frozen=True)
class ExecutionResult:
    """A command that has ended, with all it printed."""

    devbox_id: str
    execution_id: str
    exit_status: int
    stdout: str
    stderr: str
    hint: str | None = None
    """What to do about it, where that can be told."""


class Executions(Group[S]):
    """The executions of a server's devboxes."""

    @call
    def run(self, devbox_id: str, command: str, shell_name: str | None = None) -> Steps[ExecutionResult]:
        """Run a command to its end and return its exit status and its whole output."""
        return (yield from run(devbox_id, command, shell_name))

    @call
    def start(self, devbox_id: str, request: ExecuteRequest) -> Steps[ExecutionView]:
        """Start a command."""
        path = at("/v1/devboxes/{}/execute_async", devbox_id)
        return (yield from fetch(Request("POST", path, json=request), ExecutionView))

    @call
    def get(self, devbox_id: str, execution_id: str) -> Steps[ExecutionView]:
        """Look one up; raises NotFound."""
        return (yield from fetch(Request("GET", _path(devbox_id, execution_id)), ExecutionView))

    @call
    def wait(self, devbox_id: str, execution_id: str, timeout: float | None = None) -> Steps[ExecutionView]:
        """Wait until it has completed; raises StillWaiting when the time is over."""
        return (yield from wait_for(devbox_id, execution_id, timeout))

    @call
    def kill(self, devbox_id: str, execution_id: str, *, tree: bool = True) -> Steps[ExecutionView]:
        """Kill it; with `tree` also all it started."""
        path = _path(devbox_id, execution_id) + "/kill"
        return (
            yield from fetch(Request("POST", path, json=KillRequest(kill_process_group=tree)), ExecutionView)
        )

    @call
    def send_stdin(self, devbox_id: str, execution_id: str, request: StdInRequest) -> Steps[StdInResult]:
        """Send text, end of file or an interrupt to one that was started with `attach_stdin`."""
        path = _path(devbox_id, execution_id) + "/send_std_in"
        return (yield from fetch(Request("POST", path, json=request), StdInResult))

    @items
    def stream(
        self,
        devbox_id: str,
        execution_id: str,
        stream: StreamName = "stdout",
        offset: int = 0,
        *,
        follow: bool = True,
    ) -> Flow[bytes]:
        """The raw bytes of `stdout` or `stderr` from an offset; with `follow` until it has completed."""
        path = _path(devbox_id, execution_id) + at("/output/{}", stream)
        yield from _raw(path, offset, follow=follow)


def run(devbox_id: str, command: str, shell_name: str | None) -> Steps[ExecutionResult]:
    """Run a command to its end; the id chosen here makes asking again safe."""
    request = ExecuteWithIdRequest(
        command=command,
        command_id=_time_ordered_uuid(),
        shell_name=shell_name,
        optimistic_timeout=OPTIMISTIC_SECONDS,
    )
    view = yield from fetch(
        Request("POST", at("/v1/devboxes/{}/execute", devbox_id), json=request), ExecutionView
    )
    if view.status != "completed":
        view = yield from wait_for(devbox_id, view.execution_id, None)
    return ExecutionResult(
        devbox_id=devbox_id,
        execution_id=view.execution_id,
        exit_status=0 if view.exit_status is None else view.exit_status,
        stdout=(yield from _whole(view, "stdout", view.stdout, cut=view.stdout_truncated)),
        stderr=(yield from _whole(view, "stderr", view.stderr, cut=view.stderr_truncated)),
        hint=view.hint,
    )


def wait_for(devbox_id: str, execution_id: str, timeout: float | None) -> Steps[ExecutionView]:
    """Ask again and again, by long-polls, until the execution has completed."""
    deadline = None if timeout is None else time.monotonic() + timeout
    path = _path(devbox_id, execution_id) + "/wait_for_status"
    while True:
        hold = HOLD_SECONDS if deadline is None else min(HOLD_SECONDS, deadline - time.monotonic())
        wanted = ExecutionWaitRequest(statuses=["completed"], timeout_seconds=max(hold, 0))
        try:
            return (yield from fetch(Request("POST", path, json=wanted, long_poll=True), ExecutionView))
        except StillWaiting:
            if deadline is not None and time.monotonic() >= deadline:
                raise


def _whole(view: ExecutionView, stream: StreamName, tail: str | None, *, cut: bool | None) -> Steps[str]:
    """The answer holds the last lines only; when some were left out, all are fetched."""
    if not cut:
        return tail or ""
    path = _path(view.devbox_id, view.execution_id) + at("/output/{}", stream)
    reply = yield from send(Request("GET", path, {"offset": 0, "follow": False}, timeout=TRANSFER_TIMEOUT))
    return reply.content.decode(errors="replace")


def _raw(path: str, offset: int, *, follow: bool) -> Flow[bytes]:
    """The bytes from an offset on, over as many connections as it takes.

    A server that stops ends its streams as if all was said, so a stream that was followed is over only when
    asking again brings nothing more.
    """
    failures = 0
    while failures <= RETRIES:
        begin = offset
        try:
            yield from open_body(
                Request("GET", path, {"offset": offset, "follow": follow}, timeout=SILENCE_SECONDS)
            )
            while chunk := (yield from read()):
                offset += len(chunk)
                failures = 0
                yield Emit(chunk)
        except httpx.ReadTimeout:
            continue
        except httpx.TransportError:
            failures += 1
            yield from pause(backoff(failures))
            continue
        if not follow or offset == begin:
            return
    raise ServerUnreachable("the output was cut again and again; is the server running?")


def _path(devbox_id: str, execution_id: str) -> str:
    return at("/v1/devboxes/{}/executions/{}", devbox_id, execution_id)


def _time_ordered_uuid() -> uuid.UUID:
    """A version 7 UUID: the time in milliseconds, then chance."""
    chance = uuid.uuid4().int & ((1 << 80) - 1)
    bits = (time.time_ns() // 1_000_000 & ((1 << 48) - 1)) << 80 | chance
    bits = bits & ~(0xF << 76) | 0x7 << 76
    return uuid.UUID(int=bits & ~(0b11 << 62) | 0b10 << 62)
