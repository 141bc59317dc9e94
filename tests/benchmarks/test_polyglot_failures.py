"""Polyglot: an answer that ends its tests as a missing program does counts 0, and is told so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchyard.client import Client, Server
from benchyard.testing.server import RunningServer
from tests.benchmarks import exercises
from tests.benchmarks.executing import brought
from tests.benchmarks.swe_repository import working


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[Client]:
    with Client(Server(server.url, server.key)) as opened:
        yield opened


def test_an_answer_that_exits_with_127_counts_0(client: Client, tmp_path: Path) -> None:
    exercises.python(tmp_path, "doubled")
    made = brought(client, "aider-polyglot", tmp_path, "host")
    with working(client, made.scenarios[0].id or "") as (run_id, devbox_id):
        place = client.scenarios.retrieve(made.scenarios[0].id or "").environment
        assert place is not None
        path = f"{place.working_directory}/doubled.py"
        client.files.write(devbox_id, path, "import os\nos._exit(127)\n")
        view = client.scenarios.runs.score_and_await(run_id)
    assert view.scoring_contract_result is not None
    (result,) = view.scoring_contract_result.scoring_function_results
    assert (result.state, result.cause, result.score) == ("complete", "answer", 0.0), result
    assert "cannot run in this room" in str(result.reason)
    assert view.next_round is not None, "a second try follows, as after any other"
