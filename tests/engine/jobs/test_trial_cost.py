"""Processes that one trial takes: forks are counted, since times on a busy machine tell nothing."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from benchyard.benchmarks.files.scenario_draft import StartingFile, writing_command
from benchyard.devboxes.native.zygote import ZygoteProcess
from benchyard.devboxes.shared.running_devbox import RunningDevbox
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.engine import Engine
from benchyard.models.jobs import JobRequest
from benchyard.models.scenarios import ScenarioRequest
from benchyard.models.trials import Trial
from tests.engine.yard import run

PATIENCE_SECONDS = 120.0
WORK = "/home/user/task"
MANY = "mkdir many; for i in $(seq 1000 1999); do echo $i > many/$i; done"
OF_A_DISK = ("compare", "watch", "usage")
OF_A_DEVBOX = ("open", "folders", "files", "processes")


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What children of the zygote and of devboxes' first processes are forked for."""
    found: list[str] = []
    ask_zygote, ask_devbox = ZygoteProcess.ask, RunningDevbox.ask

    async def of_zygote(zygote: ZygoteProcess, message: dict[str, Any], *rest: Any) -> Any:
        found.append(message.get("call", message["op"]))
        return await ask_zygote(zygote, message, *rest)

    async def of_devbox(devbox: RunningDevbox, message: dict[str, Any]) -> Any:
        if message["op"] in OF_A_DEVBOX:
            each = (*message.get("folders", ()), message, *message.get("more", ()))
            paths = [one["path"] for one in each if "path" in one]
            found.append(" ".join([message["op"], *paths]))
        return await ask_devbox(devbox, message)

    monkeypatch.setattr(ZygoteProcess, "ask", of_zygote)
    monkeypatch.setattr(RunningDevbox, "ask", of_devbox)
    return found


async def trial_of(engine: Engine, reference: str, *files: str) -> Trial:
    commands = [writing_command(StartingFile(f"{WORK}/{name}", name.encode()), None) for name in files]
    request = ScenarioRequest.model_validate(
        {
            "name": "counted",
            "input_context": {"problem_statement": "Do it."},
            "scoring_contract": {
                "scoring_function_parameters": [
                    {"name": "true", "weight": 1, "scorer": {"type": "command_scorer", "command": "true"}}
                ]
            },
            "environment_parameters": {
                "working_directory": WORK,
                "launch_parameters": {"launch_commands": commands},
            },
            "reference_output": reference,
        }
    )
    made = await engine.scenarios.create(Caller("scn_1"), request)
    spec = {"type": "scenarios", "scenario_ids": [made.id], "agent_configs": [{"name": "oracle"}]}
    job = await engine.jobs.create(Caller("bmj_1"), JobRequest.model_validate({"spec": spec}))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (await engine.jobs.get(job.id)).end_time_ms:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    (trial,) = await engine.jobs.trials(await engine.jobs.get(job.id))
    return trial


@pytest.mark.skipif(os.geteuid() != 0, reason="other modes handle every tree in a child")
def test_what_a_trial_leaves_is_walked_through_by_one_process(tmp_path: Path, forked: list[str]) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        trial = await trial_of(engine, MANY)
        assert trial.score == 1.0
        assert [each for each in forked if each in OF_A_DISK] == ["compare"]

    run(tmp_path, scenario, "native")


def test_a_devbox_gets_its_first_files_and_folders_by_one_request_of_each_stage(
    tmp_path: Path, forked: list[str]
) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        trial = await trial_of(engine, "true", "one", "deep/two")
        assert trial.score == 1.0
        *own, room = [each for each in forked if each.startswith(OF_A_DEVBOX)]
        assert own == [
            f"open {WORK} {WORK}/one {WORK}/deep/two",
            "open /etc/passwd",
            "open /run/benchyard /logs/agent /run/benchyard/reference /run/benchyard/prompt.md",
            "files",
        ]
        assert room.startswith("open /run/benchyard-")

    run(tmp_path, scenario, "native")
