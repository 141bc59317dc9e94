"""Nothing goes on after its end while something is scored, and what may go on is told whole."""

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchyard.hosts import leaks
from benchyard.testing.contracts import kill_tricks
from benchyard.testing.server import RunningServer
from tests.api.devbox import eventually
from tests.api.scenarios import Run, bash, function, results, scenario, start
from tests.api.test_scenario_runs import client_of

LIVE = {"scoring_isolation": "live", "environment_parameters": {"working_directory": "/home/user/task"}}
TRICKS = base64.b64encode(Path(kill_tricks.__file__).read_bytes()).decode()


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("survivors") / "data") as running:
        yield running
    assert leaks.find(running.data) == []


@pytest.fixture(scope="module")
def http(own_server: RunningServer) -> Iterator[httpx.Client]:
    with client_of(own_server) as client:
        yield client


def with_tricks(http: httpx.Client, *scripts: str) -> Run:
    """A live run in whose devbox tricks can be played, graded by these scripts."""
    weight = 1 / len(scripts)
    functions = [function(bash(text), weight, f"scorer-{at}") for at, text in enumerate(scripts)]
    run = start(http, scenario(http, *functions, **LIVE)["id"])
    assert run.devbox.run(f"echo {TRICKS} | base64 -d > /tmp/tricks.py")["exit_status"] == 0
    return run


def holding(name: str) -> str:
    """A shell's words that leave a trick behind, under way, with a lock on a file while any of it is left."""
    file = f"~/held-{name}"
    begin = f"exec 8> {file}; flock 8; python3 /tmp/tricks.py {name} >/dev/null 2>&1 & exec 8>&-"
    return f"{begin}; until [ -s {file} ]; do sleep 0.02; done"


FREE = "for each in ~/held-*; do flock -n $each true || { echo $each; echo 0.0; exit; }; done; echo 1.0"
"""A scorer for whether every lock is free."""


def test_a_scorer_of_a_killed_server_ends_before_the_next_begins(
    own_server: RunningServer, http: httpx.Client
) -> None:
    script = """
exec 9> ~/lock
flock -n 9 || { echo another scorer is at work; echo 0.0; exit; }
echo begun >> ~/begun
if [ $(wc -l < ~/begun) -ge 2 ]; then ls -d /run/benchyard-*/ | wc -l; echo 1.0; exit; fi
(setsid sleep 600 &)
sleep 600
"""
    run = start(http, scenario(http, function(bash(script)), **LIVE)["id"])
    assert run.post("score").status_code == 200
    begun = own_server.data / "host/devboxes" / run.devbox.id / "changes/home/user/begun"
    eventually(lambda: begun.exists() and begun.read_text() == "begun\n", "the first scorer at work")
    own_server.kill()
    own_server.start()
    (result,) = results(run.reaches("scored"))
    assert (result["score"], result["output"]) == (1.0, "1\n1.0\n")
    assert begun.read_text() == "begun\n" * 2
    run.end()


def test_a_scorer_of_a_killed_server_ends_before_anything_is_collected(
    own_server: RunningServer, http: httpx.Client
) -> None:
    script = """
exec 9> ~/lock
flock 9; echo begun >> ~/begun
[ $(wc -l < ~/begun) -lt 2 ] || { cat ~/collected; echo 1.0; exit; }
sleep 600
"""
    collected = {"command": "flock -n ~/lock echo alone >> ~/collected || echo disturbed >> ~/collected"}
    body = scenario(http, function(bash(script)), collect_commands=[collected], **LIVE)
    run = start(http, body["id"])
    assert run.post("score").status_code == 200
    folder = own_server.data / "host/devboxes" / run.devbox.id
    begun = folder / "changes/home/user/begun"
    eventually(lambda: begun.exists() and begun.read_text() == "begun\n", "the first scorer at work")
    own_server.kill()
    # As if the server had not collected anything for this scoring so far.
    (earlier,) = (folder / "executions").glob("collect-*")
    shutil.rmtree(earlier)
    own_server.start()
    (result,) = results(run.reaches("scored"))
    assert (result["score"], result["output"]) == (1.0, "alone\nalone\n1.0\n")
    run.end()


def test_all_surviving_processes_are_reported(http: httpx.Client) -> None:
    run = with_tricks(http, "echo 1.0")
    run.devbox.run("for i in $(seq 210); do sleep 4714 >/dev/null 2>&1 & done")
    for name in ("zombie_leader", "rolling_fork"):
        assert run.devbox.run(holding(name))["exit_status"] == 0
    report = run.scored()["tamper_report"]
    commands = [each["command"] for each in report["processes"]]
    assert commands.count("sleep 4714") == 210
    assert "python3 /tmp/tricks.py zombie_leader" in commands
    assert [each for each in commands if "rolling_fork" in each or each == "[python3]"]
    assert report["notes"] == []
    run.end()


def test_nothing_of_a_killed_command_or_an_ended_scorer_is_there_for_the_next(http: httpx.Client) -> None:
    names = ("zombie_leader", "rolling_fork", "rolling_zombies")
    leaves = "; ".join(holding(name) for name in names)
    run = with_tricks(http, FREE, f"{leaves}; echo 1.0", FREE)
    agents = [run.devbox.start(f"{holding(name)}; touch ~/up-{name}; sleep 600") for name in names]
    run.devbox.run("until [ $(ls ~ | grep -c up-) -eq 3 ]; do sleep 0.02; done")
    view = run.scored()
    assert [(each["score"], each["output"]) for each in results(view)] == [(1.0, "1.0\n")] * 3
    assert view["tamper_report"]["processes"] == []
    assert [run.devbox.ended(agent)["exit_status"] for agent in agents] == [137] * 3
    run.end()
