"""Any command: `--agent command --agent-kwargs run='...'`."""

from pydantic import Field

from benchyard.agents import placeholders
from benchyard.agents.base import Agent, Launch, Task
from benchyard.models.agents import CommandText
from benchyard.models.base import Model


class CommandConfig(Model):
    """The kwargs of `command`."""

    run: CommandText = Field(
        description="A shell's command; {prompt_file}, {model}, {logs} and {workdir} in it are filled in."
    )


class CommandAgent(Agent[CommandConfig]):
    """Runs a command that the image already has all for."""

    name = "command"
    Config = CommandConfig

    def check(self, model: str | None) -> None:
        placeholders.check(self.config.run, model)

    def launch(self, task: Task) -> Launch | None:
        self.check(task.model)
        return Launch(placeholders.filled(self.config.run, placeholders.of_task(task)))
