"""What the public agents have in common: a version from a registry, a model by the gateway, and a stream.

Each runs without a terminal, as any user, from any directory. What it keeps for itself lies in a folder that
is made for the run; its own log of the session lies where logs are kept. Its key is a token of the run.
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
"""How often an agent may ask its model before it must stop."""

_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){1,3}[A-Za-z0-9]*(?:[-.+][A-Za-z0-9]+){0,8}")
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
"""Not in the folder of logs, unless there is no other: what is there is kept, and these are many files."""


class PublicConfig(Model):
    """The kwargs of an agent that cannot be told when to stop."""


class TurnLimitConfig(Model):
    """The kwargs of an agent that can be told when to stop."""

    max_turns: MaxTurns | None = Field(
        default=None, description="How often it may ask its model before it must stop."
    )


class PublicAgent(Agent[C]):
    """An agent of somebody else's that everybody can get.

    It is not called after its module, so that no list has an agent `public`.
    """

    default_version: ClassVar[str]

    def __init__(self, config: C) -> None:
        super().__init__(config)
        self.installed: InstalledAgent | None = None
        """Where it lies; whoever installs it says so before it is launched."""

    @classmethod
    @abstractmethod
    def package(cls, version: str) -> Package:
        """What this version is made of on this machine; raises NotSupported where there is none for it."""

    @abstractmethod
    def invocation(self, task: Task, access: ModelAccess) -> Launch:
        """How its program is run; in the command, `$state` is a new folder of its own."""

    def check(self, model: str | None) -> None:
        self.choose(model)

    def choose(self, model: str | None, upstreams: Collection[str] = ()) -> ModelChoice:
        return providers.choose(self.name, tuple(self.keys), model, upstreams)

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        return self._placed().kits

    def launch(self, task: Task) -> Launch | None:
        if task.access is None:
            raise UsageError(f"agent {self.name!r} asks its model by the gateway, and this run has none")
        own = self.invocation(task, task.access)
        prelude = _PRELUDE.format(logs=shlex.quote(task.logs_folder), native=self.native(task))
        return replace(own, command=prelude + own.command)

    def judge(self, ended: AgentEnd) -> str | None:
        if ended.timed_out:
            return None
        found = output_events.events(ended.stdout_tail)
        if ended.calls and self.reached_limit(ended, found):
            return None
        if complaint := self.complaint(ended, found):
            return f"the agent gave up: {complaint}"
        if reason := super().judge(ended):
            return f"{reason} (its last call failed: {ended.last_error})" if ended.last_error else reason
        return None if ended.calls else "the agent ended without ever asking its model"

    def reached_limit(self, ended: AgentEnd, found: Sequence[Event]) -> bool:
        """Whether it stopped where it was told to stop: what it left is scored, as after a timeout."""
        return False

    def complaint(self, ended: AgentEnd, found: Sequence[Event]) -> str | None:
        """What its stream says that went wrong, whatever its exit status is."""
        return None

    def at(self, path: str) -> str:
        """A path in its own folder as one word of a shell."""
        return shlex.quote(f"{self._placed().folder}/{path}")

    def native(self, task: Task) -> str:
        """Where its own log of the session goes, as one word of a shell."""
        return shlex.quote(f"{task.logs_folder}/{self.name}")

    def _placed(self) -> InstalledAgent:
        if self.installed is None or self.installed.folder is None:
            raise UsageError(f"agent {self.name!r} was not installed before it was to be run")
        return self.installed


def check_version(agent: str, version: str) -> None:
    """Raise UsageError for what no registry takes for a version, or would take for something else."""
    if len(version) > _LONGEST_VERSION or not _VERSION.fullmatch(version):
        raise UsageError(f"{version[:100]!r} is no version of agent {agent!r}; write one as in {agent}@1.2.3")
