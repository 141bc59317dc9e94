"""A benchmark of one's own that mixes scenarios of public ones and own ones."""

import json
from pathlib import Path

import pytest

from benchyard.testing.server import RunningServer
from tests.benchmarks.samples.finding import OWN
from tests.cli.conftest import CommandLine


@pytest.fixture
def benchyard(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> CommandLine:
    monkeypatch.setenv("BENCHYARD_URL", server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", server.key)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capfd)


def test_scenarios_of_two_public_benchmarks_and_an_own_one(benchyard: CommandLine, tmp_path: Path) -> None:
    ids = {}
    for name in ("aime", "arc-agi-2"):
        benchyard.ok("benchmark", "import", name, "--from", str(OWN / name))
        ids[name] = json.loads(benchyard.ok("benchmark", "show", name, "-o", "json"))["scenario_ids"][0]
    benchyard.ok("benchmark", "new", "mixed")
    folder = tmp_path / "mixed"
    written = (folder / "benchmark.yaml").read_text()
    (folder / "benchmark.yaml").write_text(
        written.rstrip() + "".join(f"\n  - id: {each}" for each in ids.values()) + "\n"
    )
    benchyard.ok("benchmark", "push", "mixed")
    ended = benchyard("job", "run", "--benchmark", "mixed", "--agent", "oracle", "-n", "mixed", "--watch")
    assert ended.status == 0, ended.err
    said = json.loads(benchyard.ok("job", "summary", "mixed", "-o", "json"))
    (outcome,) = said["benchmark_outcomes"]
    assert outcome["n_completed"] == 3
    assert outcome["average_score"] == 1.0


def test_public_benchmarks_are_listed_before_and_after_they_are_imported(benchyard: CommandLine) -> None:
    benchyard.ok("benchmark", "import", "gpqa-diamond", "--from", str(OWN / "gpqa-diamond"))
    listed = json.loads(benchyard.ok("benchmark", "list", "--public", "-o", "json"))
    names = [each["name"] for each in listed]
    eleven = {"aider-polyglot", "aime", "arc-agi-2", "bigcodebench", "bigcodebench-hard-complete"}
    eleven |= {"bigcodebench-hard-instruct", "gpqa-diamond", "replicationbench", "swe-bench-pro"}
    eleven |= {"swe-bench-verified", "terminal-bench-2"}
    assert eleven < set(names)
    by_name = {each["name"]: each for each in listed}
    assert by_name["gpqa-diamond"]["scenario_ids"]
    assert by_name["swe-bench-pro"]["scenario_ids"] == []
    assert names.index("gpqa-diamond") < names.index("quickstart") < names.index("swe-bench-pro")
    ended = benchyard("job", "run", "--benchmark", "ScaleAI/SWE-Bench Pro", "--agent", "nop")
    assert ended.status != 0
    assert "benchyard benchmark import swe-bench-pro" in ended.err


def test_a_name_that_nobody_knows_is_told_with_those_there_are(benchyard: CommandLine) -> None:
    ended = benchyard("benchmark", "import", "terminal-bench-3")
    assert ended.status != 0
    assert "did you mean 'terminal-bench-2'" in ended.err
