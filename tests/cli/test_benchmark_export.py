"""`benchyard benchmark export` and `import` of what it wrote, on a real server."""

import json
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchyard.benchmarks.harbor.environments import BASE
from benchyard.client import Client, Server
from benchyard.testing.server import RunningServer
from tests.benchmarks.exports import contents
from tests.benchmarks.roots import with_programs
from tests.benchmarks.tasks import Task, TaskWriter, small_base
from tests.benchmarks.test_bigcodebench import ROW
from tests.benchmarks.test_bigcodebench import written as rows
from tests.cli.conftest import CommandLine
from tests.cli.test_benchmark_import import outcomes, run_import


@pytest.fixture(scope="module")
def public_base(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An image of this machine's programs stands in for the public base of exports."""
    root = with_programs(tmp_path_factory.mktemp("public") / "root")
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=120) as http:
        name = f"public-{uuid.uuid4().hex[:8]}"
        made = http.post("/v1/images/import", json={"path": str(root), "name": name})
        assert made.status_code == 200, made.text
        alias = http.post("/v1/images/aliases", json={"reference": BASE, "image": name})
        assert alias.status_code == 200, alias.text


@pytest.fixture(scope="module")
def base(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    return small_base(server, tmp_path_factory.mktemp("base"))


@pytest.fixture
def benchyard(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> CommandLine:
    monkeypatch.setenv("BENCHYARD_URL", server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", server.key)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capfd)


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    with Client(Server(server.url, server.key)) as opened:
        yield opened


@pytest.fixture
def writer(base: str, tmp_path: Path) -> TaskWriter:
    return TaskWriter(tmp_path / f"tasks-{tmp_path.name}", base)


def exported(benchyard: CommandLine, name: str, folder: Path, *more: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        benchyard.ok("benchmark", "export", name, str(folder), *more, "-o", "json")
    )
    return found


@pytest.mark.usefixtures("public_base")
def test_quickstart_exported_and_imported_again_scores_the_same(
    benchyard: CommandLine, tmp_path: Path
) -> None:
    folder = tmp_path / "again"
    done = exported(benchyard, "quickstart", folder)
    assert done["refused"] == []
    assert len(done["tasks"]) == 12
    manifest = tomllib.loads((folder / "dataset.toml").read_text())
    assert len(manifest["tasks"]) == 12
    made = run_import(benchyard, folder, "--name", f"again-{uuid.uuid4().hex[:8]}")
    assert made["broken"] == []
    assert made["scenarios"]["total"] == 12
    found = outcomes(benchyard, made["name"], "oracle", "nop")
    for agent, score in (("oracle", 1.0), ("nop", 0.0)):
        told = {item: (each.get("score"), each.get("failure_reason")) for item, each in found[agent].items()}
        assert told == dict.fromkeys(told, (score, None))


@pytest.mark.usefixtures("public_base")
def test_items_whose_packages_are_brought_by_their_tests_score_the_same(
    benchyard: CommandLine, tmp_path: Path
) -> None:
    row = {**ROW, "task_id": "BigCodeBench/9", "code_prompt": "def task_func(numbers):\n"}
    row |= {"complete_prompt": "def task_func(numbers):\n", "canonical_solution": "    return sum(numbers)\n"}
    data = rows(tmp_path / "rows.jsonl", row)
    name = f"bcb-{uuid.uuid4().hex[:8]}"
    words = ("--variant", "complete-small", "--from", str(data), "--name", name)
    benchyard.ok("benchmark", "import", "bigcodebench", *words)
    assert exported(benchyard, name, tmp_path / "again")["refused"] == []
    made = run_import(benchyard, tmp_path / "again", "--name", f"{name}-again")
    found = outcomes(benchyard, made["name"], "oracle", "nop")
    for agent, score in (("oracle", 1.0), ("nop", 0.0)):
        assert [(each.get("score"), each.get("failure_reason")) for each in found[agent].values()] == [
            (score, None)
        ]


def test_an_imported_task_is_given_back_as_it_was(
    benchyard: CommandLine, writer: TaskWriter, tmp_path: Path
) -> None:
    files: dict[str, str | None] = {
        "README.md": "# About\n",
        "tests/data/a b.txt": "x",
        "environment/more.txt": "m",
    }
    task = writer.write("plain", Task(files=files, dockerfile="COPY more.txt /app/\n"))
    made = run_import(benchyard, writer.folder)
    done = exported(benchyard, made["name"], tmp_path / "back")
    assert done["tasks"] == ["plain"]
    assert contents(tmp_path / "back/plain") == contents(task)
    again = run_import(benchyard, tmp_path / "back", "--name", made["name"])
    assert again["scenarios"] == {"total": 1, "created": 0, "changed": 0, "unchanged": 1}
    benchyard.ok("scenario", "export", f"{made['name']}/plain", str(tmp_path / "one"))
    assert contents(tmp_path / "one") == contents(task)
    assert (
        "is not empty" in benchyard("scenario", "export", f"{made['name']}/plain", str(tmp_path / "one")).err
    )


def test_unpublishable_items_are_exported_only_with_private(
    benchyard: CommandLine, client: Client, tmp_path: Path
) -> None:
    name = f"secret-{uuid.uuid4().hex[:8]}"
    scorer = {"type": "gpqa_scorer", "path": "answer.txt", "expected": {"letter": "B"}}
    labels = {"benchyard.benchmark": "gpqa-diamond"}
    kept = client.scenarios.create(
        name=f"{name}/one",
        input_context={"problem_statement": "Which one?\n"},
        scoring_contract={"scoring_function_parameters": [{"name": "a", "weight": 1.0, "scorer": scorer}]},
        metadata=labels,
    )
    client.benchmarks.create(name=name, scenario_ids=[kept.id], metadata=labels)
    for verb, given in (("benchmark", name), ("scenario", kept.id)):
        refused = benchyard(verb, "export", given, str(tmp_path / verb))
        assert refused.status != 0
        assert "--private" in refused.err
        assert not (tmp_path / verb).exists()
    benchyard.ok("scenario", "export", kept.id, str(tmp_path / "mine"), "--private")
    told = (tmp_path / "mine/instruction.md").read_text()
    assert told.startswith("<!-- canary")
    assert told.endswith("\n\nWhich one?\n")


def test_the_results_of_a_job_are_in_harbors_layout(
    benchyard: CommandLine, writer: TaskWriter, tmp_path: Path
) -> None:
    writer.write("plain")
    writer.write("silent", Task(test="#!/bin/bash\ntrue\n"))
    made = run_import(benchyard, writer.folder)
    outcomes(benchyard, made["name"], "oracle")
    name = f"job-{made['name']}"
    benchyard.ok("job", "export", name, str(tmp_path / "jobs"), "--format", "harbor")
    folder = tmp_path / "jobs" / name
    result = json.loads((folder / "result.json").read_text())
    assert result["stats"]["n_completed_trials"] == 2
    assert result["stats"]["n_errored_trials"] == 1
    plain, silent = sorted(each for each in folder.iterdir() if each.is_dir())
    assert plain.name.startswith("plain__")
    assert json.loads((plain / "verifier/reward.json").read_text()) == {"reward": 1.0}
    trial = json.loads((plain / "result.json").read_text())
    assert trial["verifier_result"] == {"rewards": {"reward": 1.0}}
    assert trial["agent_execution"]["started_at"]
    assert trial["trial_name"] == plain.name
    failed = json.loads((silent / "result.json").read_text())
    assert failed["verifier_result"] is None
    assert "neither reward.json" in failed["exception_info"]["exception_message"]
    assert (silent / "exception.txt").exists()
    assert (plain / "verifier/test-stdout.txt").exists()
    assert not list(folder.rglob(".part-*"))


def test_unexportable_scenarios_are_named_and_the_rest_is_written(
    benchyard: CommandLine, client: Client, tmp_path: Path
) -> None:
    name = f"mixed-{uuid.uuid4().hex[:8]}"
    scorer = {"type": "command_scorer", "command": "true"}
    ids = [
        client.scenarios.create(
            name=f"{name}/{item}",
            input_context={"problem_statement": "Do it.\n"},
            scoring_contract={
                "scoring_function_parameters": [{"name": "a", "weight": 1.0, "scorer": scorer}]
            },
            environment_parameters=environment,
        ).id
        for item, environment in (("good", {}), ("imaged", {"blueprint_id": "host"}))
    ]
    client.benchmarks.create(name=name, scenario_ids=ids)
    done = exported(benchyard, name, tmp_path / "mixed")
    assert done["tasks"] == ["good"]
    (refused,) = done["refused"]
    assert refused["name"] == f"{name}/imaged"
    assert "describe it by a Dockerfile" in refused["reason"]
    assert not (tmp_path / "mixed/imaged").exists()
    assert len(tomllib.loads((tmp_path / "mixed/dataset.toml").read_text())["tasks"]) == 1
