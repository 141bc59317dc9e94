"""Benchmark runs over the wire."""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.api.devbox import good
from tests.api.scenarios import Run, bash, command, function, scenario, start
from tests.api.test_scenario_runs import client_of, error_of


@pytest.fixture(scope="module")
def http(server: RunningServer) -> Iterator[httpx.Client]:
    """A client of a server with the native driver."""
    with client_of(server) as client:
        yield client


def benchmark(http: httpx.Client, name: str, *ids: str, **fields: Any) -> dict[str, Any]:
    return good(http.post("/v1/benchmarks", json={"name": name, "scenario_ids": ids, **fields}))


def begin(http: httpx.Client, benchmark_id: str, **fields: Any) -> dict[str, Any]:
    return good(http.post("/v1/benchmarks/start_run", json={"benchmark_id": benchmark_id, **fields}))


def test_the_score_is_the_mean_over_what_was_started(http: httpx.Client) -> None:
    passes, fails = scenario(http)["id"], scenario(http, function(command("false")))["id"]
    third, never = scenario(http)["id"], scenario(http)["id"]
    made = benchmark(http, "mean", passes, fails, third, never)
    assert made["scenarioIds"] == made["scenario_ids"] == [passes, fails, third, never]
    run = begin(http, made["id"], run_name="r", runProfile={"envVars": {"FROM": "outer"}, "purpose": "why"})
    assert run["pending_scenarios"] == [passes, fails, third, never]
    runs = [start(http, each, benchmark_run_id=run["id"]) for each in (passes, fails, third)]
    view = good(http.get(f"/v1/benchmark_runs/{run['id']}"))
    assert (view["pending_scenarios"], view["state"], view["purpose"]) == ([never], "running", "why")
    assert runs[0].devbox.run("echo $FROM")["stdout"] == "outer\n"
    runs[0].scored()
    runs[1].scored()
    ended = good(http.post(f"/v1/benchmark_runs/{run['id']}/complete"))
    assert ended["state"] == "completed"
    # 1 and 0, and 0 for the one that was never scored; the one never started does not count.
    assert ended["score"] == pytest.approx(1 / 3)
    assert good(http.post(f"/v1/benchmark_runs/{run['id']}/complete")) == ended
    assert [each.view()["state"] for each in runs] == ["completed", "completed", "canceled"]
    listed = good(http.get(f"/v1/benchmark_runs/{run['id']}/scenario_runs", params={"state": "completed"}))
    assert {each["id"] for each in listed["runs"]} == {runs[0].id, runs[1].id}
    assert "completed" in error_of(
        http.post("/v1/scenarios/start_run", json={"scenario_id": passes, "benchmark_run_id": run["id"]}), 400
    )
    answer = http.post(f"/v1/benchmark_runs/{run['id']}/download_logs")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert {name.partition("_run.json")[0] for name in archive.namelist() if "_run.json" in name} == {
            each.id for each in runs
        }


def test_scoring_that_runs_at_completion_still_counts(http: httpx.Client) -> None:
    made = benchmark(http, "late", scenario(http, function(bash("sleep 1; echo 0.5")))["id"])
    run = begin(http, made["id"])
    child = start(http, made["scenario_ids"][0], benchmark_run_id=run["id"])
    good(child.post("score"))
    ended = good(http.post(f"/v1/benchmark_runs/{run['id']}/complete"))
    assert (ended["score"], child.view()["state"]) == (0.5, "completed")


def test_canceling_ends_all_and_counts_what_was_scored(http: httpx.Client) -> None:
    made = benchmark(http, "cut", scenario(http)["id"], scenario(http, function(bash("sleep 600")))["id"])
    run = begin(http, made["id"])
    first, second = (start(http, each, benchmark_run_id=run["id"]) for each in made["scenario_ids"])
    first.scored()
    good(second.post("score"))
    ended = good(http.post(f"/v1/benchmark_runs/{run['id']}/cancel"))
    assert (ended["state"], ended["score"]) == ("canceled", 0.5)
    assert [first.view()["state"], second.view()["state"]] == ["completed", "canceled"]
    assert [each.devbox.view()["status"] for each in (first, second)] == ["shutdown", "shutdown"]
    assert "canceled" in error_of(http.post(f"/v1/benchmark_runs/{run['id']}/complete"), 409)


