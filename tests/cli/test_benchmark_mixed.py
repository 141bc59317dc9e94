"""Public benchmarks by their names: listed, shown, in variants, and mixed into one of one's own."""

import json
from pathlib import Path

import pytest

from benchyard.testing.server import RunningServer
from tests.benchmarks import exercises
from tests.benchmarks.samples.finding import OWN
from tests.benchmarks.tasks import TaskWriter
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
    # What one needs is told before and after.
    assert "token" in by_name["gpqa-diamond"]["metadata"]["needs"]
    assert "registry" in by_name["swe-bench-pro"]["metadata"]["needs"]
    assert names.index("gpqa-diamond") < names.index("quickstart") < names.index("swe-bench-pro")
    ended = benchyard("job", "run", "--benchmark", "ScaleAI/SWE-Bench Pro", "--agent", "nop")
    assert ended.status != 0
    assert "benchyard benchmark import swe-bench-pro" in ended.err


def test_unimported_benchmark_is_shown_with_its_import_command(benchyard: CommandLine) -> None:
    said = benchyard.ok("benchmark", "show", "Laude Institute/Terminal-Bench-2.0")
    assert "it is not imported yet; type `benchyard benchmark import terminal-bench-2`" in said
    assert "1970" not in said
    ended = benchyard("benchmark", "validate", "Laude Institute/Terminal-Bench-2.0", "--sample", "2")
    assert ended.status == 4
    assert "not imported yet; type `benchyard benchmark import terminal-bench-2`" in ended.err


def test_variants_that_differ_leave_each_other_alone(benchyard: CommandLine, tmp_path: Path) -> None:
    exercises.python(tmp_path)
    words = ("benchmark", "import", "Aider/Polyglot", "--from", str(tmp_path), "-o", "json")
    first = json.loads(benchyard.ok(*words))
    other = json.loads(benchyard.ok(*words, "--variant", "host"))
    again = json.loads(benchyard.ok(*words))
    assert (first["name"], other["name"]) == ("aider-polyglot", "aider-polyglot-host")
    # Another test may have imported the same exercise to this server before.
    assert other["scenarios"]["created"] + other["scenarios"]["unchanged"] == 1
    assert again["scenarios"]["unchanged"] == 1
    shown = benchyard.ok("benchmark", "show", "aider-polyglot-host")
    assert "aider-polyglot-host/python-double" in shown


def test_build_failures_are_reported_once_for_each_reason(benchyard: CommandLine, tmp_path: Path) -> None:
    writer = TaskWriter(tmp_path / "unbuildable", "example.test/nowhere:1")
    for name in ("one", "two"):
        writer.write(name)
    benchyard.ok("benchmark", "import", str(writer.folder))
    shown = benchyard.ok("benchmark", "show", "unbuildable", "--scenario", "one")
    assert "(from example.test/nowhere:1, built when it is needed)" in shown
    assert "setup no-network, agent no-network, scoring none" in shown
    ended = benchyard("benchmark", "validate", "unbuildable")
    assert ended.status == 1
    told = [line for line in ended.out.splitlines() if "cannot be built here" in line]
    assert len(told) == 1
    assert told[0].startswith("2 cannot be built here: unbuildable/one, unbuildable/two: Dockerfile line 1: ")
    assert "`benchyard image alias example.test/nowhere:1 NAME`" in told[0]
    assert "benchyard image stand-in" not in told[0], "none can be made of that"
    assert ended.out.count("not here") == 2


def test_an_unknown_name_is_reported_with_the_known_ones(benchyard: CommandLine) -> None:
    ended = benchyard("benchmark", "import", "terminal-bench-3")
    assert ended.status != 0
    assert "did you mean 'terminal-bench-2'" in ended.err
    assert "did you mean 'terminal-bench-2'" in benchyard("benchmark", "show", "terminal-bench-3").err
    assert (
        "there is no folder or file ./terminal-bench-2"
        in benchyard("benchmark", "import", "./terminal-bench-2").err
    )
