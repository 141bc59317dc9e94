"""`benchyard benchmark` against a real server."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from benchyard.client import Client, Server
from benchyard.testing.server import RunningServer
from tests.cli.conftest import CommandLine
from tests.cli.test_scenario import changed


@pytest.fixture
def benchyard(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> CommandLine:
    """The command line of the server with the native driver, in a folder of its own."""
    monkeypatch.setenv("BENCHYARD_URL", server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", server.key)
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capfd)


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    """A client of the same server."""
    with Client(Server(server.url, server.key)) as opened:
        yield opened


@pytest.fixture
def name(benchyard: CommandLine) -> str:
    """A benchmark's folder: one own scenario, one public one by name, one by id."""
    name = f"all-{secrets.token_hex(4)}"
    benchyard.ok("benchmark", "new", name)
    changed(Path(name, "first-task"), name=f"{name}-first")
    file = Path(name, "benchmark.yaml")
    data = yaml.safe_load(file.read_text())
    data["scenarios"] += [{"name": "quickstart/fix-a-bug"}, {"id": "scn_slOP0IyhWuXiOx8o03Zlr"}]
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return name


def test_own_and_public_scenarios_are_pushed_changed_and_pulled(
    benchyard: CommandLine, client: Client, name: str
) -> None:
    would = benchyard.ok("benchmark", "push", name, "--dry-run")
    assert would.count("would be created") == 2
    assert client.benchmarks.list(name=name).items == []
    first = json.loads(benchyard.ok("benchmark", "push", name, "-o", "json"))
    view = client.benchmarks.retrieve(first["id"])
    assert [each.name for each in client.benchmarks.definitions(view.id)] == [
        f"{name}-first",
        "quickstart/fix-a-bug",
        "quickstart/find-the-answer",
    ]
    again = benchyard.ok("benchmark", "push", name)
    assert again.count("unchanged, nothing to do") == 2

    Path(name, "first-task/problem.md").write_text("Other.\n")
    changed_scenario = json.loads(benchyard.ok("benchmark", "push", name, "-o", "json"))
    assert (changed_scenario["action"], changed_scenario["revision"]) == ("unchanged", 1)
    assert [(each["action"], each["revision"]) for each in changed_scenario["scenarios"]] == [("changed", 2)]

    file = Path(name, "benchmark.yaml")
    file.write_text(file.read_text().replace("What it measures.", "Other things."))
    said = benchyard.ok("benchmark", "push", name)
    assert "description: What it measures. -> Other things." in said
    assert client.benchmarks.retrieve(first["id"]).revision == 2

    benchyard.ok("benchmark", "pull", name, "copy")
    assert yaml.safe_load(Path("copy/benchmark.yaml").read_text())["scenarios"] == [
        f"{name}-first",
        {"id": "scn_EH4gxLq99f3eRfQMxkwpQ"},
        {"id": "scn_slOP0IyhWuXiOx8o03Zlr"},
    ]
    assert benchyard.ok("benchmark", "push", "copy").count("unchanged") == 2


def test_a_benchmarks_folder_is_validated(benchyard: CommandLine, client: Client, name: str) -> None:
    ended = benchyard("benchmark", "validate", name, "--concurrency", "2", "-o", "json")
    assert ended.status == 0, ended.err
    found = json.loads(ended.out)
    assert [each["is_valid"] for each in found["scenarios"]] == [True] * 3
    assert client.scenarios.list(search=name).items == []


def test_quickstart_is_solved_by_its_references_and_not_by_nothing(benchyard: CommandLine) -> None:
    ended = benchyard("benchmark", "validate", "quickstart", "-o", "json")
    assert ended.status == 0, ended.out
    found = json.loads(ended.out)["scenarios"]
    assert len(found) == 12
    for each in found:
        scores = [(attempt["kind"], attempt["score"]) for attempt in each["attempts"]]
        assert scores[:4] == [("reference", 1.0)] * 2 + [("nothing", 0.0)] * 2, each
        # None could be graded in a stricter way, unless its answer had to be named for that.
        assert each["strictest"] == each["isolation"], each
        assert not [note for note in each["notes"] if "ends in an error" in note], each


def test_lists_and_views(benchyard: CommandLine, name: str) -> None:
    benchyard.ok("benchmark", "push", name)
    assert name in benchyard.ok("benchmark", "list", "--search", name)
    assert "quickstart" in benchyard.ok("benchmark", "list", "--public")
    shown = benchyard.ok("benchmark", "show", name)
    assert f"{name}-first" in shown
    assert "quickstart/fix-a-bug" in shown
    assert json.loads(benchyard.ok("benchmark", "show", "quickstart", "-o", "json"))["is_public"]
    assert "no benchmarks" in benchyard("benchmark", "list", "--search", secrets.token_hex(8)).err


def test_mistake_in_a_file_is_refused_with_its_line(
    benchyard: CommandLine, client: Client, name: str
) -> None:
    file = Path(name, "benchmark.yaml")
    file.write_text(file.read_text().replace("quickstart/fix-a-bug", "no-such-scenario"))
    for verb in ("push", "validate"):
        ended = benchyard("benchmark", verb, name)
        assert ended.status == 2
        assert f"{name}/benchmark.yaml:5: no scenario has the id or name 'no-such-scenario'" in ended.err
    assert client.benchmarks.list(name=name).items == []
    assert client.scenarios.list(search=name).items == []
    assert benchyard("benchmark", "new", name).status == 2
    assert benchyard("benchmark", "pull", "no-such-benchmark", "x").status == 4
    assert benchyard("benchmark", "validate", "no-such-benchmark").status == 4
