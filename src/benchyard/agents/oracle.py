"""An agent that applies the reference output of a scenario: it shows the score of the solution."""

from benchyard.agents.base import Agent, Launch, Task
from benchyard.errors import ScenarioError
from benchyard.models.base import Model
from benchyard.models.scenarios import ScenarioView
from benchyard.models.scoring import references

_FILE = "/run/benchyard/reference"


class OracleConfig(Model):
    """The empty kwargs of `oracle`."""


class OracleAgent(Agent[OracleConfig]):
    """Knows the solution."""

    name = "oracle"
    is_reference = True
    Config = OracleConfig

    def launch(self, task: Task) -> Launch | None:
        scenario = task.scenario
        if not scenario.reference_output:
            raise ScenarioError(
                f"scenario {scenario.name!r} has no reference output, so the oracle has nothing to apply; "
                "give it one, or run another agent"
            )
        return Launch(_command(scenario), files={_FILE: scenario.reference_output.encode()})


def _command(scenario: ScenarioView) -> str:
    command = references.application(scenario, _FILE)
    if command is None:
        raise ScenarioError(
            f"the reference output of scenario {scenario.name!r} is an expected answer, and the scenario "
            "does not say which file it belongs in; give the scenario one answer path, or run another agent"
        )
    return command
