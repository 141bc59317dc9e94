"""Executions: commands in a devbox, their input and their output; and those of one devbox as objects."""

import codecs
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypedDict, Unpack

import httpx

from benchyard.client.methods import S, VerbGroup, call, items
from benchyard.client.operations import (
    RETRIES,
    TRANSFER_TIMEOUT,
    Emit,
    Flow,
    Request,
    Steps,
    at,
    backoff,
    fetch,
    long_poll,
    open_body,
    pause,
    read,
    send,
)
from benchyard.client.sessions import Spawned
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

OPTIMISTIC_SECONDS = 20
SILENCE_SECONDS = 60.0


@dataclass(frozen=True)
class ExecutionResult:
    """A command that has ended, with its whole output."""

    devbox_id: str
    execution_id: str
    exit_status: int
    stdout: str
    stderr: str
    hint: str | None = None
    """Advice on the result, if there is any."""


class Executions(VerbGroup[S]):
    """The executions of a server's devboxes."""

    @call
    def run(self, devbox_id: str, command: str, shell_name: str | None = None) -> Steps[ExecutionResult]:
        """Run a command to its end and return its exit status and its whole output."""
        view = yield from self.execute.steps(devbox_id, command, shell_name)
        return ExecutionResult(
            devbox_id=devbox_id,
            execution_id=view.execution_id,
            exit_status=0 if view.exit_status is None else view.exit_status,
            stdout=(yield from whole_output(view, "stdout")),
            stderr=(yield from whole_output(view, "stderr")),
            hint=view.hint,
        )

    @call
    def execute(
        self, devbox_id: str, command: str, shell_name: str | None = None, timeout: float | None = None
    ) -> Steps[ExecutionView]:
        """Run a command to its end; the answer holds the last lines of a long output only."""
        deadline = None if timeout is None else time.monotonic() + timeout
        seconds = OPTIMISTIC_SECONDS if timeout is None else int(min(OPTIMISTIC_SECONDS, timeout))
        # Its id is chosen here, so that a repeated request does not run it twice.
        body = ExecuteWithIdRequest(
            command=command,
            command_id=_time_ordered_uuid(),
            shell_name=shell_name,
            optimistic_timeout=seconds,
        )
        request = Request("POST", at("/v1/devboxes/{}/execute", devbox_id), json=body)
        view = yield from fetch(request, ExecutionView)
        if view.status == "completed":
            return view
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        return (yield from self.wait.steps(devbox_id, view.execution_id, left))

    @call
    def start(self, devbox_id: str, request: ExecuteRequest) -> Steps[ExecutionView]:
        """Start a command."""
        path = at("/v1/devboxes/{}/execute_async", devbox_id)
        return (yield from fetch(Request("POST", path, json=request), ExecutionView))

    @call
    def get(self, devbox_id: str, execution_id: str) -> Steps[ExecutionView]:
        """Look an execution up; raises NotFound."""
        return (yield from fetch(Request("GET", _execution_path(devbox_id, execution_id)), ExecutionView))

    @call
    def wait(self, devbox_id: str, execution_id: str, timeout: float | None = None) -> Steps[ExecutionView]:
        """Wait until an execution has completed; raises StillWaiting after the timeout."""
        path = _execution_path(devbox_id, execution_id) + "/wait_for_status"

        def ask(hold: float) -> Steps[ExecutionView]:
            wanted = ExecutionWaitRequest(statuses=["completed"], timeout_seconds=hold)
            return (yield from fetch(Request("POST", path, json=wanted, long_poll=True), ExecutionView))

        return (yield from long_poll(ask, timeout))

    @call
    def kill(self, devbox_id: str, execution_id: str, *, tree: bool = True) -> Steps[ExecutionView]:
        """Kill an execution; with `tree` also all processes it started."""
        path = _execution_path(devbox_id, execution_id) + "/kill"
        request = Request("POST", path, json=KillRequest(kill_process_group=tree))
        return (yield from fetch(request, ExecutionView))

    @call
    def send_stdin(self, devbox_id: str, execution_id: str, request: StdInRequest) -> Steps[StdInResult]:
        """Send text, end of file or an interrupt to an execution that was started with `attach_stdin`."""
        path = _execution_path(devbox_id, execution_id) + "/send_std_in"
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
        """Yield raw bytes of `stdout` or `stderr` from an offset; with `follow` until the execution ends."""
        path = _execution_path(devbox_id, execution_id) + at("/output/{}", stream)
        yield from _raw(path, offset, follow=follow)


