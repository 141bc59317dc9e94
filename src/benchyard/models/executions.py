"""An execution: one command in a devbox."""

from typing import Literal
from uuid import UUID

from pydantic import Field

from benchyard.models.base import Model, WireBool, WireFloat, WireInt

ExecutionStatus = Literal["queued", "running", "completed"]
LogSource = Literal["setup_commands", "entrypoint", "exec", "files", "stats", "kmsg"]
StreamName = Literal["stdout", "stderr"]
ShellName = r"^[^\x00/]{1,128}$"


class ExecuteRequest(Model):
    """The body of `execute_async` and `execute_sync`."""

    command: str = Field(min_length=1, max_length=1_048_576)
    shell_name: str | None = Field(default=None, pattern=ShellName)
    attach_stdin: WireBool | None = None


class ExecuteWithIdRequest(Model):
    """The body of `execute`: the caller chooses the id, so that a repeated request never runs twice."""

    command: str = Field(min_length=1, max_length=1_048_576)
    command_id: UUID
    shell_name: str | None = Field(default=None, pattern=ShellName)
    optimistic_timeout: WireInt | None = Field(default=None, ge=0, le=25)


class ExecutionWaitRequest(Model):
    """The body of a long-poll on an execution's status."""

    statuses: list[ExecutionStatus] = Field(min_length=1, max_length=100)
    timeout_seconds: WireFloat | None = Field(default=None, ge=0)


class KillRequest(Model):
    """The body of `kill`."""

    kill_process_group: WireBool | None = None


class StdInRequest(Model):
    """The body of `send_std_in`: text, then a signal."""

    text: str | None = None
    signal: Literal["EOF", "INTERRUPT"] | None = None


class StdInResult(Model):
    """The result of a write to standard input: whether it reached a running command."""

    devbox_id: str
    execution_id: str
    success: bool


class ExecutionView(Model):
    """An execution as the wire shows it; output appears once it has completed."""

    devbox_id: str
    execution_id: str
    status: ExecutionStatus
    exit_status: int | None = None
    shell_name: str | None = None
    stdout: str | None = None
    stdout_truncated: bool | None = None
    stderr: str | None = None
    stderr_truncated: bool | None = None
    hint: str | None = None
    """An extension: advice about a command that failed, if there is any."""


class ExecutionResultView(Model):
    """The result of `execute_sync` and of writing a file."""

    devbox_id: str
    exit_status: int
    stdout: str = ""
    stderr: str = ""
    shell_name: str | None = None
    hint: str | None = None


class OutputChunk(Model):
    """A piece of output and the byte offset at its end."""

    output: str
    offset: int


class LogLine(Model):
    """A line of a devbox's log."""

    level: str = "info"
    source: LogSource
    timestamp_ms: int
    message: str | None = None
    cmd: str | None = None
    cmd_id: str | None = None
    exit_code: int | None = None
    shell_name: str | None = None


class LogsView(Model):
    """A devbox's log, oldest first."""

    logs: list[LogLine]
