"""Commands that the engine itself runs in a devbox, as executions with ids that name their purpose."""

import asyncio

from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.secrets import scrubber_of
from benchyard.hosts.host import ExecRequest, ExecutionState
from benchyard.models.devboxes import Devbox
from benchyard.models.executions import LogSource

PTY_PREFIX = "pty-"
"""Prefix of the ids of terminals' executions."""
SSH_PREFIX = "ssh-"
"""Prefix of the ids of executions that live as long as an ssh connection."""

_HOUR = 3600.0


def launch_id(devbox: Devbox, index: int) -> str:
    """Return the id of a launch command's execution in this boot."""
    return f"setup-{devbox.boot}-{index}"


def suspend_id(devbox: Devbox, index: int) -> str:
    """Return the id of a suspend hook's execution in this boot."""
    return f"setup-{devbox.boot}-suspend-{index}"


def entrypoint_id(devbox: Devbox) -> str:
    """Return the id of the entrypoint's execution in this boot."""
    return f"entrypoint-{devbox.boot}"


def log_source_of(execution_id: str) -> LogSource:
    """Return the source under which log lines of an execution are shown."""
    if execution_id.startswith("setup-"):
        return "setup_commands"
    return "entrypoint" if execution_id.startswith("entrypoint-") else "exec"


async def run_step(tools: EngineContext, devbox_id: str, request: ExecRequest) -> str | None:
    """Run a command to its end; returns why it failed, or None. A repeated step is not run twice."""
    state = await tools.host.exec(devbox_id, request)
    state = await wait_for_completion(tools, state)
    if state.exit_status == 0:
        return None
    error, _ = await tools.host.tail(devbox_id, state.id, "stderr", 5)
    # Redact before cutting: half a secret would not be recognised.
    error = await asyncio.to_thread((await scrubber_of(tools, devbox_id)).text, error)
    said = f": {error.strip()[-500:]}" if error.strip() else ""
    hint = f" ({state.hint})" if state.hint else ""
    return f"{request.command[:200]!r} ended with {state.exit_status}{hint}{said}"


async def wait_for_completion(tools: EngineContext, state: ExecutionState) -> ExecutionState:
    """Return the state of an execution once it has completed."""
    while state.status != "completed":
        state = await tools.host.wait(state.devbox_id, state.id, _HOUR)
    return state
