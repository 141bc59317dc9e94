"""Imports that are a part of a set, or happen at the same moment as another: the benchmark stays whole."""

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchyard.client import Client, Server
from benchyard.client.benchmark_files import benchmark_import
from benchyard.client.benchmark_files.benchmark_import import BenchmarkImport
from benchyard.client.benchmark_files.results import ImportResult
from benchyard.testing.server import RunningServer
from tests.benchmarks.samples.finding import OWN
from tests.benchmarks.tasks import Task, TaskWriter, small_base
from tests.cli.conftest import CommandLine

TASKS = 6
ROUNDS = 4


@pytest.fixture
def benchyard(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> CommandLine:
    monkeypatch.setenv("BENCHYARD_URL", server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", server.key)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return CommandLine(monkeypatch, capfd)


def imported(benchyard: CommandLine, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(benchyard.ok("benchmark", "import", *words, "-o", "json"))
    return found


def scenario_ids(benchyard: CommandLine, name: str) -> list[str]:
    shown: dict[str, Any] = json.loads(benchyard.ok("benchmark", "show", name, "-o", "json"))
    ids: list[str] = shown["scenario_ids"]
    return ids


def test_a_part_takes_nothing_away_from_a_whole(benchyard: CommandLine) -> None:
    words = ("aime", "--from", str(OWN / "aime"), "--name", "aime-in-parts")
    first = imported(benchyard, *words, "--limit", "1")
    assert (first["kept"], len(scenario_ids(benchyard, "aime-in-parts"))) == (0, 1)
    imported(benchyard, *words)
    whole = scenario_ids(benchyard, "aime-in-parts")
    assert len(whole) == 2
    again = imported(benchyard, *words, "--limit", "1")
    assert (again["action"], again["kept"], again["scenarios"]["total"]) == ("unchanged", 1, 1)
    assert scenario_ids(benchyard, "aime-in-parts") == whole
    said = benchyard.ok("benchmark", "import", *words, "--limit", "1")
    assert "1 more stay in the benchmark: only a part of it was read now" in said


def test_half_downloaded_data_take_nothing_away_from_a_whole(benchyard: CommandLine, tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    rows = [{"id": f"2024-I-{number}", "problem": "1+1?", "answer": "2"} for number in (1, 2, 3)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("aime", "--from", str(data), "--name", "aime-cut")
    imported(benchyard, *words)
    whole = scenario_ids(benchyard, "aime-cut")
    data.write_text(data.read_text()[:-20])
    cut = imported(benchyard, *words)
    assert "half-downloaded" in cut["broken"][0]["reason"]
    assert (len(whole), cut["kept"], cut["action"]) == (3, 1, "unchanged")
    assert scenario_ids(benchyard, "aime-cut") == whole
    data.write_text(data.read_text()[:20])
    ended = benchyard("benchmark", "import", "aime", "--from", str(data), "--name", "aime-lost")
    assert ended.status != 0
    assert "nothing was imported" in ended.err
    assert "aime-lost" not in benchyard.ok("benchmark", "list")


def test_a_task_with_a_missing_file_is_reported_by_its_path(
    benchyard: CommandLine, server: RunningServer, tmp_path: Path
) -> None:
    writer = TaskWriter(tmp_path / "lacking", small_base(server, tmp_path / "base"))
    writer.write("good")
    for name, path in {
        "mute": "instruction.md",
        "untested": "tests/test.sh",
        "homeless": "environment/Dockerfile",
    }.items():
        (writer.write(name) / path).unlink()
    (writer.write("nameless") / "task.toml").unlink()
    made = imported(benchyard, str(writer.folder))
    broken = {each["name"]: each["reason"] for each in made["broken"]}
    assert made["scenarios"]["created"] == 1
    assert "instruction.md" in broken["mute"]
    assert "tests/test.sh" in broken["untested"]
    assert "Dockerfile" in broken["homeless"]
    assert set(broken) == {"mute", "untested", "homeless"}
    with Client.find() as client:
        assert [each.name for each in client.scenarios.list(search="lacking/")] == ["lacking/good"]


def test_two_imports_at_the_same_moment_end_with_the_same(server: RunningServer, tmp_path: Path) -> None:
    base = small_base(server, tmp_path / "base")
    for turn in range(ROUNDS):
        writer = TaskWriter(tmp_path / f"{tmp_path.name}-{turn}", base)
        for number in range(TASKS):
            writer.write(f"task-{number}", Task(dockerfile=f"RUN echo {turn} {number}\n"))
        first, second = at_once(server, writer.folder)
        name = first.benchmark.name
        assert first.benchmark.id == second.benchmark.id
        assert [each.id for each in first.scenarios] == [each.id for each in second.scenarios]
        with Client(Server(server.url, server.key)) as client:
            living = list(client.scenarios.list(search=f"{name}/", limit=100))
            assert len(living) == TASKS
            (benchmark,) = client.benchmarks.list(name=name, limit=5)
            assert sorted(benchmark.scenario_ids) == sorted(each.id for each in living)
            used = {str(each.environment and each.environment.blueprint_id) for each in living}
            assert {client.blueprints.get(each).state for each in used} == {"created"}
            names = Counter(each.name for each in client.blueprints.list(limit=1000))
            assert {client.blueprints.get(each).name for each in used} <= set(names)
            assert set(names.values()) == {1}


def at_once(server: RunningServer, folder: Path) -> list[ImportResult]:
    """What two imports of a folder came to that began together."""
    ready, ended = threading.Barrier(2), []

    def work() -> None:
        with Client(Server(server.url, server.key)) as client:
            client.benchmarks.list(limit=1)
            ready.wait()
            ended.append(benchmark_import.import_benchmark(client, BenchmarkImport(str(folder))))

    both = [threading.Thread(target=work) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert len(ended) == len(both), "one of them failed"
    return ended
