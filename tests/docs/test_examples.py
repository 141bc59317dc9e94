"""The scripts in `examples/` do what they say, against a real server."""

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchyard.client import Client, Server
from benchyard.testing.server import RunningServer
from tests.house.tree import ROOT
from tests.publishing import publish

EXAMPLES = ROOT / "examples"
SECONDS = 300
MOST_LINES = 90


@pytest.fixture(scope="module")
def benchmark(server: RunningServer) -> Iterator[str]:
    """The name of a public benchmark: two scenarios that the toy agent solves, two that it does not."""
    name = f"examples-{uuid.uuid4().hex[:8]}"
    with Client(Server(server.url, server.key)) as client:
        ids = [
            scenario(client, name, "one", "make the file `done`", "test -e ~/done"),
            scenario(client, name, "two", "make `a/b` and `c`", "test -e ~/a/b -a -e ~/c"),
            scenario(client, name, "three", "make `x` with a y in it", "grep -q y ~/x"),
            scenario(client, name, "four", "do not make `z`", "test ! -e ~/z && test -e ~/problem.md"),
        ]
        made = client.benchmarks.create(name=name, scenario_ids=ids)
        publish(server, scenarios=ids, benchmarks=[made.id])
        yield name
        for run in client.benchmark_runs.list(benchmark_id=made.id):
            client.benchmark_runs.cancel(run.id)


def scenario(client: Client, benchmark: str, name: str, problem: str, command: str) -> str:
    scorer = {"type": "command_scorer", "command": command}
    made = client.scenarios.create(
        name=f"{benchmark} {name}",
        input_context={"problem_statement": problem},
        scoring_contract={"scoring_function_parameters": [{"name": "all", "weight": 1, "scorer": scorer}]},
    )
    return made.id


def run(server: RunningServer, home: Path, script: str, *arguments: str) -> str:
    """What an example prints."""
    ended = subprocess.run(
        [sys.executable, EXAMPLES / script, *arguments],
        env={
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "BENCHYARD_URL": server.url,
            "BENCHYARD_API_KEY": server.key,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def test_the_first_script_runs_an_agent_on_a_public_benchmark(
    server: RunningServer, benchmark: str, tmp_path: Path
) -> None:
    lines = run(server, tmp_path, "first_script.py", benchmark).splitlines()
    assert lines == [
        f"{benchmark} one has a problem of 4",
        f"{benchmark} one 0.0",
        f"{benchmark} two has a problem of 4",
        f"{benchmark} two 0.0",
        f"{benchmark} three has a problem of 7",
        f"{benchmark} three 0.0",
        f"{benchmark} four has a problem of 4",
        f"{benchmark} four 1.0",
        "score 0.25",
    ]


def test_a_benchmark_is_run_in_parallel(server: RunningServer, benchmark: str, tmp_path: Path) -> None:
    *table, total = run(server, tmp_path, "parallel_benchmark.py", benchmark, "3").splitlines()
    scores = {line.split()[1]: float(line.split()[2]) for line in table}
    assert scores == {"one": 1.0, "two": 1.0, "three": 0.0, "four": 0.0}
    assert re.fullmatch(rf"{benchmark} +0\.500  over 4 scenarios, run bmr_\w+", total)
    with Client(Server(server.url, server.key)) as client:
        view = client.benchmark_runs.retrieve(total.split()[-1])
        assert (view.state, view.pending_scenarios) == ("completed", [])
        runs = list(client.benchmark_runs.list_scenario_runs(view.id))
        assert {each.state.value for each in runs} == {"completed"}


def test_an_unknown_benchmark_is_named(server: RunningServer, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="there is no benchmark 'nobody'"):
        run(server, tmp_path, "parallel_benchmark.py", "nobody")


ENTRY_POINTS = """
[benchyard.agents]
word-list = custom_agent:WordListAgent
[benchyard.scorers]
line-list = custom_scorer:LineListScorer
[benchyard.benchmarks]
word-lists = custom_benchmark:WordListsBenchmark
[benchyard.devboxes]
audited = custom_driver:AuditedDriver
"""


@dataclass(frozen=True)
class Extended:
    """A server beside which the examples are installed as a package."""

    server: RunningServer
    path: str
    """Where Python finds the package."""
    audit: Path
    """The log of the example's driver."""

    def run(self, *command: str) -> str:
        own = {"BENCHYARD_URL": self.server.url, "BENCHYARD_API_KEY": self.server.key}
        ended = subprocess.run(
            [sys.executable, *command],
            env={"HOME": str(self.audit.parent), "PATH": os.environ["PATH"], "PYTHONPATH": self.path, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout
        return ended.stdout


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extended]:
    folder = tmp_path_factory.mktemp("extended")
    info = folder / "examples-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: examples\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    path, audit = f"{folder}:{EXAMPLES}", folder / "audit.log"
    options = ["--driver", "audited", "--driver-option", f"audit={audit}"]
    with RunningServer(folder / "data", options, {"PYTHONPATH": path}) as server:
        yield Extended(server, path, audit)


def test_agent_scorer_benchmark_and_driver_of_a_users_own(extended: Extended, tmp_path: Path) -> None:
    items = tmp_path / "items.jsonl"
    items.write_text("".join(json.dumps({"name": each, "text": f"{each} and b"}) + "\n" for each in "ac"))
    extended.run("-m", "benchyard.cli.main", "benchmark", "import", "word-lists", "--from", str(items))

    *lines, words, nothing = extended.run(
        str(EXAMPLES / "watch_events.py"), "word-lists", "word-list", "nop"
    ).splitlines()
    assert words == "word-list: 1.0 over 2 trials"
    assert nothing == "nop: 0.0 over 2 trials"
    assert lines[-1] == "job completed"
    ended = sorted(line for line in lines if " completed " in line)
    assert ended == [
        f"{agent} word-lists/{name} completed {score}"
        for agent, score in (("nop", "0.00"), ("word-list", "1.00"))
        for name in "ac"
    ]

    with Client(Server(extended.server.url, extended.server.key)) as client:
        (job,) = client.jobs.list()
    exported = extended.run(str(EXAMPLES / "export_for_training.py"), job.id).splitlines()
    trials = sorted((json.loads(line) for line in exported), key=lambda trial: trial["scenario"])
    assert [trial["problem"] for trial in trials] == ["a and b", "a and b", "c and b", "c and b"]
    assert sorted(trial["score"] for trial in trials) == [0.0, 0.0, 1.0, 1.0]

    started = [json.loads(line)["argv"] for line in extended.audit.read_text().splitlines()]
    assert sum("words.txt" in " ".join(argv) for argv in started) >= len("ac")


def test_each_example_is_short_and_run_by_a_test() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    examples = sorted(EXAMPLES.glob("*.py"))
    assert [path.name for path in examples if path.stem not in tests] == []
    assert [path.name for path in examples if len(path.read_text().splitlines()) > MOST_LINES] == []
