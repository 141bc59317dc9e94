"""`benchyard benchmark import` of public benchmarks by name: from a hub, from the cache, from a copy."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchyard.benchmarks.replicationbench import ReplicationbenchBenchmark
from benchyard.testing.server import RunningServer
from tests.benchmarks import hub as stand_in
from tests.benchmarks.hub import COMMIT, Fault, Hub
from tests.cli.conftest import CommandLine

DATASET = "ChristineYe8/replicationbench"
PAPER = {"title": "A paper of our own", "abstract": "Two and two.", "dataset": []}
TASK = {
    "task_id": "sum",
    "kind": "numeric",
    "difficulty": 1,
    "description": "Add two and two.",
    "instructions": ["Add."],
    "expected_output": 4,
    "tolerance": 0,
    "parents": [],
}


def files(paper: str) -> dict[str, bytes]:
    """The two files of a set with one paper of that name."""
    rows = {"papers.jsonl": {**PAPER, "paper_id": paper}, "tasks.jsonl": {**TASK, "paper_id": paper}}
    return {name: json.dumps(row).encode() + b"\n" for name, row in rows.items()}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with stand_in.serving() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.address)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        served.put(DATASET, files("by-name"))
        yield served


@pytest.fixture
def benchyard(
    fake_server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> CommandLine:
    monkeypatch.setenv("BENCHYARD_URL", fake_server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", fake_server.key)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("BENCHYARD_DATASETS", str(tmp_path / "datasets"))
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capfd)


def test_a_name_is_enough_and_the_second_time_needs_no_hub(
    benchyard: CommandLine, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("benchmark", "import", "replicationbench", "--name", "by-name", "-o", "json")
    made = json.loads(benchyard.ok(*words))
    assert made["scenarios"]["created"] == 1
    shown = json.loads(benchyard.ok("benchmark", "show", "by-name", "-o", "json"))
    assert shown["metadata"]["benchyard.revision"] == COMMIT
    asked = len(hub.downloads)
    again = json.loads(benchyard.ok(*words))
    assert (again["scenarios"]["unchanged"], len(hub.downloads)) == (1, asked)


def test_a_tar_of_a_copy_will_do(benchyard: CommandLine, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name, content in files("by-tar").items():
        (copy / name).write_bytes(content)
    with tarfile.open(tmp_path / "copy.tar.gz", "w:gz") as tar:
        tar.add(copy, "copy")
    words = ("benchmark", "import", "replicationbench", "--name", "by-tar", "-o", "json")
    made = json.loads(benchyard.ok(*words, "--from", str(tmp_path / "copy.tar.gz")))
    assert made["scenarios"]["total"] == 1
    shown = json.loads(benchyard.ok("benchmark", "show", "by-tar", "-o", "json"))
    assert shown["metadata"]["benchyard.revision"] == "local copy"


def test_another_name_leaves_the_scenarios_of_the_first_alone(benchyard: CommandLine, tmp_path: Path) -> None:
    copies = [tmp_path / "one", tmp_path / "two"]
    for copy in copies:
        copy.mkdir()
        for name, content in files("twice").items():
            (copy / name).write_bytes(content)
    with (copies[1] / "papers.jsonl").open("a") as file:
        file.write(json.dumps({**PAPER, "paper_id": "another"}) + "\n")
    (copies[1] / "tasks.jsonl").write_text(
        "".join(
            json.dumps({**TASK, "paper_id": id, "expected_output": 5}) + "\n" for id in ("twice", "another")
        )
    )
    words = ("benchmark", "import", "replicationbench", "-o", "json")
    first = json.loads(benchyard.ok(*words, "--from", str(copies[0])))
    second = json.loads(benchyard.ok(*words, "--from", str(copies[1]), "--name", "rb-full"))
    assert (first["scenarios"]["total"], second["scenarios"]["created"]) == (1, 2)
    assert second["scenarios"]["changed"] == 0
    shown = json.loads(benchyard.ok("benchmark", "show", "rb-full", "-o", "json"))
    assert shown["metadata"]["size"] == "2"
    again = json.loads(benchyard.ok(*words, "--from", str(copies[0])))
    assert again["scenarios"]["changed"] == 0


def test_only_bad_items_that_are_imported_are_told(
    benchyard: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"imported": "its data is wrong", "elsewhere": "it asks a server that is gone"}
    monkeypatch.setattr(ReplicationbenchBenchmark, "known_bad", known)
    for name in ("imported", "sound"):
        copy = tmp_path / name
        copy.mkdir()
        for path, content in files(name).items():
            (copy / path).write_bytes(content)
        words = ("benchmark", "import", "replicationbench", "--name", f"bad-{name}", "--from", str(copy))
        told = benchyard.ok(*words)
        assert "elsewhere" not in told
        assert ("known to be bad: imported: its data is wrong" in told) is (name == "imported")
        found = json.loads(benchyard.ok(*words, "-o", "json"))["known_bad"]
        assert found == ({"imported": "its data is wrong"} if name == "imported" else {})


@pytest.mark.parametrize(
    ("name", "dataset", "path", "said"),
    [
        ("aime", "Maxwell-Jia/AIME_2024", "lost", "is not there (404)"),
        ("replicationbench", DATASET, "papers.jsonl", "should have"),
        ("gpqa-diamond", "Idavidrein/gpqa", "gpqa_diamond.csv", "Accept the terms"),
    ],
)
def test_bad_data_is_told_and_nothing_is_registered(
    benchyard: CommandLine, hub: Hub, name: str, dataset: str, path: str, said: str
) -> None:
    hub.put(dataset, {path: b"{}\n"})
    hub.token = "wanted" if name == "gpqa-diamond" else None
    if name == "replicationbench":
        hub.faults.append(Fault(wrong=True))
    ended = benchyard("benchmark", "import", name, "--name", f"bad-{name}")
    assert ended.status == 16
    assert said in ended.err
    assert f"bad-{name}" not in benchyard.ok("benchmark", "list")
