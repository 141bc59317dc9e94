"""The common part of public agents: a version from a registry, a model by the gateway, and an output stream.

Each runs without a terminal, as any user, from any directory. Its own state lies in a folder made for the
run; its own log of the session lies in the folder of logs. Its key is a token of the run.
"""

import re
import shlex
from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field

from benchyard.agents import output_events, providers
from benchyard.agents.base import Agent, AgentEnd, C, Launch, ModelAccess, ModelChoice, Task
from benchyard.agents.output_events import Event
from benchyard.agents.own_agent import InstalledAgent
from benchyard.agents.packages import Package
from benchyard.errors import UsageError
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.base import Model

MaxTurns = Annotated[int, Field(ge=1, le=100_000)]
"""Number of times an agent may ask its model before it must stop."""

_VERSION = re.compile(r"[0-9]++(?:\.[0-9]++){1,3}+[A-Za-z0-9]*+(?:[-.+][A-Za-z0-9]++){0,8}+")
_LONGEST_VERSION = 100
_PRELUDE = """\
state=
for place in /var/tmp /tmp {logs}; do
    state=$(mktemp -d "$place/agent.XXXXXX" 2>/dev/null) && break
done
[ -d "$state" ] || {{ echo 'the agent finds no folder that it may write to' >&2; exit 1; }}
[ -n "${{HOME:-}}" ] && [ -w "$HOME" ] || {{ export HOME="$state/home"; mkdir -p "$HOME"; }}
mkdir -p {native}
"""
"""State lies outside of the folder of logs if possible: logs are stored, and the state has many files."""


class PublicConfig(Model):
    """The kwargs of an agent without a limit of turns."""


class TurnLimitConfig(Model):
    """The kwargs of an agent with a limit of turns."""

    max_turns: MaxTurns | None = Field(
        default=None, description="How often it may ask its model before it must stop."
    )


class PublicAgent(Agent[C]):
    """An agent that another party publishes for everybody.

    The class is not named after its module, so that no list has an agent `public`.
    """

    default_version: ClassVar[str]

    def __init__(self, config: C) -> None:
        super().__init__(config)
        self.installed: InstalledAgent | None = None
        """Folders of the agent, on the host and in a devbox; set by the installer before the launch."""

    @classmethod
    @abstractmethod
    def package(cls, version: str) -> Package:
        """Return the packages of this version for this machine; raises NotSupported if there are none."""

    @abstractmethod
    def invocation(self, task: Task, access: ModelAccess) -> Launch:
        """Return the call of its program; in the command, `$state` is a new folder for its state."""

    def check(self, model: str | None) -> None:
        self.choose(model)

    def choose(self, model: str | None, upstreams: Collection[str] = ()) -> ModelChoice:
        return providers.choose(self.name, tuple(self.keys), model, upstreams)

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        return self._require_installed().kits

    def launch(self, task: Task) -> Launch | None:
        if task.access is None:
            raise UsageError(
                f"agent {self.name!r} needs the gateway to reach its model, and this run has no gateway"
            )
        own = self.invocation(task, task.access)
        prelude = _PRELUDE.format(logs=shlex.quote(task.logs_folder), native=self.native(task))
        return replace(own, command=prelude + own.command)

    def judge(self, ended: AgentEnd) -> str | None:
        if ended.timed_out:
            return None
        events = output_events.events(ended.stdout_tail)
        if ended.calls and self.reached_limit(ended, events):
            return None
        if complaint := self.complaint(ended, events):
            return f"the agent gave up: {complaint}"
        if reason := super().judge(ended):
            return f"{reason} (its last call failed: {ended.last_error})" if ended.last_error else reason
        return None if ended.calls else "the agent ended without ever asking its model"

    def reached_limit(self, ended: AgentEnd, found: Sequence[Event]) -> bool:
        """Tell whether it stopped at its limit: its work is then scored, as after a timeout."""
        return False

    def complaint(self, ended: AgentEnd, found: Sequence[Event]) -> str | None:
        """Return the error that its stream reports, whatever its exit status is."""
        return None

    def at(self, path: str) -> str:
        """Return a path in its own folder as one word of a shell."""
        return shlex.quote(f"{self._require_installed().folder}/{path}")

    def native(self, task: Task) -> str:
        """Return the folder of its own session log, as one word of a shell."""
        return shlex.quote(f"{task.logs_folder}/{self.name}")

    def _require_installed(self) -> InstalledAgent:
        if self.installed is None or self.installed.folder is None:
            raise UsageError(f"agent {self.name!r} was not installed before its launch")
        return self.installed


def check_version(agent: str, version: str) -> None:
    """Raise UsageError for a text that is no version, or that a registry's tool would misread."""
    if len(version) > _LONGEST_VERSION or not _VERSION.fullmatch(version):
        raise UsageError(
            f"{version[:100]!r} is not a valid version of agent {agent!r}; write one as in {agent}@1.2.3"
        )
