"""A user's own agent: installed from the registry, mounted read-only, run by its own command."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from benchyard.agents import placeholders
from benchyard.agents.base import Agent, Launch, Task
from benchyard.errors import UsageError
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.base import Model
from benchyard.registry import nearest

FOLDER_VARIABLE = "BENCHYARD_AGENT_DIR"
FOLDER_NAME = "agent_dir"


@dataclass(frozen=True)
class InstalledAgent:
    """An installed agent: its folders on the host, and its place in a devbox."""

    kits: tuple[Kit, ...]
    """The agent's folder first, then those it needs to run; empty if it was registered without a source."""
    bins: tuple[str, ...] = ()
    """Folders in the devbox that come first in its PATH."""

    @property
    def folder(self) -> str | None:
        """Return its folder in a devbox; None if it is only a command."""
        return self.kits[0].target if self.kits else None


class OwnAgentConfig(Model):
    """The registered settings of an agent, and the kwargs of one job."""

    name: str
    run_command: str
    kwargs: Mapping[str, str]


class OwnAgent(Agent[OwnAgentConfig]):
    """Runs the command of its record; its kwargs fill further placeholders of that command.

    The class is not named after its module, so that no list has an agent `registered`.
    """

    Config = OwnAgentConfig

    def __init__(self, config: OwnAgentConfig, installed: InstalledAgent) -> None:
        super().__init__(config)
        self.name = config.name
        self._installed = installed

    def check(self, model: str | None) -> None:
        placeholders.check(self.config.run_command, model, (FOLDER_NAME, *self.config.kwargs))

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        return self._installed.kits

    def launch(self, task: Task) -> Launch | None:
        self.check(task.model)
        folder = self._installed.folder
        values = {**self.config.kwargs, **placeholders.task_values(task)}
        if folder is not None:
            values[FOLDER_NAME] = folder
        command = placeholders.fill(self.config.run_command, values)
        if self._installed.bins:
            first = ":".join(map(shlex.quote, self._installed.bins))
            command = f'export PATH={first}:"$PATH"\n{command}'
        return Launch(command, env={FOLDER_VARIABLE: folder} if folder is not None else {})


def kwargs_in(run_command: str) -> list[str]:
    """Return the kwargs of a registered agent's command: its placeholders that are not built in."""
    return sorted(placeholders.names_in(run_command) - {*placeholders.NAMES, FOLDER_NAME})


def check_kwargs(name: str, run_command: str, kwargs: Mapping[str, str]) -> None:
    """Raise UsageError for kwargs that the command of a registered agent does not name."""
    known = kwargs_in(run_command)
    for key in kwargs:
        if key not in known:
            listed = ", ".join(known) or "none"
            raise UsageError(
                f"agent {name!r} takes no kwarg {key[:100]!r}{nearest(key, known)}; those in braces in its "
                f"command are: {listed}",
                field="kwargs",
            )
