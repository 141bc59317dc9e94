"""An agent that does nothing: it shows what a scenario scores without any work."""

from benchyard.agents.base import Agent, Launch, Task
from benchyard.models.base import Model


class NopConfig(Model):
    """The kwargs of `nop`: there are none."""


class NopAgent(Agent[NopConfig]):
    """Leaves everything unchanged."""

    name = "nop"
    Config = NopConfig

    def launch(self, task: Task) -> Launch | None:
        return None
