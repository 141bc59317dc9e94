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
from benchyard.client.waiting import insist
from benchyard.errors import ServerUnreachable
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
        return (yield from start(devbox_id, request))

    @call
    def get(self, devbox_id: str, execution_id: str) -> Steps[ExecutionView]:
        """Look one up; raises NotFound."""
        return (yield from get(devbox_id, execution_id))

    @call
    def wait(self, devbox_id: str, execution_id: str, timeout: float | None = None) -> Steps[ExecutionView]:
        """Wait until it has completed; raises StillWaiting when the time is over."""
        return (yield from wait_for(devbox_id, execution_id, timeout))

    @call
    def kill(self, devbox_id: str, execution_id: str, *, tree: bool = True) -> Steps[ExecutionView]:
        """Kill it; with `tree` also all it started."""
        return (yield from kill(devbox_id, execution_id, tree=tree))

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
    """Run a command to its end, and fetch its whole output."""
    view = yield from finish(devbox_id, command, shell_name, None)
    return ExecutionResult(
        devbox_id=devbox_id,
        execution_id=view.execution_id,
        exit_status=0 if view.exit_status is None else view.exit_status,
        stdout=(yield from whole_output(view, "stdout")),
        stderr=(yield from whole_output(view, "stderr")),
        hint=view.hint,
    )


def finish(
    devbox_id: str, command: str, shell_name: str | None, timeout: float | None
) -> Steps[ExecutionView]:
    """Run a command to its end; the id chosen here makes asking again safe."""
    deadline = None if timeout is None else time.monotonic() + timeout
    request = ExecuteWithIdRequest(
        command=command,
        command_id=_time_ordered_uuid(),
        shell_name=shell_name,
        optimistic_timeout=OPTIMISTIC_SECONDS if timeout is None else int(min(OPTIMISTIC_SECONDS, timeout)),
    )
    view = yield from fetch(
        Request("POST", at("/v1/devboxes/{}/execute", devbox_id), json=request), ExecutionView
    )
    if view.status == "completed":
        return view
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    return (yield from wait_for(devbox_id, view.execution_id, left))


def start(devbox_id: str, request: ExecuteRequest) -> Steps[ExecutionView]:
    """Start a command."""
    path = at("/v1/devboxes/{}/execute_async", devbox_id)
    return (yield from fetch(Request("POST", path, json=request), ExecutionView))


def wait_for(devbox_id: str, execution_id: str, timeout: float | None) -> Steps[ExecutionView]:
    """Ask again and again, by long-polls, until the execution has completed."""
    path = _path(devbox_id, execution_id) + "/wait_for_status"

    def ask(hold: float) -> Steps[ExecutionView]:
        wanted = ExecutionWaitRequest(statuses=["completed"], timeout_seconds=hold)
        return (yield from fetch(Request("POST", path, json=wanted, long_poll=True), ExecutionView))

    return (yield from insist(ask, timeout))


def get(devbox_id: str, execution_id: str) -> Steps[ExecutionView]:
    """Look an execution up."""
    return (yield from fetch(Request("GET", _path(devbox_id, execution_id)), ExecutionView))


def kill(devbox_id: str, execution_id: str, *, tree: bool) -> Steps[ExecutionView]:
    """Kill an execution."""
    request = Request(
        "POST", _path(devbox_id, execution_id) + "/kill", json=KillRequest(kill_process_group=tree)
    )
    return (yield from fetch(request, ExecutionView))


def whole_output(view: ExecutionView, stream: StreamName) -> Steps[str]:
    """All that a command printed: the answer holds the last lines; where some were cut, all are fetched."""
    is_cut = view.stdout_truncated if stream == "stdout" else view.stderr_truncated
    if not is_cut:
        return (view.stdout if stream == "stdout" else view.stderr) or ""
    return (yield from output_from(view, stream, 0)).decode(errors="replace")


def output_from(view: ExecutionView, stream: StreamName, offset: int) -> Steps[bytes]:
    """What there is of a command's output now, from an offset on."""
    path = _path(view.devbox_id, view.execution_id) + at("/output/{}", stream)
    request = Request("GET", path, {"offset": offset, "follow": False}, timeout=TRANSFER_TIMEOUT)
    return (yield from send(request)).content


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
