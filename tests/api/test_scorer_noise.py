"""One final state scored several times: every score is kept, and the share that changed is told."""

from collections.abc import Iterator

import httpx
import pytest

from benchyard.client import Client, Server
from benchyard.testing.server import RunningServer
from tests.api.devbox import good, refusal
from tests.api.jobs import Job, agent, scenarios_spec
from tests.api.scenarios import bash
from tests.api.test_trials import made

CHANCE = 'touch there && case "$(date +%N)" in *[02468]) echo 1;; *) echo 0;; esac'


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


def test_a_final_state_is_scored_several_times_and_all_scores_are_kept(
    http: httpx.Client, server: RunningServer
) -> None:
    noisy, steady = made(http, bash(CHANCE)), made(http)
    job = Job(http, scenarios_spec([noisy, steady], agent("echo 0.5 > answer")))
    job.completed()
    trials = {each["scenario_id"]: each["id"] for each in job.trials()}
    with Client(Server(server.url, server.key)) as client:
        found = {id: client.jobs.scorer_noise(trial, times=4) for id, trial in trials.items()}
        history = client.scenarios.history(noisy)
    assert [found[steady].n_scorings, found[steady].n_changed, found[steady].scores] == [4, 0, [0.5] * 5]
    scores = found[noisy].scores
    assert len(scores) == 5
    assert found[noisy].n_changed == sum(score != scores[0] for score in scores[1:])
    assert history.scorer_noise == found[noisy]
    kept = good(http.get(f"/v1/trials/{trials[noisy]}"))
    assert [each["score"] for each in kept["earlier_scores"]] == scores[:4]
    assert kept["score"] == scores[4]
    assert "times" in refusal(job.post("rescore", {"times": 51}), 400)
    assert "no trial" in refusal(http.get("/v1/trials/trl_none/scorer_noise"), 404)
