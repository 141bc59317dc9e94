"""Question sets run to the end: what solves them gets 1, nothing gets 0; our samples and the real ones."""

from collections.abc import Iterator

import pytest

from benchyard.client import Client, Server
from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests import parity
from tests.benchmarks.executing import brought, executed
from tests.benchmarks.samples.finding import OWN, sample

OURS = [
    ("aime", None, 2),
    ("gpqa-diamond", None, 3),
    ("arc-agi-2", None, 2),
    ("arc-agi-2", "training", 1),
    ("replicationbench", "all", 5),
]
REAL = [
    ("aime", "aime", None, 30),
    ("arc-agi-2", "arc-agi-2", None, 12),
    ("arc-agi-2", "arc-agi-2", "training", 12),
    ("replicationbench", "replicationbench", None, 8),
]
LISTED = {"arc-agi-2": 24}
"""Of sets whose sample has several parts."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One of its own: what is imported shows in its catalogue."""
    with RunningServer(tmp_path_factory.mktemp("server") / "data") as running:
        yield running
    assert leaks.find(running.data) == []


@pytest.mark.parametrize(("name", "variant", "count"), OURS)
def test_our_own_samples_are_solved_by_the_oracle_only(
    server: RunningServer, name: str, variant: str | None, count: int
) -> None:
    oracle, nop = executed(server, name, OWN / name, variant)
    assert list(oracle.values()) == [1.0] * count
    assert list(nop.values()) == [0.0] * count


@pytest.mark.parametrize(("name", "folder", "variant", "count"), REAL)
def test_the_real_samples_are_solved_by_the_oracle_only(
    server: RunningServer, name: str, folder: str, variant: str | None, count: int
) -> None:
    oracle, nop = executed(server, name, sample(folder), variant)
    assert list(oracle.values()) == [1.0] * count
    assert list(nop.values()) == [0.0] * count
    parity.note(name, list(oracle), LISTED.get(name, count))


def test_repeated_and_partial_imports_make_no_duplicates(server: RunningServer) -> None:
    with Client(Server(server.url, server.key)) as client:
        brought(client, "arc-agi-2", OWN / "arc-agi-2")
        again = brought(client, "arc-agi-2", OWN / "arc-agi-2", "evaluation")
        assert (again.count("unchanged"), again.benchmark.action) == (2, "changed")
        first = brought(client, "aime", OWN / "aime")
        part = brought(client, "aime", OWN / "aime", "all")
        assert [scenario.id for scenario in first.scenarios] == [scenario.id for scenario in part.scenarios]
        other = brought(client, "arc-agi-2", OWN / "arc-agi-2", "training")
        twice = brought(client, "arc-agi-2", OWN / "arc-agi-2", "training")
        assert other.benchmark.name == "arc-agi-2-training"
        assert [scenario.id for scenario in other.scenarios] == [scenario.id for scenario in twice.scenarios]
        assert twice.benchmark.action == "unchanged"


def test_every_reward_of_an_answer_is_kept(server: RunningServer) -> None:
    half = '{"aaaa0001": [{"attempt_1": [[6, 5, 4]]}, {"attempt_1": [[0]], "attempt_2": [[7, 0], [0, 8]]}]}'
    with Client(Server(server.url, server.key)) as client:
        made = brought(client, "arc-agi-2", OWN / "arc-agi-2")
        run = client.scenarios.start_run(scenario_id=made.scenarios[0].id or "")
        client.devboxes.await_running(run.devbox_id)
        client.files.write(run.devbox_id, "/app/submission.json", half)
        result = client.scenarios.runs.score_and_complete(run.id).scoring_contract_result
    assert result is not None
    (only,) = result.scoring_function_results
    assert (only.score, only.rewards) == (0.5, {"pair_fraction": 0.5, "task_solved": 0.0})
    assert half in only.output


@pytest.mark.parametrize(
    "left",
    [
        "mkdir answer.txt",
        "mkfifo answer.txt",
        "ln -s /etc/passwd answer.txt",
        "ln -s answer.txt answer.txt",
        "head -c 3000000 /dev/zero > answer.txt",
        "printf '\\377\\000143' > answer.txt",
        "rm -rf /app; ln -s /etc /app || true",
        "echo 143 > answer.txt; chmod 000 answer.txt",
    ],
)
def test_any_file_in_place_of_an_answer_gets_a_score(server: RunningServer, left: str) -> None:
    with Client(Server(server.url, server.key)) as client:
        made = brought(client, "aime", OWN / "aime")
        run = client.scenarios.start_run(scenario_id=made.scenarios[0].id or "")
        client.devboxes.await_running(run.devbox_id)
        client.executions.run(run.devbox_id, f"cd /app && {left}")
        result = client.scenarios.runs.score_and_complete(run.id).scoring_contract_result
    assert result is not None
    (only,) = result.scoring_function_results
    assert (only.state, only.score) == ("complete", 1.0 if "echo 143" in left else 0.0), only
