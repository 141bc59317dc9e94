"""What a devbox needs before it can start, and may have to be made first: its image, its agents."""

from typing import Protocol

from benchyard.models.devboxes import Devbox, MountedAgent
from benchyard.models.mounts import AgentMount
from benchyard.models.scenarios import Scenario


class BuildShelf(Protocol):
    """Where images come from that are built on demand."""

    async def ready(self, blueprint_id: str) -> None:
        """See to it that a blueprint which is built on demand is built; raises BuildFailed."""

    async def unbuilt(self, blueprint_id: str) -> str | None:
        """What would be done to make one that is built on demand, in words; None if it is there."""


class AgentShelf(Protocol):
    """Where devboxes get the agents that they show."""

    async def provided(self, devbox: Devbox) -> Devbox:
        """The record, once all its agents are installed and it says where; raises InstallFailed."""

    async def mounted(self, mount: AgentMount) -> MountedAgent:
        """The agent that a devbox is to show; raises NotFound or UsageError."""


class Supplies:
    """Sees to it that all of it is there."""

    def __init__(self, builds: BuildShelf, agents: AgentShelf) -> None:
        self.builds = builds
        self.agents = agents

    async def built(self, scenario: Scenario) -> None:
        """See to it that what a scenario's devboxes start from is built; raises BuildFailed."""
        environment = scenario.environment
        for blueprint_id in (environment and environment.blueprint_id, scenario.scoring_blueprint_id):
            if blueprint_id:
                await self.builds.ready(blueprint_id)

    async def unbuilt(self, scenario: Scenario) -> list[str]:
        """What has to be done for the images of a scenario, in words: empty if they are there."""
        environment = scenario.environment
        ids = (environment.blueprint_id if environment else None, scenario.scoring_blueprint_id)
        names = [await self.builds.unbuilt(each) for each in dict.fromkeys(ids) if each]
        return [name for name in names if name]

    async def graded_in(self, scenario: Scenario) -> None:
        """See to it that what a scenario is graded in is built; raises BuildFailed."""
        if scenario.scoring_blueprint_id:
            await self.builds.ready(scenario.scoring_blueprint_id)

    async def provided(self, devbox: Devbox) -> Devbox:
        """The record, once everything is there; raises BuildFailed or InstallFailed."""
        if devbox.blueprint_id:
            await self.builds.ready(devbox.blueprint_id)
        return await self.agents.provided(devbox)
