"""The agent contract: the duties of an agent, and the environment that every agent finds in its devbox.

An agent returns the command that starts it; it gets no requests while it works. It gets the problem
statement in a file, on its standard input and, if it is short enough, in its environment. The files it leaves
in the devbox are scored; its program's exit says whether it worked at all.
"""

import signal as signals
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from benchyard.hosts.kits import Kit, Kits
from benchyard.models.base import Model
from benchyard.models.scenarios import ScenarioView

PROMPT_FILE = "/run/benchyard/prompt.md"
"""Path of the problem statement."""
LOGS_FOLDER = "/logs/agent"
"""Folder for logs: its files are stored with the run; the agent's user may write there."""
TRAJECTORY = f"{LOGS_FOLDER}/trajectory.json"
"""File in which an agent may record its steps, as ATIF."""
MOST_PROMPT_BYTES = 100_000
"""Size above which a problem statement is in no variable: the kernel allows at most 128 KiB."""

_LAST_CHARACTERS = 16 * 1024
_LONGEST_LINE = 500

C = TypeVar("C", bound=Model)


@dataclass(frozen=True)
class ModelAccess:
    """The access of an agent to its model: through the gateway, with a token that is worthless elsewhere."""

    url: str
    """`http://127.0.0.1:PORT/PROVIDER`, in place of the root of the provider's own address."""
    token: str = field(repr=False)
    provider: str
    """A standard provider, or the name of one of the server's own upstreams."""
    model: str
    """The model's name at the provider."""
    variable: str | None = None
    """Variable in which the key was given: an agent may treat another kind of key differently."""


@dataclass(frozen=True)
class ModelChoice:
    """A model and its provider."""

    provider: str
    model: str
    """The model's name at the provider."""


@dataclass(frozen=True)
class Task:
    """An attempt at a scenario, as the agent sees it."""

    prompt: str
    working_directory: str
    scenario: ScenarioView
    """The scenario, for agents that apply its reference output; others use the prompt only."""
    user: str = "user"
    model: str | None = None
    access: ModelAccess | None = None
    """None if the agent asks no model through the gateway."""
    is_online: bool = False
    """True if its devbox's network is open; if not, its provider must not search the web for it either."""
    prompt_file: str = PROMPT_FILE
    logs_folder: str = LOGS_FOLDER
    round: int = 1
    """Number of its calls in the same devbox so far; each round is scored before the next."""
    continues: bool = False
    """True if it must continue the conversation of the last round, with the prompt as the next message."""


@dataclass(frozen=True)
class Launch:
    """The start of an agent: command, environment and files."""

    command: str
    """Shell command that begins in the working directory, with the prompt on its standard input."""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Absolute path -> content of files that root writes before the start, readable for everybody."""


@dataclass(frozen=True)
class AgentEnd:
    """The end of an agent's command."""

    exit_status: int
    """0 to 255; 128 + n when signal n ended it; 126 or 127 when it could not be started."""
    signal: int | None = None
    timed_out: bool = False
    hint: str | None = None
    """Advice on a failure, if there is any."""
    stderr_tail: str = ""
    stdout_tail: str = ""
    """The end of its output: at most 64 KiB, from the beginning of a line."""
    calls: int = 0
    """Number of its calls of the model."""
    last_error: str | None = None
    """Error of its last call of the model; None if that succeeded, or there was none."""


class Agent(ABC, Generic[C]):
    """A program under test. Its name is the module's, and its `Config` checks its kwargs."""

    name: str
    Config: ClassVar[type[Model]]
    default_version: ClassVar[str | None] = None
    """The version that runs by default; None if the agent has no versions."""
    keys: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Provider -> variables that may hold a key for it, any of which suffices; none if it asks no model."""
    can_continue: ClassVar[bool] = False
    """True if it can continue a conversation; if not, a further try repeats the whole problem."""

    is_reference: ClassVar[bool] = False
    """True if it only applies the reference output: other agents are compared with its effects."""

    def __init__(self, config: C) -> None:
        self.config = config

    def check(self, model: str | None) -> None:
        """Raise UsageError if it cannot work with this model; called when a job is created."""

    def choose(self, model: str | None, upstreams: Collection[str] = ()) -> ModelChoice | None:
        """Return the model and the provider to ask, given the names of the server's own upstreams.

        Returns None for an agent that asks no model through the gateway. Raises UsageError with the choices.
        """
        return None

    def trailing(self, stdout_tail: str) -> Mapping[str, str]:
        """Return results of tool calls by the call's id, for the last calls, which no request follows."""
        return {}

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        """Return the folders of the host to mount in its devbox; raises an error with the remedy."""
        return ()

    @abstractmethod
    def launch(self, task: Task) -> Launch | None:
        """Return its start; None starts nothing. Raises ScenarioError if it cannot work on the task."""

    def judge(self, ended: AgentEnd) -> str | None:
        """Return why it failed; None if it did its work, or as much as its time allowed."""
        if ended.exit_status == 0 or ended.timed_out:
            return None
        how = f"the agent ended with exit status {ended.exit_status}"
        if ended.signal is not None:
            how = f"the agent was ended by {_signal_name(ended.signal)}"
        hint = f" ({ended.hint})" if ended.hint else ""
        said = _last_line(ended.stderr_tail)
        return f"{how}{hint}{f': {said}' if said else ''}"


def contract_env(task: Task) -> dict[str, str]:
    """Return the variables that every agent gets."""
    env = {
        "BENCHYARD_PROMPT_FILE": task.prompt_file,
        "BENCHYARD_LOGS": task.logs_folder,
        "BENCHYARD_TRAJECTORY": f"{task.logs_folder}/{TRAJECTORY.rpartition('/')[2]}",
        "BENCHYARD_ROUND": str(task.round),
    }
    if task.model is not None:
        env["BENCHYARD_MODEL"] = task.model
    if _fits_variable(task.prompt):
        env["BENCHYARD_PROMPT"] = task.prompt
    return env


def _fits_variable(text: str) -> bool:
    try:
        return len(text.encode()) < MOST_PROMPT_BYTES and "\0" not in text
    except UnicodeEncodeError:
        return False


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(text: str) -> str:
    # Only the end is looked at: an agent prints what it likes.
    lines = [line.strip() for line in text[-_LAST_CHARACTERS:].splitlines() if line.strip()]
    return lines[-1][:_LONGEST_LINE] if lines else ""
