"""Verbs that work with files of this machine, on both clients, against a real server."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import assert_type

import pytest

from benchyard.benchmarks.files.writer import FolderContents
from benchyard.client import AsyncClient, Client, Server
from benchyard.client.benchmark_files.progress import OnAttempt, PushProgress
from benchyard.client.benchmark_files.results import (
    ExportResult,
    ImportResult,
    PushResult,
    ScenarioValidation,
    ValidationAttempt,
)
from benchyard.client.benchmark_files.templates import new_scenario
from benchyard.errors import NotFound, UsageError
from benchyard.models.devboxes import DevboxRequest
from benchyard.models.jobs import JobRequest
from benchyard.models.scenarios import ScenarioView
from benchyard.models.snapshots import SnapshotRequest
from benchyard.testing.server import RunningServer
from tests.client.scenes import unique


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a scenario that nobody else has."""
    found = tmp_path / unique("task")
    new_scenario(found)
    return found


@pytest.fixture
def benchmark(folder: Path) -> Path:
    """The folder of a benchmark that has the scenario."""
    contents = FolderContents({"name": f"set-of-{folder.name}", "scenarios": [folder.name]})
    contents.write(folder.parent, "benchmark.yaml")
    return folder.parent


def test_new_folders_can_be_pushed(client: Client, tmp_path: Path) -> None:
    one, several = tmp_path / unique("new"), tmp_path / unique("new set")
    assert assert_type(client.scenarios.new(str(one)), Path) == one / "scenario.yaml"
    assert assert_type(client.benchmarks.new(several), Path) == several / "benchmark.yaml"
    assert client.scenarios.push(one, dry_run=True).name == one.name
    scenario, benchmark = client.benchmarks.push(several, dry_run=True)
    assert (scenario.name, benchmark.name) == ("first-task", several.name.replace(" ", "-"))
    for made, verb in ((one, client.scenarios.new), (several, client.benchmarks.new)):
        with pytest.raises(UsageError, match="not empty"):
            verb(made)


