"""The agent contract as tests: the duties of every agent.

Subclass `AgentContract` in a test module, say how your agent is made and what it leaves behind, and pytest
does the rest: it is started in a real devbox, exactly as a job starts it.
"""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import pytest

from benchyard import registry
from benchyard.agents import catalog
from benchyard.agents.base import LOGS_FOLDER, PROMPT_FILE, Agent, AgentEnd, ModelAccess, Task, contract_env
from benchyard.devboxes.base import Capability, Driver, HostFolder, Stdin
from benchyard.errors import UsageError
from benchyard.hosts.kits import KitFolders, Kits
from benchyard.models.scenarios import ScenarioView
from benchyard.testing.contracts.driver_fixture import DriverFixture, DriverSuite, contract

STATEMENT = "Write `done` into the file answer.txt.\n\"Quoted\", naïve, $HOME, \\ and {model} 'too'.\n"
WORKING_DIRECTORY = "/srv/task with space"
_REFERENCE = "printf done > answer.txt\n"
_USER = "1000"


def scenario(**changes: Any) -> ScenarioView:
    """Return a scenario whose reference output is a script that writes `done` into answer.txt."""
    fields = {
        "id": "scn_contract",
        "name": "contract",
        "status": "active",
        "input_context": {"problem_statement": STATEMENT},
        "scoring_contract": {
            "scoring_function_parameters": [
                {"name": "done", "weight": 1.0, "scorer": {"type": "command_scorer", "command": "true"}}
            ]
        },
        "environment": {"working_directory": WORKING_DIRECTORY},
        "metadata": {},
        "reference_output": _REFERENCE,
        "create_time_ms": 0,
    }
    return ScenarioView.model_validate({**fields, **changes})


def access(**changes: Any) -> ModelAccess:
    """Return a way to a model, for agents that ask for one; no server listens there."""
    fields = {
        "url": "http://127.0.0.1:9/anthropic",
        "token": "token-of-the-trial",
        "provider": "anthropic",
        "model": "a model/of 'ours'",
    }
    return ModelAccess(**{**fields, **changes})


def task(**changes: Any) -> Task:
    """Return a task of that scenario, for a user without rights."""
    fields = {
        "prompt": STATEMENT,
        "working_directory": WORKING_DIRECTORY,
        "scenario": scenario(),
        "user": _USER,
        "model": "a model/of 'ours'",
        "access": access(),
    }
    return Task(**{**fields, **changes})


class AgentContract(DriverSuite):
    """Duties of every agent: it can be started, does its work without rights, and reports the outcome."""

    name: ClassVar[str]
    kwargs: ClassVar[Mapping[str, str]] = {}
    left: ClassVar[Mapping[str, bytes]] = {}
    """Path -> content of the files it leaves; relative paths are those of the working directory."""

    def make_driver(self, folder: Path) -> Driver:
        """Return the native driver, unless overridden."""
        driver: Driver = registry.load("devboxes", "native")(folder, {})
        return driver

    async def agent(self, kits: Kits) -> Agent[Any]:
        """Return the agent; from the catalog unless overridden."""
        return catalog.make(self.name, self.kwargs)

    def refused(self, kwargs: Mapping[str, str]) -> UsageError:
        """Return the error for kwargs that it does not take."""
        with pytest.raises(UsageError) as caught:
            catalog.make(self.name, kwargs)
        return caught.value

    def test_a_kwarg_it_does_not_know_is_refused_by_name(self) -> None:
        """The error names the nearest known kwarg, if one is near."""
        assert "no_such_kwarg" in self.refused({**self.kwargs, "no_such_kwarg": "1"}).message
        for known in self.kwargs:
            message = self.refused({**self.kwargs, f"{known}s": "1"}).message
            assert f"did you mean {known!r}" in message

    @contract()
    async def test_its_launch_can_be_carried_out(self, yard: DriverFixture) -> None:
        agent = await self.agent(_kits(yard))
        launch = agent.launch(task())
        assert agent.launch(task()) == launch, "the same task gives the same launch"
        if launch is None:
            return
        assert launch.command.strip()
        assert "\0" not in launch.command
        for path in launch.files:
            assert PurePosixPath(path).is_absolute()
            assert ".." not in PurePosixPath(path).parts
        assert not set(launch.env) & set(contract_env(task())), "the contract's own variables are its own"

    @contract(Capability.USERS)
    async def test_it_does_its_work_without_rights(self, yard: DriverFixture) -> None:
        devbox, ended = await self._run(yard)
        assert (await self.agent(_kits(yard))).judge(ended) is None, ended
        for path, content in self.left.items():
            whole = str(PurePosixPath(WORKING_DIRECTORY) / path)
            assert await yard.read(devbox, whole) == content

    @contract()
    async def test_it_tells_failure_from_success(self, yard: DriverFixture) -> None:
        agent = await self.agent(_kits(yard))
        assert agent.judge(AgentEnd(0, calls=1)) is None
        reason = agent.judge(AgentEnd(3, stderr_tail="warning\nno such model\n\n", hint="more memory"))
        assert reason is not None
        assert all(output in reason for output in ("3", "no such model", "more memory"))
        assert "SIGKILL" in (agent.judge(AgentEnd(137, signal=9)) or "")
        assert agent.judge(AgentEnd(137, signal=9, timed_out=True)) is None, "what it left is scored"

    async def _run(self, yard: DriverFixture) -> tuple[str, AgentEnd]:
        """Start it as a job does, and wait for its end."""
        agent, wanted = await self.agent(_kits(yard)), task()
        kits = await agent.kits(_kits(yard))
        devbox = await yard.devbox(mounts=tuple(HostFolder(kit.source, kit.target) for kit in kits))
        folders = (WORKING_DIRECTORY, LOGS_FOLDER)
        for folder in folders:
            await yard.text(devbox, f"mkdir -p '{folder}' && chown {_USER} '{folder}'")
        launch = agent.launch(wanted)
        if launch is None:
            return devbox, AgentEnd(0)
        for path, content in {PROMPT_FILE: STATEMENT.encode(), **launch.files}.items():
            await yard.write(devbox, path, content)
        command = await yard.begin(
            devbox,
            argv=("/bin/bash", "-c", launch.command),
            user=_USER,
            cwd=WORKING_DIRECTORY,
            env={**contract_env(wanted), **launch.env},
            attach_stdin=True,
        )
        await yard.driver.control(devbox, command.id, Stdin(STATEMENT.encode(), close=True))
        result = await yard.finish(command)
        ended = AgentEnd(
            result.status.exit_status,
            result.status.signal,
            stderr_tail=result.stderr.decode(errors="replace"),
            stdout_tail=result.stdout.decode(errors="replace"),
            calls=1,
        )
        return devbox, ended


def _kits(yard: DriverFixture) -> Kits:
    return KitFolders(yard.shared.parent / "agent-kits")
