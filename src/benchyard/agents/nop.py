"""Does nothing: what a scenario scores when nobody works on it."""

from benchyard.agents.base import Agent, Launch, Task
from benchyard.models.base import Model


class NopConfig(Model):
    """It takes no kwargs."""


class NopAgent(Agent[NopConfig]):
    """Leaves everything as it is."""

    name = "nop"
    Config = NopConfig

    def launch(self, task: Task) -> Launch | None:
        return None
