"""Files that a devbox begins with: written at once where that is the same as one after the other."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from benchyard.benchmarks.files.scenario_draft import StartingFile, writing_command
from benchyard.devboxes.shared.running_devbox import RunningDevbox
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.engine import Engine
from benchyard.models.devboxes import DevboxRequest, DevboxStatus
from benchyard.models.launch import LaunchParameters
from tests.engine.yard import run

WORK = "/home/user/work"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The paths below the work of each request to open files."""
    found: list[list[str]] = []
    ask = RunningDevbox.ask

    async def noted(devbox: RunningDevbox, message: dict[str, Any]) -> Any:
        if message["op"] == "open":
            paths = [each["path"] for each in (message, *message["more"])]
            found.extend([paths] if paths[0].startswith(WORK) else [])
        return await ask(devbox, message)

    monkeypatch.setattr(RunningDevbox, "ask", noted)
    return found


async def begun(engine: Engine, tools: EngineContext, *commands: str) -> dict[str, tuple[bytes, int]]:
    """Content and permission bits of the files that a devbox has in its work after these launch commands."""
    request = DevboxRequest(launch_parameters=LaunchParameters(launch_commands=[*commands]))
    devbox = await engine.devboxes.create(Caller("dbx_1"), request)
    booted = await engine.devboxes.wait_until_booted(devbox.id)
    assert booted.status is DevboxStatus.RUNNING, booted
    found = {}
    for name in await tools.host.rooms.files("dbx_1", WORK, "user", None, 100) or []:
        descriptor = await tools.host.open_read("dbx_1", f"{WORK}/{name}")
        with os.fdopen(descriptor, "rb") as file:
            found[name] = file.read(), stat.S_IMODE(os.fstat(descriptor).st_mode)
    await engine.devboxes.shutdown(devbox.id, force=True)
    await tools.work.settle("devbox/")
    return found


def test_files_before_any_other_command_are_written_by_one_request(
    tmp_path: Path, opened: list[list[str]]
) -> None:
    files = [
        StartingFile(f"{WORK}/one", b"1"),
        StartingFile(f"{WORK}/deep/two", b"2" * 50_000, 0o755),
        StartingFile(f"{WORK}/three", b"", 0o600),
    ]
    late = writing_command(StartingFile(f"{WORK}/late", b"4"), None)
    commands = [*(writing_command(each, None) for each in files), f"cat {WORK}/one > {WORK}/seen", late]

    async def scenario(engine: Engine, tools: EngineContext) -> None:
        found = await begun(engine, tools, *commands)
        assert opened[:2] == [[each.path for each in files], [f"{WORK}/late"]]
        assert found == {
            "one": (b"1", 0o644),
            "deep/two": (b"2" * 50_000, 0o755),
            "three": (b"", 0o600),
            "seen": (b"1", 0o644),
            "late": (b"4", 0o644),
        }

    run(tmp_path, scenario, "native")


@pytest.mark.parametrize("again", ["one", "../work/one", "link"])
def test_files_in_each_others_place_are_written_in_turn(
    tmp_path: Path, opened: list[list[str]], again: str
) -> None:
    first = writing_command(StartingFile(f"{WORK}/one", b"a long first content", 0o600), None)
    second = writing_command(StartingFile(f"{WORK}/{again}", b"short"), None)
    more = [f"ln -s one {WORK}/link"] if again == "link" else []

    async def scenario(engine: Engine, tools: EngineContext) -> None:
        assert await begun(engine, tools, first, *more, second) == {"one": (b"short", 0o644)}

    run(tmp_path, scenario, "native")


def test_a_file_that_cannot_be_written_has_its_own_failure(tmp_path: Path) -> None:
    files = [StartingFile(f"{WORK}/one", b"1"), StartingFile(f"{WORK}/one/below", b"2")]

    async def scenario(engine: Engine, tools: EngineContext) -> None:
        commands = [writing_command(each, None) for each in files]
        request = DevboxRequest(launch_parameters=LaunchParameters(launch_commands=commands))
        devbox = await engine.devboxes.create(Caller("dbx_1"), request)
        booted = await engine.devboxes.wait_until_booted(devbox.id)
        assert booted.status is DevboxStatus.FAILURE
        await tools.work.settle("devbox/")

    run(tmp_path, scenario, "native")
