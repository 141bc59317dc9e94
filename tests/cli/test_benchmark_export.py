"""`benchyard benchmark export` and `import` of what it wrote, on a real server."""

import json
import tomllib
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchyard.benchmarks.harbor_images import BASE
from benchyard.testing.server import RunningServer
from tests.benchmarks.roots import with_programs
from tests.benchmarks.tasks import TaskWriter, small_base
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
