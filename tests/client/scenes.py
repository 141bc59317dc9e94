"""Scenarios and runs as most tests want them."""

import uuid
from typing import Any

from benchyard import Benchyard
from benchyard.client.sdk.scenarios import Scenario
from benchyard.client.sessions import SyncSession
from benchyard.models.runs import ScenarioRunView

PATIENCE_SECONDS = 120.0


def unique(of: str) -> str:
    """A name that nothing else has."""
    return f"{of}-{uuid.uuid4().hex[:8]}"


def contract(command: str = "test -e ~/done") -> dict[str, Any]:
    """A contract that passes once there is a file `done`, or by this command."""
    scorer = {"type": "command_scorer", "command": command}
    return {"scoring_function_parameters": [{"name": "done", "weight": 1, "scorer": scorer}]}


def small(yard: Benchyard, command: str = "test -e ~/done") -> Scenario[SyncSession]:
    """A scenario that is solved by a file `done`, unless it is said otherwise."""
    built = yard.scenario.builder(unique("small")).with_problem_statement("make a file `done`")
    return built.add_shell_command_scorer("done", command=command).push()


def points(run: ScenarioRunView) -> float:
    """The score of a run that has one."""
    assert run.scoring_contract_result is not None, run
    return run.scoring_contract_result.score
