"""Commands of one devbox: run to their end, or started and looked after."""

import codecs
from collections.abc import Callable, Iterator
from typing import TypedDict, Unpack

from benchyard.client import executions
from benchyard.client.core import Steps, pause
from benchyard.client.sessions import Spawned
from benchyard.client.verbs import Group, S, call
from benchyard.errors import StillWaiting
from benchyard.models.executions import ExecuteRequest, ExecutionView, StreamName

Heard = Callable[[str], None]
"""Told what a command prints, as it comes."""

LOOK_SECONDS = 0.25
"""How long output waits at most before it is told."""

LISTENER_SECONDS = 0.02


class StartOptions(TypedDict, total=False):
    """How a command is started, and who is told what it prints."""

    shell_name: str | None
    """A shell that keeps directory and environment from command to command."""
    attach_stdin: bool | None
    """Whether text can be sent to it while it runs."""
    stdout: Heard | None
    stderr: Heard | None
    output: Heard | None
    """Told both."""


class ExecOptions(StartOptions, total=False):
    """How a command is run to its end."""

    timeout: float | None
    """How many seconds to wait; the command goes on all the same."""


class CommandResult(Group[S]):
    """A command that has ended."""

    def __init__(self, session: S, view: ExecutionView) -> None:
        super().__init__(session)
        self.result = view
        self.devbox_id = view.devbox_id
        self.execution_id = view.execution_id
        self.exit_code = view.exit_status
        self.hint = view.hint
        """What to do about it, where that can be told."""

    def __repr__(self) -> str:
        return f"<CommandResult {self.execution_id} exit_code={self.exit_code}>"

    @property
    def success(self) -> bool:
        """Whether it ended with 0."""
        return self.exit_code == 0

    @property
    def failed(self) -> bool:
        """Whether it ended with something else than 0."""
        return self.exit_code not in (0, None)

    @call
    def stdout(self, num_lines: int | None = None) -> Steps[str]:
        """All that it printed, or the last lines of it."""
        return _last((yield from executions.whole_output(self.result, "stdout")), num_lines)

    @call
    def stderr(self, num_lines: int | None = None) -> Steps[str]:
        """All that it complained of, or the last lines of it."""
        return _last((yield from executions.whole_output(self.result, "stderr")), num_lines)


class Execution(Group[S]):
    """A command that was started."""

    def __init__(self, session: S, view: ExecutionView, listener: Spawned | None = None) -> None:
        super().__init__(session)
        self.devbox_id = view.devbox_id
        self.execution_id = view.execution_id
        self._listener = listener

    def __repr__(self) -> str:
        return f"<Execution {self.execution_id}>"

    @call
    def get_state(self) -> Steps[ExecutionView]:
        """How it is now."""
        return (yield from executions.get(self.devbox_id, self.execution_id))

    @call
    def result(self, timeout: float | None = None) -> Steps[CommandResult[S]]:
        """Wait for its end, and until its output was told; raises StillWaiting after the timeout."""
        view = yield from executions.wait_for(self.devbox_id, self.execution_id, timeout)
        while self._listener is not None and not self._listener.is_done:
            yield from pause(LISTENER_SECONDS)
        if self._listener is not None and self._listener.error is not None:
            raise self._listener.error
        return CommandResult(self.session, view)

    @call
    def kill(self) -> Steps[ExecutionView]:
        """Kill it and all it started."""
        return (yield from executions.kill(self.devbox_id, self.execution_id, tree=True))


class Commands(Group[S]):
    """The commands of a devbox; those of a named shell follow each other."""

    def __init__(self, session: S, devbox_id: str, shell_name: str | None = None) -> None:
        super().__init__(session)
        self._devbox_id = devbox_id
        self._shell_name = shell_name

    @call
    def exec(self, command: str, **options: Unpack[ExecOptions]) -> Steps[CommandResult[S]]:
        """Run a command to its end, as long as it takes; callbacks are told its output meanwhile."""
        shell = options.get("shell_name") or self._shell_name
        timeout = options.get("timeout")
        if not _is_heard(options) and not options.get("attach_stdin"):
            view = yield from executions.finish(self._devbox_id, command, shell, timeout)
            return CommandResult(self.session, view)
        begun = yield from self._begun(command, options)
        return CommandResult(self.session, (yield from _told(begun, options, timeout)))

    @call
    def exec_async(self, command: str, **options: Unpack[StartOptions]) -> Steps[Execution[S]]:
        """Start a command and return at once; callbacks are told its output as it comes."""
        begun = yield from self._begun(command, options)
        listener = self.session.spawn(_listened(begun, options)) if _is_heard(options) else None
        return Execution(self.session, begun, listener)

    def _begun(self, command: str, options: StartOptions) -> Steps[ExecutionView]:
        request = ExecuteRequest(
            command=command,
            shell_name=options.get("shell_name") or self._shell_name,
            attach_stdin=options.get("attach_stdin"),
        )
        return (yield from executions.start(self._devbox_id, request))


class _Ear:
    """Remembers how much of one stream was told, and tells the rest."""

    def __init__(self, stream: StreamName, listeners: list[Heard]) -> None:
        self._stream = stream
        self._listeners = listeners
        self._offset = 0
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode

    def listen(self, view: ExecutionView, *, is_last: bool) -> Steps[None]:
        if not self._listeners:
            return
        piece = yield from executions.output_from(view, self._stream, self._offset)
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


def _listened(begun: ExecutionView, options: StartOptions) -> Steps[None]:
    yield from _told(begun, options, None)


def _told(begun: ExecutionView, options: StartOptions, timeout: float | None) -> Steps[ExecutionView]:
    """Wait for the end of a command, telling in between what it prints."""
    ears = list(_ears(options))
    waited = 0.0
    while True:
        try:
            view = yield from executions.wait_for(begun.devbox_id, begun.execution_id, LOOK_SECONDS)
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