def test_a_new_folder_begins_with_a_snapshot(client: Client, tmp_path: Path) -> None:
    devbox = client.devboxes.create_and_await_running(DevboxRequest(name=unique("prepared")))
    name = unique("snapshot")
    snapshot = client.snapshots.create(devbox.id, SnapshotRequest(name=name))
    client.devboxes.shutdown(devbox.id)
    file = assert_type(
        client.scenarios.new_from_snapshot(name, tmp_path / "it", working_directory="/home/user/it"), Path
    )
    assert f"snapshot: {snapshot.id}" in file.read_text()
    assert "working_directory: /home/user/it" in file.read_text()
    with pytest.raises(NotFound, match="no snapshot has the id or name"):
        client.scenarios.new_from_snapshot("no-such", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_scenario_is_pushed_and_pulled(client: Client, folder: Path, tmp_path: Path) -> None:
    would = client.scenarios.push(folder, dry_run=True)
    assert (would.action, would.id, would.is_dry) == ("created", None, True)
    with pytest.raises(NotFound):
        client.scenarios.pull(folder.name, tmp_path / "copy")
    made = assert_type(client.scenarios.push(str(folder)), PushResult)
    assert (made.name, made.action) == (folder.name, "created")
    pulled = assert_type(client.scenarios.pull(folder.name, tmp_path / "copy"), ScenarioView)
    assert pulled.id == made.id
    again = client.scenarios.push(tmp_path / "copy")
    assert (again.id, again.action, again.differences) == (made.id, "unchanged", ())
    with pytest.raises(UsageError, match="not empty"):
        client.scenarios.pull(folder.name, tmp_path / "copy")
    client.scenarios.pull(folder.name, tmp_path / "copy", force=True)


def test_a_benchmark_is_pushed_pulled_exported_and_imported(
    client: Client, benchmark: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    scenario, made = client.benchmarks.push(benchmark)
    assert (scenario.action, made.action, made.name) == ("created", "created", f"set-of-{folder.name}")
    pulled = client.benchmarks.pull(made.name, elsewhere / "copy")
    assert (pulled.benchmark.id, pulled.folders) == (made.id, 1)
    assert [each.action for each in client.benchmarks.push(elsewhere / "copy")] == ["unchanged"] * 2
    done = assert_type(client.benchmarks.export(made.name, elsewhere / "tasks"), ExportResult)
    assert (done.tasks, list(done.refused)) == ([folder.name], [])
    assert (elsewhere / "tasks" / folder.name / "task.toml").is_file()
    back = assert_type(
        client.benchmarks.import_(elsewhere / "tasks", name=f"again-{folder.name}"), ImportResult
    )
    assert (back.count("created"), back.benchmark.action) == (1, "created")
    same = client.benchmarks.import_(elsewhere / "tasks", name=f"again-{folder.name}")
    assert (same.count("unchanged"), same.benchmark.action) == (1, "unchanged")
    one = client.scenarios.export(folder.name, elsewhere / "one")
    assert one.tasks == ["one"]


def test_what_cannot_be_imported_says_so(client: Client, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder or file"):
        client.benchmarks.import_(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="it holds no task"):
        client.benchmarks.import_(tmp_path)


class Attempts(PushProgress):
    """Remembers the attempts that it was told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float | None]] = []
        self.total = 0

    @contextmanager
    def attempts(self, total: int) -> Iterator[OnAttempt]:
        self.total = total
        yield self.tell

    def tell(self, name: str, attempt: ValidationAttempt) -> None:
        self.seen.append((attempt.kind, attempt.score))


def test_a_folder_is_validated(client: Client, folder: Path) -> None:
    progress = Attempts()
    results = client.scenarios.validate(folder, progress=progress)
    (result,) = assert_type(results, list[ScenarioValidation])
    assert (result.name, result.is_valid, result.problems) == (folder.name, True, [])
    assert ("reference", 1.0) in progress.seen
    assert ("nothing", 0.0) in progress.seen
    assert progress.total == 4
    assert "validated_isolation" in (folder / "scenario.yaml").read_text()
    with pytest.raises(NotFound):
        client.scenarios.pull(folder.name, folder.parent / "copy")


def test_a_benchmark_is_validated_by_its_name(client: Client, benchmark: Path, folder: Path) -> None:
    client.benchmarks.push(benchmark)
    (result,) = client.benchmarks.validate(f"set-of-{folder.name}", record=False, sample=3)
    assert (result.name, result.is_valid) == (folder.name, True)
    (result,) = client.benchmarks.validate(benchmark, record=False, sample=1)
    assert (result.name, result.is_valid) == (folder.name, True)


def test_a_folder_without_a_scenario_is_refused(client: Client, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no scenario\.yaml"):
        client.scenarios.validate(tmp_path)
    with pytest.raises(UsageError, match="there is no folder"):
        client.benchmarks.validate(f"{tmp_path}/nowhere/")


def test_a_sync_client_validates_inside_a_running_loop(server: RunningServer, folder: Path) -> None:
    async def notebook() -> list[ScenarioValidation]:
        with Client(Server(server.url, server.key)) as client:
            return client.scenarios.validate(folder, record=False)

    (result,) = asyncio.run(notebook())
    assert result.is_valid


def test_an_async_client_goes_on_while_files_are_read(server: RunningServer, folder: Path) -> None:
    async def push() -> tuple[PushResult, int]:
        turns = 0
        async with AsyncClient(Server(server.url, server.key)) as client:
            pushed = asyncio.create_task(client.scenarios.push(folder))
            while not pushed.done():
                turns += 1
                await asyncio.sleep(0)
            return assert_type(await pushed, PushResult), turns

    made, turns = asyncio.run(push())
    assert made.action == "created"
    assert turns > 10


JOB = """
name: {name}
agents: [oracle]
benchmark: quickstart
limit: 1
"""


def test_a_job_is_created_from_its_file(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB.format(name=unique("from-file")))
    request = assert_type(client.jobs.read(file), JobRequest)
    assert (request.spec.type, request.name) == ("benchmark", file.read_text().split()[1])
    assert client.jobs.plan(request).n_trials == 1
    view = client.jobs.create_from_file(file, environ={})
    assert client.jobs.wait(view.id, timeout=300).state.value == "completed"
    file.write_text("agent: oracle\n")
    with pytest.raises(UsageError, match=r"job\.yaml:1"):
        client.jobs.read(file)


def test_keys_of_the_environment_become_secrets(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB.format(name="keys").replace("oracle", "claude-code:claude-sonnet-4-5"))
    told: list[str] = []
    environ = {"ANTHROPIC_API_KEY": unique("sk-ant-of-a-test"), "XDG_CONFIG_HOME": str(tmp_path)}
    monkeypatch.setattr(os, "environ", {**os.environ, "ANTHROPIC_API_KEY": "sk-not-this-one"})
    request = client.jobs.with_provider_keys(client.jobs.read(file), environ, told.append)
    (agent,) = request.model_dump()["spec"]["agent_configs"]
    assert agent["agent_environment"]["secrets"] == {"ANTHROPIC_API_KEY": "BMJ_ANTHROPIC_API_KEY"}
    assert [each.partition(" the secret")[0] for each in told] in (["made"], ["updated"])
    assert client.secrets.get("BMJ_ANTHROPIC_API_KEY").name == "BMJ_ANTHROPIC_API_KEY"
    told.clear()
    client.jobs.with_provider_keys(client.jobs.read(file), environ, told.append)
    assert told == []
