"""Packages of npm and pip, real ones, run in an image that has neither Node nor Python."""

from pathlib import Path
from typing import Any

import pytest

from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.commands import wait_for_completion
from benchyard.engine.engine import Engine
from benchyard.hosts.host import ExecRequest, StartRequest
from benchyard.models.agents import AgentRequest
from benchyard.testing.contracts.agent import task
from benchyard.testing.contracts.driver_fixture import write_system
from tests.engine.yard import run

NPM = {"type": "npm", "npm": {"package_name": "semver"}}
PIP = {"type": "pip", "pip": {"package_name": "tabulate"}}


@pytest.mark.parametrize(
    ("source", "version", "command", "said"),
    [
        (NPM, "7.6.3", "semver 1.2.3 -i minor", "1.3.0"),
        (PIP, "0.9.0", "echo a b | tabulate -f plain", "a  b"),
    ],
    ids=["npm", "pip"],
)
def test_a_package_brings_what_it_runs_with(
    tmp_path: Path, source: Any, version: str, command: str, said: str
) -> None:
    async def test(engine: Engine, tools: EngineContext) -> None:
        write_system(tmp_path / "small")
        for program in (tmp_path / "small").rglob("bin/python3*"):
            program.unlink()
        await tools.images.import_archive(tmp_path / "small", "small")
        request = {"name": "mine", "version": version, "source": source, "run_command": command}
        await engine.agents.known.create(Caller("agt_1"), AgentRequest.model_validate(request))
        agent, shown = await engine.agents.ready(await engine.agents.resolve("mine", None, None, {}))
        launch = agent.launch(task())
        assert launch is not None
        await tools.host.start(StartRequest(id="dbx_1", image="small", user="root", mounts=shown))
        for id, script, status in (
            ("lacks", "command -v node || command -v python3", 1),
            ("agent", launch.command, 0),
        ):
            asked = ExecRequest(id=id, argv=("/bin/bash", "-c", script), env=dict(launch.env), cwd="/tmp")
            state = await wait_for_completion(tools, await tools.host.exec("dbx_1", asked))
            told = [await tools.host.tail("dbx_1", id, stream, 10) for stream in ("stdout", "stderr")]
            assert state.exit_status == status, told
        assert told[0][0].strip() == said
        await tools.host.stop("dbx_1", keep_disk=False)

    (tmp_path / "data").mkdir()
    run(tmp_path / "data", test, "native")
