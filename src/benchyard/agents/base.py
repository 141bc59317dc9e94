"""The agent contract: what an agent owes, and what every agent finds in the devbox it works in.

An agent says how it is started; it is never asked anything while it works. It gets the problem statement in a
file, on its standard input and, where it is short enough, in its environment. What it leaves in the devbox is
what is scored; how its program ended says whether it worked at all.
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
"""Where the problem statement lies."""
LOGS_FOLDER = "/logs/agent"
"""What an agent leaves here is kept with its run; its user may write there."""
TRAJECTORY = f"{LOGS_FOLDER}/trajectory.json"
"""Where an agent may leave what it did, step by step, as ATIF."""
MOST_PROMPT_BYTES = 100_000
"""A longer problem statement is in no variable: the kernel takes none of over 128 KiB."""

_LONGEST_LINE = 500

C = TypeVar("C", bound=Model)


@dataclass(frozen=True)
class ModelAccess:
    """How an agent reaches its model: through the gateway, with a token that is worth nothing elsewhere."""

    url: str
    """`http://127.0.0.1:PORT/PROVIDER`: what a provider has at the root of its own address follows."""
    token: str = field(repr=False)
    provider: str
    """One of those that everybody knows, or what an upstream of the server's own is called."""
    model: str
    """As the provider calls it."""
    variable: str | None = None
    """What the key was given as: an agent may speak otherwise with another kind of key."""


@dataclass(frozen=True)
class ModelChoice:
    """A model, and who is asked for it."""

    provider: str
    model: str
    """As the provider calls it."""


@dataclass(frozen=True)
class Task:
    """One attempt at one scenario, as an agent is told of it."""

    prompt: str
    working_directory: str
    scenario: ScenarioView
    """For agents that apply its reference output; others look at the prompt only."""
    user: str = "user"
    model: str | None = None
    access: ModelAccess | None = None
    """None where the agent asks no model through the gateway."""
    is_online: bool = False
    """Whether its devbox may reach anything; else its provider must not look things up for it either."""
    prompt_file: str = PROMPT_FILE
    logs_folder: str = LOGS_FOLDER
    round: int = 1
    """Counts how often it is called in the same devbox; each round is scored before the next."""
    continues: bool = False
    """Whether it must go on with the conversation of the round before: the prompt is what is said next."""


@dataclass(frozen=True)
class Launch:
    """How an agent is started."""

    command: str
    """Of a shell that begins in the working directory, with the prompt on its standard input."""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Absolute path -> content: what root puts there before, for everybody to read."""


@dataclass(frozen=True)
class AgentEnd:
    """How an agent's command ended."""

    exit_status: int
    """0 to 255; 128 + n when signal n ended it; 126 or 127 when it could not be started."""
    signal: int | None = None
    timed_out: bool = False
    hint: str | None = None
    """What to do about it, when that can be told."""
    stderr_tail: str = ""
    stdout_tail: str = ""
    """The end of what it printed: at most 64 KiB, from the beginning of a line."""
    calls: int = 0
    """How often it asked its model."""
    last_error: str | None = None
    """What its last call of the model failed with; None if that was answered well, or there was none."""


class Agent(ABC, Generic[C]):
    """One program under test. Its name is the module's, and its `Config` checks its kwargs."""

    name: str
    Config: ClassVar[type[Model]]
    default_version: ClassVar[str | None] = None
    """What is run where nobody asks for another version; None for one that has no versions."""
    keys: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Provider -> the variables that hold a key for it, any of which will do; none if it asks no model."""
    can_continue: ClassVar[bool] = False
    """Whether it can go on with a conversation; one that cannot is told everything again in a further try."""

    is_reference: ClassVar[bool] = False
    """Whether it applies the reference output and nothing else: others are compared with what it does."""

    def __init__(self, config: C) -> None:
        self.config = config

    def check(self, model: str | None) -> None:
        """Raise UsageError where it cannot work with this model; asked when a job is made."""

    def choose(self, model: str | None, upstreams: Collection[str] = ()) -> ModelChoice | None:
        """Who is asked for this model, where upstreams of the server's own have these names.

        None for an agent that asks no model through the gateway. Raises UsageError with the choices.
        """
        return None

    def trailing(self, stdout_tail: str) -> Mapping[str, str]:
        """Results of tool calls by the call's id, for those that no request carries any more."""
        return {}

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        """Folders of the host that its devbox must show; raises an error that says what to do."""
        return ()

    @abstractmethod
    def launch(self, task: Task) -> Launch | None:
        """How it is started; None runs nothing. Raises ScenarioError for a task that is not for it."""

    def judge(self, ended: AgentEnd) -> str | None:
        """Why it failed; None if it did its work, or what it could in its time."""
        if ended.exit_status == 0 or ended.timed_out:
            return None
        how = f"the agent ended with exit status {ended.exit_status}"
        if ended.signal is not None:
            how = f"the agent was ended by {_signal_name(ended.signal)}"
        hint = f" ({ended.hint})" if ended.hint else ""
        said = _last_line(ended.stderr_tail)
        return f"{how}{hint}{f': {said}' if said else ''}"


def contract_env(task: Task) -> dict[str, str]:
    """The variables that every agent gets, whatever it is."""
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
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_LONGEST_LINE] if lines else ""
