"""An agent that does nothing: it shows the score of a scenario without any work."""

from benchyard.agents.base import Agent, Launch, Task
from benchyard.models.base import Model


class NopConfig(Model):
    """The empty kwargs of `nop`."""


class NopAgent(Agent[NopConfig]):
    """Leaves everything unchanged."""

    name = "nop"
    Config = NopConfig

    def launch(self, task: Task) -> Launch | None:
        return None
