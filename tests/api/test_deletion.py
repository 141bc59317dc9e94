"""Deleted results: nothing is left of them, whoever is killed meanwhile, and everything else stays."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import delete, func, select

from benchyard.models.removals import Removal, RemovedRun
from benchyard.store.database import Store
from benchyard.store.tables import EVENTS, TABLES
from benchyard.testing.server import RunningServer
from tests.api.devbox import good, refusal
from tests.api.jobs import Job, agent, scenarios_spec
from tests.api.scenarios import Run, bash, function, scenario

PATIENCE_SECONDS = 60.0
JOBS = "/v1/benchmark_jobs"
FILES = ("host/devboxes", "images/images", "objects", "logs", "gateway/records", "tmp")


def http_of(server: RunningServer) -> httpx.Client:
    headers = {"authorization": f"Bearer {server.key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=60)


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    with http_of(server) as client:
        yield client


def easy(http: httpx.Client, name: str = "easy", **fields: Any) -> str:
    """A scenario that is solved by a file."""
    made = scenario(http, function(bash("cat answer 2>/dev/null || echo 0")), name=name, **fields)
    return str(made["id"])


def finished(http: httpx.Client, scenario_id: str, **fields: Any) -> Job:
    """A job that has ended, one of whose runs has a trace beside its logs."""
    job = Job(http, scenarios_spec([scenario_id], agent("echo 1.0 > answer"), agent("true")), **fields)
    outcome = job.completed()["benchmark_outcomes"][0]
    run_id = outcome["scenario_outcomes"][0]["scenario_run_id"]
    steps = [{"step_id": 1, "source": "user", "message": "hi"}]
    said = {"schema_version": "ATIF-v1.4", "session_id": "s", "steps": steps}
    said["agent"] = {"name": "a", "version": "1"}  # type: ignore[assignment]
    body = {"name": "mine.json", "kind": "atif", "trajectory": said}
    good(http.post(f"/v1/scenarios/runs/{run_id}/traces", json=body))
    return job


def kept(server: RunningServer, url: str) -> dict[str, Any]:
    """How many rows each table has, and which files there are."""

    async def counted() -> dict[str, Any]:
        async with Store(url) as store:
            tables = [*TABLES.values(), EVENTS]
            queries = {table.name: select(func.count()).select_from(table) for table in tables}
            return await store.read(
                lambda connection: {
                    name: connection.execute(query).scalar_one() for name, query in queries.items()
                }
            )

    found = asyncio.run(counted())
    for name in FILES:
        found[name] = sorted(each.name for each in (server.data / name).rglob("*") if each.is_file())
    return found


def eventually(look: Callable[[], Any], wanted: Any) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := look()) != wanted:
        assert time.monotonic() < deadline, (found, wanted)
        time.sleep(0.05)


def test_nothing_is_left_of_a_deleted_job_also_where_the_server_is_killed(
    database_url: str, tmp_path: Path
) -> None:
    with RunningServer(tmp_path / "data", ["--database-url", database_url]) as server:
        with http_of(server) as http:
            scenario_id = easy(http)
            other = finished(http, scenario_id)
            before = kept(server, database_url)
            job = finished(http, scenario_id)
            assert kept(server, database_url) != before

            headers = {"x-request-id": "delete-once"}
            done = good(job.post("delete", headers=headers))
            assert (done["n_trials"], done["n_scenario_runs"]) == (2, 2)
            assert done["n_objects"] >= 1
            assert done["size_bytes"] > 0
            assert good(job.post("delete", headers=headers)) == done
            assert refusal(job.post("delete"), 404)
            assert kept(server, database_url) == before
            assert other.get()["state"] == "completed"

            cut_short = finished(http, scenario_id)
        deleting = threading.Thread(target=_until_the_end, args=(server, cut_short.id))
        deleting.start()
        with http_of(server) as http:
            eventually(lambda: http.get(f"{JOBS}/{cut_short.id}").status_code, 404)
        server.kill()
        deleting.join()
        server.start()
        eventually(lambda: kept(server, database_url), before)

        with http_of(server) as http:
            noted = finished(http, scenario_id)
            runs = [
                good(http.get(f"/v1/scenarios/runs/{trial['scenario_run_id']}"))
                for trial in noted.get("/trials")["trials"]
            ]
            parents = [each["benchmark_run_id"] for each in noted.get()["benchmark_outcomes"]]
        server.kill()
        removal = Removal(
            id=f"rmv_{noted.id}",
            create_time_ms=1,
            kind="job",
            subject=noted.id,
            benchmark_run_ids=parents,
            runs=[RemovedRun(id=run["id"], devbox_id=run["devbox_id"]) for run in runs],
        )
        asyncio.run(_note(database_url, removal))
        server.start()
        eventually(lambda: kept(server, database_url), before)


def _until_the_end(server: RunningServer, job_id: str) -> None:
    with http_of(server) as http:
        try:
            http.post(f"{JOBS}/{job_id}/delete")
        except httpx.HTTPError:
            # The server was killed.
            return


async def _note(url: str, removal: Removal) -> None:
    """What a server that was killed right after it began to delete a job leaves."""
    async with Store(url) as store:
        await store.collection("removals", Removal).insert(removal)
        jobs = TABLES["benchmark_jobs"]
        await store.write(
            lambda connection: connection.execute(delete(jobs).where(jobs.c.id == removal.subject)).rowcount
        )


def test_running_job_blocks_deletion(http: httpx.Client) -> None:
    scenario_id = easy(http, "waits")
    benchmark = good(http.post("/v1/benchmarks", json={"name": "waits", "scenario_ids": [scenario_id]}))
    spec = {
        "type": "benchmark",
        "benchmark_id": benchmark["id"],
        "agent_configs": [agent("until [ -e /tmp/never ]; do sleep 0.1; done")],
    }
    job = Job(http, spec)
    job.reaches("running")
    assert f"benchyard job cancel {job.id}" in refusal(job.post("delete"), 409)
    said = refusal(http.post(f"/v1/benchmarks/{benchmark['id']}/delete"), 409)
    assert f"benchyard job cancel {job.id}" in said
    good(job.post("rename", {"name": "while it runs"}))
    assert job.get()["name"] == "while it runs"
    good(job.post("cancel"))
    eventually(lambda: job.get()["state"], "cancelled")
    assert job.get()["name"] == "while it runs"

    run = Run(http, good(http.post("/v1/scenarios/start_run", json={"scenario_id": scenario_id})))
    run.reaches("running")
    assert "run cancel" in refusal(run.post("delete"), 409)
    good(run.post("cancel"))
    trial = job.get("/trials")["trials"][0]
    of_job = http.post(f"/v1/scenarios/runs/{trial['scenario_run_id']}/delete")
    assert f"job delete {job.id}" in refusal(of_job, 409)
    assert good(run.post("delete"))["n_scenario_runs"] == 1
    assert refusal(http.get(f"/v1/scenarios/runs/{run.id}"), 404)
    assert refusal(http.get(f"/v1/devboxes/{run.devbox.id}"), 404)
    good(job.post("delete"))


def test_a_benchmark_run_is_deleted_with_its_scenario_runs(http: httpx.Client) -> None:
    scenario_id = easy(http, "of a benchmark run")
    benchmark = good(http.post("/v1/benchmarks", json={"name": "by hand", "scenario_ids": [scenario_id]}))
    whole = good(http.post("/v1/benchmarks/start_run", json={"benchmark_id": benchmark["id"]}))
    body = {"scenario_id": scenario_id, "benchmark_run_id": whole["id"]}
    run = Run(http, good(http.post("/v1/scenarios/start_run", json=body)))
    run.reaches("running")
    path = f"/v1/benchmark_runs/{whole['id']}"
    assert "run cancel" in refusal(http.post(f"{path}/delete"), 409)
    good(http.post(f"{path}/cancel"))
    assert good(http.post(f"{path}/delete"))["n_scenario_runs"] == 1
    assert refusal(http.get(path), 404)
    assert refusal(http.get(f"/v1/scenarios/runs/{run.id}"), 404)


def test_results_stay_readable_without_their_benchmark_and_its_scenarios(
    http: httpx.Client, server: RunningServer
) -> None:
    stored = good(http.post("/v1/objects", json={"name": "tests.tgz", "content_type": "tgz"}))
    good(http.put(stored["upload_url"], content=b"tests"))
    good(http.post(f"/v1/objects/{stored['id']}/complete"))
    scenario_id = easy(http, "gone soon", attachments={"tests": stored["id"]})
    benchmark = good(http.post("/v1/benchmarks", json={"name": "gone soon", "scenario_ids": [scenario_id]}))
    spec = {"type": "benchmark", "benchmark_id": benchmark["id"], "agent_configs": [agent("echo 1 > answer")]}
    job = Job(http, spec)
    job.completed()
    assert "--with-scenarios" in refusal(http.post(f"/v1/scenarios/{scenario_id}/delete"), 409)

    path = f"/v1/benchmarks/{benchmark['id']}"
    done = good(http.post(f"{path}/delete", json={"with_scenarios": True}))
    assert done == {"id": benchmark["id"], "name": "gone soon", "scenario_ids": [scenario_id]}
    assert refusal(http.get(path), 404)
    assert refusal(http.get(f"/v1/scenarios/{scenario_id}"), 404)
    view = job.get()
    assert view["job_source"]["benchmark_name"] == "gone soon"
    assert view["benchmark_outcomes"][0]["mean_score"] == 1.0
    run_id = view["benchmark_outcomes"][0]["scenario_outcomes"][0]["scenario_run_id"]
    assert good(http.get(f"/v1/scenarios/runs/{run_id}"))["scenario"]["name"] == "gone soon"
    assert good(http.get(f"/v1/objects/{stored['id']}"))["state"] == "READ_ONLY"

    good(job.post("delete"))
    assert refusal(http.get(f"/v1/objects/{stored['id']}"), 404)
    assert not list((server.data / "objects" / stored["id"]).glob("*"))


def test_public_benchmarks_cannot_be_deleted(http: httpx.Client) -> None:
    public = good(http.get("/v1/benchmarks/list_public"))["benchmarks"]
    quickstart = next(each for each in public if each["name"] == "quickstart")
    assert refusal(http.post(f"/v1/benchmarks/{quickstart['id']}/delete"), 403)
    scenario_id = quickstart["scenario_ids"][0]
    assert refusal(http.post(f"/v1/scenarios/{scenario_id}/delete"), 403)


def test_old_results_go_and_pinned_jobs_stay(http: httpx.Client) -> None:
    scenario_id = easy(http, "old")
    pinned, loose = finished(http, scenario_id), finished(http, scenario_id)
    assert good(pinned.post("pin"))["pinned"] is True
    alone = Run(http, good(http.post("/v1/scenarios/start_run", json={"scenario_id": scenario_id})))
    good(alone.post("cancel"))
    assert "--keep-results" in refusal(http.post("/v1/server/collect", json={}), 400)
    assert refusal(http.post("/v1/server/collect", json={"keep_days": 0}), 400)

    kept_all = good(http.post("/v1/server/collect", json={"keep_days": 1}))
    assert (kept_all["n_removed"], kept_all["removed"]) == (0, [])
    asked = {"keep_days": 1e-9, "dry_run": True}
    would = good(http.post("/v1/server/collect", json=asked))
    ids = {each["id"] for each in would["removed"]}
    assert {loose.id, alone.id} <= ids
    assert pinned.id not in ids
    assert (would["n_pinned"], would["n_removed"]) == (1, len(ids))
    assert would["size_bytes"] > 0
    assert loose.get()["state"] == "completed"

    done = good(http.post("/v1/server/collect", json={**asked, "dry_run": False}))
    assert {loose.id, alone.id} <= {each["id"] for each in done["removed"]}
    assert refusal(http.get(f"{JOBS}/{loose.id}"), 404)
    assert refusal(http.get(f"/v1/scenarios/runs/{alone.id}"), 404)
    assert pinned.get()["pinned"] is True
    good(pinned.post("unpin"))
    good(pinned.post("delete"))


def test_objects_are_listed_by_who_made_them_and_counted_by_kind(http: httpx.Client) -> None:
    stored = good(http.post("/v1/objects", json={"name": "mine.txt", "content_type": "text"}))
    good(http.put(stored["upload_url"], content=b"x" * 1000))
    good(http.post(f"/v1/objects/{stored['id']}/complete"))
    before = {each["kind"]: each for each in good(http.get("/v1/server/disk"))["kinds"]}
    assert before["objects"]["size_bytes"] >= 1000
    job = finished(http, easy(http, "with files"))

    def listed(**params: Any) -> set[str]:
        return {each["id"] for each in good(http.get("/v1/objects", params=params))["objects"]}

    users, runs = listed(origin="users", limit=1000), listed(origin="runs", limit=1000)
    assert stored["id"] in users
    assert runs
    assert users | runs == listed(limit=1000)
    assert not users & runs
    view = good(http.get("/v1/server/disk"))
    assert view["is_complete"] is True
    assert view["total_bytes"] == sum(each["size_bytes"] for each in view["kinds"])
    assert {"images", "final states", "devboxes", "executions", "database"} <= before.keys()
    good(job.post("delete"))
    assert not listed(origin="runs", limit=1000)
