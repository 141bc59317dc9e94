"""Any command as an agent: `--agent command --agent-kwargs run='...'`."""

from pydantic import Field

from benchyard.agents import placeholders
from benchyard.agents.base import Agent, Launch, Task
from benchyard.models.agents import CommandText
from benchyard.models.base import Model


class CommandAgentConfig(Model):
    """The kwargs of `command`."""

    run: CommandText = Field(
        description="A shell's command; {prompt_file}, {model}, {logs} and {workdir} in it are filled in."
    )


class CommandAgent(Agent[CommandAgentConfig]):
    """Runs a command with programs that the image already has."""

    name = "command"
    Config = CommandAgentConfig

    def check(self, model: str | None) -> None:
        placeholders.check(self.config.run, model)

    def launch(self, task: Task) -> Launch | None:
        self.check(task.model)
        return Launch(placeholders.fill(self.config.run, placeholders.task_values(task)))