def whole_output(view: ExecutionView, stream: StreamName) -> Steps[str]:
    """Return all output of a command: the answer holds the last lines; all are fetched if some were cut."""
    is_cut = view.stdout_truncated if stream == "stdout" else view.stderr_truncated
    if not is_cut:
        return (view.stdout if stream == "stdout" else view.stderr) or ""
    return (yield from output_from(view, stream, 0)).decode(errors="replace")


def output_from(view: ExecutionView, stream: StreamName, offset: int) -> Steps[bytes]:
    """Return the present output of a command, from an offset on."""
    path = _execution_path(view.devbox_id, view.execution_id) + at("/output/{}", stream)
    request = Request("GET", path, {"offset": offset, "follow": False}, timeout=TRANSFER_TIMEOUT)
    return (yield from send(request)).content


def _raw(path: str, offset: int, *, follow: bool) -> Flow[bytes]:
    """Yield the bytes from an offset on, over as many connections as needed.

    A stopping server ends its streams as if they were complete, so a followed stream is over only when asking
    again brings no more bytes.
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


def _execution_path(devbox_id: str, execution_id: str) -> str:
    return at("/v1/devboxes/{}/executions/{}", devbox_id, execution_id)


def _time_ordered_uuid() -> uuid.UUID:
    """Return a version 7 UUID: the time in milliseconds, then random bits."""
    chance = uuid.uuid4().int & ((1 << 80) - 1)
    bits = (time.time_ns() // 1_000_000 & ((1 << 48) - 1)) << 80 | chance
    bits = bits & ~(0xF << 76) | 0x7 << 76
    return uuid.UUID(int=bits & ~(0b11 << 62) | 0b10 << 62)


OnText = Callable[[str], None]
"""Called with the output of a command, as it comes."""

LOOK_SECONDS = 0.25
"""Longest time that output waits before the callbacks are called."""

LISTENER_SECONDS = 0.02


class StartOptions(TypedDict, total=False):
    """Options of starting a command, and callbacks for its output."""

    shell_name: str | None
    """Name of a shell that keeps directory and environment from command to command."""
    attach_stdin: bool | None
    """True if text can be sent to it while it runs."""
    stdout: OnText | None
    stderr: OnText | None
    output: OnText | None
    """Called with the text of both streams."""


class ExecOptions(StartOptions, total=False):
    """Options of running a command to its end."""

    timeout: float | None
    """Seconds to wait; the command goes on afterwards."""


class CommandResult(VerbGroup[S]):
    """A command that has ended."""

    def __init__(self, session: S, view: ExecutionView) -> None:
        super().__init__(session)
        self.result = view
        self.devbox_id = view.devbox_id
        self.execution_id = view.execution_id
        self.exit_code = view.exit_status
        self.hint = view.hint
        """Advice on the result, if there is any."""

    def __repr__(self) -> str:
        return f"<CommandResult {self.execution_id} exit_code={self.exit_code}>"

    @property
    def success(self) -> bool:
        """Tell whether the command ended with 0."""
        return self.exit_code == 0

    @property
    def failed(self) -> bool:
        """Tell whether the command ended with another status than 0."""
        return self.exit_code not in (0, None)

    @call
    def stdout(self, num_lines: int | None = None) -> Steps[str]:
        """Return its whole standard output, or the last lines of it."""
        return _last((yield from whole_output(self.result, "stdout")), num_lines)

    @call
    def stderr(self, num_lines: int | None = None) -> Steps[str]:
        """Return its whole standard error, or the last lines of it."""
        return _last((yield from whole_output(self.result, "stderr")), num_lines)


class Execution(VerbGroup[S]):
    """A command that was started."""

    def __init__(self, session: S, view: ExecutionView, listener: Spawned | None = None) -> None:
        super().__init__(session)
        self.devbox_id = view.devbox_id
        self.execution_id = view.execution_id
        self._executions: Executions[S] = Executions(session)
        self._listener = listener

    def __repr__(self) -> str:
        return f"<Execution {self.execution_id}>"

    @call
    def get_state(self) -> Steps[ExecutionView]:
        """Return its present state."""
        return (yield from self._executions.get.steps(self.devbox_id, self.execution_id))

    @call
    def result(self, timeout: float | None = None) -> Steps[CommandResult[S]]:
        """Wait for its end, and until the callbacks had its output; raises StillWaiting after the timeout."""
        view = yield from self._executions.wait.steps(self.devbox_id, self.execution_id, timeout)
        while self._listener is not None and not self._listener.is_done:
            yield from pause(LISTENER_SECONDS)
        if self._listener is not None and self._listener.error is not None:
            raise self._listener.error
        return CommandResult(self.session, view)

    @call
    def kill(self) -> Steps[ExecutionView]:
        """Kill it and all processes it started."""
        return (yield from self._executions.kill.steps(self.devbox_id, self.execution_id))


class Commands(VerbGroup[S]):
    """The commands of a devbox; those of a named shell follow each other."""

    def __init__(self, session: S, devbox_id: str, shell_name: str | None = None) -> None:
        super().__init__(session)
        self._devbox_id = devbox_id
        self._shell_name = shell_name
        self._executions: Executions[S] = Executions(session)

    def __repr__(self) -> str:
        return f"<Commands of {self._devbox_id}>"

    @call
    def exec(self, command: str, **options: Unpack[ExecOptions]) -> Steps[CommandResult[S]]:
        """Run a command to its end, by default without a time limit; callbacks get its output meanwhile."""
        shell = options.get("shell_name") or self._shell_name
        timeout = options.get("timeout")
        if not _is_heard(options) and not options.get("attach_stdin"):
            view = yield from self._executions.execute.steps(self._devbox_id, command, shell, timeout)
            return CommandResult(self.session, view)
        begun = yield from self._begin(command, options)
        view = yield from _wait_and_tell(self._executions, begun, options, timeout)
        return CommandResult(self.session, view)

    @call
    def exec_async(self, command: str, **options: Unpack[StartOptions]) -> Steps[Execution[S]]:
        """Start a command and return at once; callbacks receive its output as it comes."""
        begun = yield from self._begin(command, options)
        listener = None
        if _is_heard(options):
            listener = self.session.spawn(_listen(self._executions, begun, options))
        return Execution(self.session, begun, listener)

    def _begin(self, command: str, options: StartOptions) -> Steps[ExecutionView]:
        request = ExecuteRequest(
            command=command,
            shell_name=options.get("shell_name") or self._shell_name,
            attach_stdin=options.get("attach_stdin"),
        )
        return (yield from self._executions.start.steps(self._devbox_id, request))


class _Ear:
    """Remembers how much of one stream the listeners received, and passes on the rest."""

    def __init__(self, stream: StreamName, listeners: list[OnText]) -> None:
        self._stream = stream
        self._listeners = listeners
        self._offset = 0
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode

    def listen(self, view: ExecutionView, *, is_last: bool) -> Steps[None]:
        if not self._listeners:
            return
        piece = yield from output_from(view, self._stream, self._offset)
        self._offset += len(piece)
        text = self._decode(piece, is_last)
        for heard in self._listeners if text else ():
            heard(text)


def _is_heard(options: StartOptions) -> bool:
    return any(options.get(name) for name in ("stdout", "stderr", "output"))


def _ears(options: StartOptions) -> Iterator[_Ear]:
    both = options.get("output")
    yield _Ear("stdout", [each for each in (options.get("stdout"), both) if each])
    yield _Ear("stderr", [each for each in (options.get("stderr"), both) if each])


def _listen(executions: Executions[S], begun: ExecutionView, options: StartOptions) -> Steps[None]:
    yield from _wait_and_tell(executions, begun, options, None)


def _wait_and_tell(
    executions: Executions[S], begun: ExecutionView, options: StartOptions, timeout: float | None
) -> Steps[ExecutionView]:
    """Wait for the end of a command, and pass its output on meanwhile."""
    ears = list(_ears(options))
    waited = 0.0
    while True:
        try:
            view = yield from executions.wait.steps(begun.devbox_id, begun.execution_id, LOOK_SECONDS)
        except StillWaiting:
            view = begun
            waited += LOOK_SECONDS
            if timeout is not None and waited >= timeout:
                raise
        is_last = view.status == "completed"
        for ear in ears:
            yield from ear.listen(view, is_last=is_last)
        if is_last:
            return view


def _last(text: str, lines: int | None) -> str:
    if lines is None:
        return text
    return "\n".join(text.rstrip("\n").split("\n")[-lines:]) if lines > 0 else ""