def test_an_empty_run_has_no_score(http: httpx.Client) -> None:
    run = begin(http, benchmark(http, "empty")["id"])
    ended = good(http.post(f"/v1/benchmark_runs/{run['id']}/complete"))
    assert ended["state"] == "completed"
    assert "score" not in ended


def test_variables_and_secrets_of_a_benchmark_are_required(http: httpx.Client) -> None:
    made = benchmark(http, "gated", required_environment_variables=["A"], required_secret_names=["S"])
    told = error_of(http.post("/v1/benchmarks/start_run", json={"benchmark_id": made["id"]}), 400)
    assert "variables A" in told
    profile = {"envVars": {"A": "1"}, "secrets": {"X": "S"}}
    assert begin(http, made["id"], runProfile=profile)["secrets_provided"] == {"X": "S"}


def test_archived_and_foreign(http: httpx.Client) -> None:
    made = benchmark(http, "old", scenario(http)["id"])
    run = begin(http, made["id"])
    other = {"scenario_id": scenario(http)["id"], "benchmark_run_id": run["id"]}
    assert "not part of" in error_of(http.post("/v1/scenarios/start_run", json=other), 400)
    good(http.post(f"/v1/benchmarks/{made['id']}/archive"))
    assert "archived" in error_of(
        http.post("/v1/benchmarks/start_run", json={"benchmark_id": made["id"]}), 400
    )
    assert made["id"] not in [each["id"] for each in good(http.get("/v1/benchmarks"))["benchmarks"]]
    assert good(http.get(f"/v1/benchmarks/{made['id']}"))["status"] == "archived"
    good(http.post(f"/v1/benchmarks/{made['id']}/unarchive"))
    assert begin(http, made["id"])["state"] == "running"


def test_older_clients_find_runs_where_they_were(http: httpx.Client) -> None:
    made = benchmark(http, "aliases", scenario(http)["id"])
    run = begin(http, made["id"], metadata={"k": "v"})
    old = "/v1/benchmarks/runs"
    assert good(http.get(f"{old}/{run['id']}")) == good(http.get(f"/v1/benchmark_runs/{run['id']}"))
    assert good(http.get(old, params={"benchmark_id": made["id"]}))["runs"][0]["id"] == run["id"]
    assert good(http.get(f"/v1/benchmarks/{made['id']}/runs"))["runs"][0]["metadata"] == {"k": "v"}
    child = start(http, made["scenario_ids"][0], benchmark_run_id=run["id"])
    assert good(http.get(f"{old}/{run['id']}/scenario_runs"))["runs"][0]["id"] == child.id
    assert http.post(f"{old}/{run['id']}/download_logs").status_code == 200
    assert good(http.post(f"{old}/{run['id']}/cancel"))["state"] == "canceled"
    assert good(http.post(f"{old}/{begin(http, made['id'])['id']}/complete"))["state"] == "completed"


def test_an_end_that_a_kill_cut_short_is_finished(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, client_of(server) as http:
        made = benchmark(http, "killed", scenario(http, function(bash("sleep 3; echo 1")))["id"])
        run = begin(http, made["id"])
        child = start(http, made["scenario_ids"][0], benchmark_run_id=run["id"])
        good(child.post("score"))
        with pytest.raises(httpx.TimeoutException):
            http.post(f"/v1/benchmark_runs/{run['id']}/complete", timeout=0.5)
        server.kill()
        server.start()
        again = Run(http, child.view())
        assert again.reaches("completed")["scoring_contract_result"]["score"] == 1.0
        ended = good(http.post(f"/v1/benchmark_runs/{run['id']}/complete"))
        assert (ended["state"], ended["score"]) == ("completed", 1.0)
    assert leaks.find(server.data) == []
