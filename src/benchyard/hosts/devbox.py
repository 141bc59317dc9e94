"""A devbox on this host: its commands, its named shells, and their fate when it ends."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchyard.devboxes.base import (
    Capability,
    Command,
    Control,
    DevboxSpec,
    Driver,
    Kill,
    Network,
    OpenFile,
    Signal,
    Status,
    read_status,
)
from benchyard.errors import BenchyardError, DevboxGone, NotFound, UsageError, message_of
from benchyard.hosts import executions, shells
from benchyard.hosts.cancellation import run_to_end
from benchyard.hosts.executions import HostExecution, HostExecutions, now_ms
from benchyard.hosts.output import OutputBudget
from benchyard.hosts.requests import ExecRequest
from benchyard.hosts.shells import Capture, Shell
from benchyard.hosts.state import DevboxEntry
from benchyard.store.vault import Vault

_logger = logging.getLogger(__name__)

_KILLED = 137
_READ_BY_SHELLS = frozenset({"BASH_ENV", "ENV"})


class DiskBlocks(NamedTuple):
    """Space that a disk takes, as far as it was looked at."""

    bytes: int
    """Of the entries that were looked at."""
    entries: int
    looked_at: int

    @property
    def is_exact(self) -> bool:
        """Tell whether every entry was looked at."""
        return self.looked_at >= self.entries

    def at_least(self, earlier: "DiskBlocks | None") -> int:
        """Return the bytes that the disk takes at the least, with regard to an earlier whole measurement.

        If no entry is missing since then, and those looked at are as large on average as the disk was, no
        other walk is needed to tell that it is still that large.
        """
        if earlier is None or not self.looked_at or self.entries < earlier.entries:
            return self.bytes
        return max(self.bytes, min(earlier.bytes, self.bytes * self.entries // self.looked_at))


class HostDevbox:
    """The host's state of one devbox.

    The vault seals data on disk that may be secret, and `outputs` limits all outputs of the machine. `spawn`
    runs something in the background, `on_start` is called for each new execution, and `on_end` for a
    completed one with the devbox's id and its own.
    """

    def __init__(
        self,
        entry: DevboxEntry,
        spec: DevboxSpec,
        image_env: Mapping[str, str],
        driver: Driver,
        vault: Vault,
        outputs: OutputBudget,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        on_start: Callable[[], None],
        on_end: Callable[[str, str], None],
    ) -> None:
        self.entry = entry
        self.spec = spec
        self.is_running = False
        self.measured: DiskBlocks | None = None
        """Space that its disk took when it was last measured; None if this server has not measured it."""
        self._why_ended = ""
        folder = spec.folder / "executions"
        # A new devbox has no earlier executions to look for on disk.
        self._is_known_whole = not folder.exists()
        self.executions = HostExecutions(folder, vault)
        self.image_env = image_env
        self._driver = driver
        self._vault = vault
        self._outputs = outputs
        self._spawn = spawn
        self._on_start = on_start
        self._on_end = on_end
        self._shells: dict[Path, Shell] = {}
        self._program: str | None = None
        self._memory_kills = 0
        self._is_reaching_told = False

    def require_running(self) -> None:
        """Raise DevboxGone if it does not run."""
        if not self.is_running:
            why = f" ({self._why_ended})" if self._why_ended else ""
            raise DevboxGone(f"devbox {self.spec.id} does not run{why}; resume it, or create a new one")

    def find(self, execution_id: str) -> HostExecution:
        """Return an execution; raise NotFound."""
        execution = self.executions.find(execution_id)
        if execution is None:
            raise NotFound(f"devbox {self.spec.id} has no execution {execution_id}")
        return execution

    async def exec(self, request: ExecRequest) -> HostExecution:
        """Start a command, or queue it in its shell."""
        self.require_running()
        shells.check(request.command, request.argv, request.cwd)
        if request.argv is not None and request.shell_name is not None:
            raise UsageError("`argv` runs a program without a shell: give `argv` or `shell_name`, not both")
        if request.strict and request.pty is not None:
            raise UsageError(
                "a command on a terminal cannot be strict: its end cannot be told apart from its output"
            )
        execution, is_new = self.executions.add(request)
        if not is_new:
            return execution
        self._on_start()
        shell = self._shell(request)
        if shell is not None:
            shell.queue.append(request.id)
            if shell.queue[0] != request.id:
                return execution

        async def hand_over() -> None:
            try:
                await self._start(execution, shell)
            except (BenchyardError, OSError):
                self.executions.discard(execution)
                self._leave(shell, execution.request.id)
                raise

        # Not cancelled half-way: it would be unknown whether the command runs.
        await asyncio.shield(hand_over())
        return execution

    def _shell(self, request: ExecRequest) -> Shell | None:
        if request.shell_name is None or request.pty is not None:
            return None
        folder = self.spec.folder / "shells"
        shell = Shell.named(folder, self._user(request), request.shell_name, self._vault)
        return self._shells.setdefault(shell.state, shell)

    def _user(self, request: ExecRequest) -> str:
        return request.user or self.entry.request.user

    async def _start(self, execution: HostExecution, shell: Shell | None) -> None:
        with contextlib.ExitStack() as opened:
            await self._start_with(execution, shell, opened)

    async def _start_with(
        self, execution: HostExecution, shell: Shell | None, opened: contextlib.ExitStack
    ) -> None:
        request, folder = execution.request, execution.folder
        if request.argv is not None:
            invocation = shells.Invocation(request.argv)
        elif shell is None:
            program = await self._shell_program()
            invocation = shells.plain(program, request.command, folder, is_terminal=request.pty is not None)
        else:
            program = await self._shell_program()
            invocation = shell.invocation(program, request.command, request.env, folder, opened)
            execution.capture = Capture(folder / "state")
        # Set before it counts as running.
        execution.output_bytes = self._granted_output(request)
        self.executions.begin(execution)
        command = Command(
            id=request.id,
            argv=invocation.argv,
            folder=folder,
            user=self._user(request),
            cwd=request.cwd,
            env=self._environment(request),
            attach_stdin=request.attach_stdin,
            pty=request.pty,
            timeout_seconds=request.timeout_seconds,
            extra_files=invocation.extra_files,
            strict=request.strict,
            output_bytes=execution.output_bytes,
            spare_bytes=self._outputs.spare_bytes,
        )
        try:
            await self._driver.exec(self.spec.id, command)
        except (BenchyardError, OSError):
            if execution.capture is not None:
                execution.capture.close()
            raise

    def _granted_output(self, request: ExecRequest) -> int:
        limits = self.spec.limits
        if request.strict:
            # Scorers are not cut short by the output of others.
            return limits.output_bytes
        used = 0 if limits.all_output_bytes is None else self.executions.used_bytes()
        return self._outputs.stream_bytes(limits, used)

    def _environment(self, request: ExecRequest) -> dict[str, str]:
        own = {**self.image_env, **self.entry.request.env}
        if request.argv is not None:
            # A shell would read the files named by these before it does anything else.
            own = {name: value for name, value in own.items() if name not in _READ_BY_SHELLS}
        return {**own, **request.env}

    async def _shell_program(self) -> str:
        if self._program is None:
            if self.spec.rootfs.host_dirs and Path(shells.BASH).exists():
                self._program = shells.BASH
            else:
                self._program = await self._look_for_bash()
        return self._program

    async def _look_for_bash(self) -> str:
        try:
            descriptor = await self._driver.open_file(self.spec.id, OpenFile(shells.BASH))
        except NotFound:
            return shells.SH
        os.close(descriptor)
        return shells.BASH

    async def control(self, execution_id: str, control: Control) -> bool:
        """Act on an execution; a queued one can only be killed."""
        execution = self.find(execution_id)
        if execution.status is not None or not self.is_running:
            return False
        if execution.is_started:
            return await self._driver.control(self.spec.id, execution_id, control)
        if not isinstance(control, Kill):
            return False
        self._leave(self._shell(execution.request), execution_id)
        error = "it was killed before its turn came"
        self.executions.cut_short(execution, Status(_KILLED, killed=True, ended_ms=now_ms(), error=error))
        return True

    def look(self, execution_id: str) -> None:
        """Note the end of a running execution if its folder has a status."""
        execution = self.executions.active.get(execution_id)
        status = read_status(execution.folder) if execution and execution.is_started else None
        if execution is None or status is None:
            return
        if status.exit_status == 0 or status.killed or status.timed_out:
            self._finish(execution, status, executions.REACHED_OUT if self._reached_out() else None)
        else:
            self._spawn(self._explain(execution, status))

    def _reached_out(self) -> bool:
        """Report, the first time only, that programs tried to leave a devbox without a network."""
        if self.spec.network is not Network.NONE or self._is_reaching_told:
            return False
        try:
            self._is_reaching_told = bool(self._driver.network_refusals(self.spec.id))
        except DevboxGone:
            return False
        return self._is_reaching_told

    async def _explain(self, execution: HostExecution, status: Status) -> None:
        hint = executions.hint_from_output(status, self.spec.network, execution.folder)
        if self._reached_out() and hint is None:
            hint = executions.REACHED_OUT
        try:
            usage = await self._driver.usage(self.spec.id)
        except BenchyardError as error:
            _logger.info("no usage of %s: %s", self.spec.id, error.message)
        else:
            if usage.out_of_memory_kills > self._memory_kills:
                hint = executions.OUT_OF_MEMORY
            self._memory_kills = usage.out_of_memory_kills
        self._finish(execution, status, hint)

    def _finish(self, execution: HostExecution, status: Status, hint: str | None) -> None:
        if execution.status is not None:
            return
        shell = self._shell(execution.request)
        if shell is not None and execution.capture is not None:
            state = execution.capture.close()
            try:
                shell.keep(None if status.killed or status.timed_out else state)
            except OSError as error:
                hint = f"The shell did not keep what this command changed in it: {error.strerror}."
        self.executions.finish(execution, status, hint)
        self._outputs.kept_bytes += execution.kept_bytes
        if status.stdout_truncated or status.stderr_truncated:
            told = status.error or f"it was cut after {execution.output_bytes} bytes"
            _logger.warning("output of %s in %s: %s", execution.request.id, self.spec.id, told)
        self._leave(shell, execution.request.id)
        self._on_end(self.spec.id, execution.request.id)

    def _leave(self, shell: Shell | None, execution_id: str) -> None:
        """Take an execution out of its shell's queue, and start the next one."""
        if shell is None or execution_id not in shell.queue:
            return
        was_first = shell.queue[0] == execution_id
        shell.queue.remove(execution_id)
        if was_first and shell.queue and self.is_running:
            self._spawn(self._next(shell))

    async def _next(self, shell: Shell) -> None:
        execution = self.executions.active.get(shell.queue[0]) if shell.queue else None
        if execution is None or execution.is_started:
            return
        await self._begin(execution, shell)

    async def _begin(self, execution: HostExecution, shell: Shell | None) -> None:
        """Start a queued command after its caller has gone and cannot receive a start error."""
        try:
            await self._start(execution, shell)
        except (BenchyardError, OSError) as error:
            reason = message_of(error)
            status = Status(126, ended_ms=now_ms(), error=f"it could not be started: {reason}")
            self.executions.cut_short(execution, status)
            self._leave(shell, execution.request.id)

    async def take_up(self) -> None:
        """Resume, after a restart, executions that had not ended, and begin those that had not begun."""
        for execution in self.executions.unfinished():
            self.executions.take_up(execution)
            execution.is_started = execution.is_started and await self._has_begun(execution)
            shell = self._shell(execution.request)
            if shell is not None:
                shell.queue.append(execution.request.id)
                if execution.is_started:
                    execution.capture = Capture(execution.folder / "state")
            elif not execution.is_started:
                self._spawn(self._begin(execution, None))
            self.look(execution.request.id)
        for shell in self._shells.values():
            if shell.queue:
                self._spawn(self._next(shell))

    async def _has_begun(self, execution: HostExecution) -> bool:
        """Tell whether the devbox has the command; else the server ended before it was handed over."""
        is_known = await self._driver.control(self.spec.id, execution.request.id, Signal(0))
        return is_known or read_status(execution.folder) is not None

    async def end(self, reason: str) -> None:
        """End all executions of a devbox that does not run any more."""
        self.is_running = False
        self._why_ended = reason
        if not self.executions.active and not self._is_known_whole:
            for execution in await asyncio.to_thread(self.executions.unfinished):
                self.executions.take_up(execution)
        for execution in list(self.executions.active.values()):
            status = Status(_KILLED, killed=True, ended_ms=now_ms(), error=reason)
            self.executions.cut_short(execution, status)
        self._shells.clear()

    @contextlib.asynccontextmanager
    async def still_disk(self) -> AsyncIterator[Path]:
        """Yield the devbox's changes while all processes that could change more stand still."""
        is_frozen = self.is_running and Capability.FREEZE in self._driver.capabilities
        try:
            if is_frozen:
                # Interrupted, the freeze could finish after the thaw that follows.
                await run_to_end(self._driver.freeze(self.spec.id))
            async with self._driver.storage.changes(self.spec) as changes:
                yield changes
        finally:
            if is_frozen:
                with contextlib.suppress(DevboxGone):
                    await asyncio.shield(self._driver.thaw(self.spec.id))

    def release(self) -> None:
        """Release the resources of this process only; the devbox lives on."""
        for execution in self.executions.active.values():
            if execution.capture is not None:
                execution.capture.release()
