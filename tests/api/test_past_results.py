"""Baselines, webhooks, trends and insights over the wire and by the command line, on stored jobs."""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import queue
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchyard.engine import past_results
from benchyard.models.benchmarks import Benchmark
from benchyard.models.jobs import Job, JobSource
from benchyard.models.runs import BenchmarkRun
from benchyard.models.scenarios import InputContext, Scenario, ScoringContract
from benchyard.models.trials import Trial
from benchyard.models.webhooks.delivery import WebhookDelivery
from benchyard.models.webhooks.webhook import Webhook
from benchyard.store.database import Store
from benchyard.store.trial_facts import TrialFactTable
from benchyard.testing.server import RunningServer
from tests.api.devbox import eventually, good, refusal
from tests.api.test_comparisons import SCENARIOS, stored
from tests.cli.conftest import CommandLine

BENCHMARK = "bmk_1"
FUNCTION = {
    "name": "s",
    "weight": 1.0,
    "scorer": {"type": "bash_script_scorer", "bash_script": "echo 1.0"},
}
LEFT = '{"type":"job.ended"}'
CONTRACT = ScoringContract.model_validate({"scoring_function_parameters": [FUNCTION]})
SOURCE = {"source": JobSource(type="benchmark", benchmark_id=BENCHMARK, benchmark_name="bench")}
MADE = [
    stored("bmj_a", "first", {"good": 0.9, "bad": 0.1}, attempts=2),
    stored("bmj_b", "second", {"good": 0.9}),
    stored("bmj_c", "third", {"good": 0.2}),
]
UNSCORED = stored("bmj_none", "nothing scored", {"good": 0.9, "bad": 0.9})
JOBS = [
    (made.model_copy(update={**SOURCE, "end_time_ms": 1000 * (at + 1)}), trials)
    for at, (made, trials) in enumerate(MADE)
]
# Of the second agent, no trial has a score.
JOBS.append((UNSCORED[0], [each if each.agent == 0 else each.never_begun(5) for each in UNSCORED[1]]))


class Receiver:
    """A server that keeps what it is told, on this machine."""

    def __init__(self) -> None:
        self.seen: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.seen.put(({key.lower(): value for key, value in self.headers.items()}, body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                del format, args

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def told(self) -> tuple[dict[str, str], dict[str, Any], bytes]:
        """Return the next event with its headers; fails if none comes."""
        headers, body = self.seen.get(timeout=30)
        return headers, json.loads(body), body

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


async def _store(url: str, receiver: str) -> None:
    async with Store(url) as store:
        scenarios = store.collection("scenarios", Scenario)
        for number in range(SCENARIOS):
            await scenarios.insert(
                Scenario(
                    id=f"scn_{number}",
                    create_time_ms=1,
                    name=f"scenario {number}",
                    input_context=InputContext(problem_statement="solve it"),
                    scoring_contract=CONTRACT,
                )
            )
        ids = [f"scn_{number}" for number in range(SCENARIOS)]
        bench = Benchmark(id=BENCHMARK, create_time_ms=1, name="bench", scenario_ids=ids)
        await store.collection("benchmarks", Benchmark).insert(bench)
        for made, trials in JOBS:
            await store.collection("benchmark_jobs", Job).insert(made)
            await store.write(store.collection("trials", Trial).rows.adding(trials))
            await store.write(TrialFactTable(store).adding(trials))
        run = BenchmarkRun(
            id="bmr_sdk", create_time_ms=1, benchmark_id=BENCHMARK, state="completed", end_time_ms=5000
        )
        await store.collection("benchmark_runs", BenchmarkRun).insert(run)
        # What a killed server left: a webhook with an event that it had not delivered.
        hook = Webhook(id="whk_old", create_time_ms=1, url=receiver, events=["problem.new"])
        await store.collection("webhooks", Webhook).insert(hook)
        left = WebhookDelivery(
            id="whd_left",
            # Those of long ago are removed once they were delivered.
            create_time_ms=time.time_ns() // 1_000_000,
            webhook_id="whk_old",
            type="job.ended",
            body='{"type":"job.ended"}',
        )
        await store.collection("webhook_deliveries", WebhookDelivery).insert(left)


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[RunningServer]:
    """A server that finds ended jobs of a benchmark and an undelivered event in its database."""
    data = tmp_path_factory.mktemp("past") / "data"
    data.mkdir(mode=0o700)
    asyncio.run(_store(f"sqlite:///{data / 'benchyard.db'}", receiver.url))
    with RunningServer(data, ["--driver", "fake", "--webhook-allow", "127.0.0.1/32"]) as running:
        yield running


@pytest.fixture
def http(past: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {past.key}"}
    with httpx.Client(base_url=past.url, headers=headers, timeout=60) as client:
        yield client


@pytest.fixture
def benchyard(
    past: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line of that server."""
    monkeypatch.setenv("BENCHYARD_URL", past.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", past.key)
    return CommandLine(monkeypatch, capfd)


def test_an_event_that_a_killed_server_left_is_delivered_with_its_id(
    http: httpx.Client, receiver: Receiver
) -> None:
    headers, event, _ = receiver.told()
    assert (headers["webhook-id"], event["type"]) == ("whd_left", "job.ended")
    path = "/v1/webhooks/whk_old/deliveries?state=delivered"
    eventually(lambda: good(http.get(path))["deliveries"], "the answer noted")
    found = good(http.get(path))["deliveries"]
    assert (found[0]["id"], found[0]["attempts"], found[0]["status"]) == ("whd_left", 1, 204)


def test_a_gates_verdict_is_told_signed_and_without_secrets(http: httpx.Client, receiver: Receiver) -> None:
    asked = {"url": receiver.url, "events": ["gate.verdict"]}
    made = good(http.post("/v1/webhooks", json=asked, headers={"x-request-id": "once"}))
    assert good(http.post("/v1/webhooks", json=asked, headers={"x-request-id": "once"})) == made
    assert "secret" not in good(http.get(f"/v1/webhooks/{made['id']}"))
    once = {"x-request-id": "the gate"}
    verdict = good(http.post("/v1/gate", params={"a": "bmj_b", "b": "bmj_c"}, headers=once))
    assert good(http.post("/v1/gate", params={"a": "bmj_b", "b": "bmj_c"}, headers=once)) == verdict
    assert verdict["verdict"] == "fail"
    headers, event, body = receiver.told()
    key = base64.b64decode(made["secret"].removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert (event["type"], event["data"]["verdict"]) == ("gate.verdict", "fail")
    mean = verdict["comparison"]["b"]["score"]["mean"]
    side = {"job_id": "bmj_c", "job_name": "third", "agent": "good:m", "mean": mean}
    assert event["data"]["job"] == side
    good(http.get("/v1/gate", params={"a": "bmj_b", "b": "bmj_c"}))
    # The repetition told nothing; another request tells again.
    good(http.post("/v1/gate", params={"a": "bmj_b", "b": "bmj_b"}, headers=once))
    assert receiver.told()[1]["data"]["verdict"] == "pass"
    good(http.post("/v1/gate", params={"a": "bmj_b", "b": "bmj_b"}))
    receiver.told()
    good(http.post(f"/v1/webhooks/{made['id']}/delete"))
    assert "no webhook" in refusal(http.get(f"/v1/webhooks/{made['id']}"), 404)
    assert receiver.seen.empty()


def test_webhooks_do_not_reach_this_machine_unless_it_is_allowed(http: httpx.Client) -> None:
    told = refusal(http.post("/v1/webhooks", json={"url": "http://[::1]/"}), 400)
    assert "--webhook-allow ::1/128" in told
    assert "events" in refusal(http.post("/v1/webhooks", json={"url": "http://a.test", "events": ["x"]}), 400)


def test_the_command_makes_tries_and_deletes_webhooks(benchyard: CommandLine, receiver: Receiver) -> None:
    made = json.loads(benchyard.ok("webhook", "create", receiver.url, "--event", "problem.new", "-o", "json"))
    assert "answered with 204" in benchyard.ok("webhook", "test", made["id"])
    assert receiver.told()[1]["type"] == "test"
    assert made["id"] in benchyard.ok("webhook", "list")
    assert "delivered" in benchyard.ok("webhook", "show", made["id"])
    broken = json.loads(benchyard.ok("webhook", "create", "http://127.0.0.1:9/", "-o", "json"))
    tried = benchyard("webhook", "test", broken["id"])
    assert (tried.status, "failed: " in tried.out) == (1, True)
    assert benchyard.ok("webhook", "delete", made["id"], broken["id"]).count("deleted") == 2


def test_a_baseline_is_what_a_gate_and_a_comparison_take(benchyard: CommandLine, http: httpx.Client) -> None:
    benchyard.ok("baseline", "set", "main", "first")
    listed = json.loads(benchyard.ok("baseline", "list", "-o", "json"))
    assert {each["agent_name"] for each in listed} == {"good:m", "bad:m"}
    assert benchyard("job", "gate", "third", "--against", "main").status == 20
    assert benchyard("job", "gate", "second", "--against", "main", "--margin", "0.5").status == 0
    assert "scenario" in benchyard.ok("job", "compare", "main", "third")
    compared = good(http.get("/v1/compare", params={"a": "main", "b": "bmj_c"}))
    assert (compared["a"]["job_id"], compared["a"]["label"]) == ("bmj_a", "good:m")
    benchyard.ok("baseline", "set", "main", "bmj_b:0")
    assert good(http.get("/v1/compare", params={"a": "main", "b": "bmj_c"}))["a"]["job_id"] == "bmj_b"


def test_a_job_without_scores_is_no_baseline(benchyard: CommandLine) -> None:
    refused = benchyard("baseline", "set", "unscored", "bmj_none")
    assert refused.status != 0
    assert "agent 1 (bad:m) of job bmj_none has no score to compare with" in refused.err
    assert "benchyard job retry bmj_none" in refused.err
    assert json.loads(benchyard.ok("baseline", "list", "--name", "unscored", "-o", "json")) == []
    benchyard.ok("baseline", "set", "half", "bmj_none:0")


def test_a_job_that_a_baseline_names_stays_until_the_baseline_goes(
    benchyard: CommandLine, http: httpx.Client
) -> None:
    benchyard.ok("baseline", "set", "release", "bmj_b")
    told = refusal(http.post("/v1/benchmark_jobs/bmj_b/delete"), 409)
    assert "is the baseline" in told
    old = good(http.post("/v1/server/collect", json={"keep_days": 1, "dry_run": True}))
    assert "bmj_b" not in {each["id"] for each in old["removed"]}
    benchyard.ok("baseline", "delete", "release")
    gone = benchyard("job", "gate", "third", "--against", "release")
    assert (gone.status, "was deleted" in gone.err) == (4, True)
    assert "was deleted" in refusal(http.get("/v1/gate", params={"a": "release", "b": "bmj_c"}), 404)
    never = refusal(http.get("/v1/gate", params={"a": "never", "b": "bmj_c"}), 404)
    assert "there is no job and no baseline 'never'" in never
    for name in ("a b", "bmj_x", ""):
        assert "name" in refusal(http.post("/v1/baselines", json={"name": name, "job_id": "bmj_a"}), 400)


def test_trends_insights_and_histories_are_made_of_stored_jobs(
    http: httpx.Client, benchyard: CommandLine
) -> None:
    view = good(http.get("/v1/trends", params={"benchmark": BENCHMARK, "agent": "good"}))
    (series,) = view["series"]
    assert [point["id"] for point in series["points"]] == ["bmj_a", "bmj_b", "bmj_c"]
    assert [each.get("score_change", {}).get("is_change", False) for each in series["points"]] == [
        False,
        False,
        True,
    ]
    assert "score WORSE" in benchyard.ok("benchmark", "trends", "bench")
    insight = good(http.get(f"/v1/benchmarks/{BENCHMARK}/insights"))
    assert [row["label"] for row in insight["leaders"]] == ["good:m", "bad:m"]
    assert insight["n_common"] == SCENARIOS
    assert "PLACE" in benchyard.ok("benchmark", "insights", "bench")
    past = good(http.get("/v1/scenarios/scn_3/history"))
    assert {point["id"] for point in past["points"]} == {"bmj_a", "bmj_b", "bmj_c", "bmj_none"}
    assert "JOB OR RUN" in benchyard.ok("scenario", "history", "scenario 3")
    assert "no benchmark" in refusal(http.get("/v1/trends", params={"benchmark": "bmk_none"}), 404)
    tagged = http.get(f"/v1/benchmarks/{BENCHMARK}/insights")
    again = http.get(
        f"/v1/benchmarks/{BENCHMARK}/insights", headers={"if-none-match": tagged.headers["etag"]}
    )
    assert again.status_code == 304


def test_a_history_reads_the_newest_attempts_at_its_scenario_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_results, "MOST_ATTEMPTS", 3)
    monkeypatch.setattr(past_results, "_IDS_AT_ONCE", 2)
    data = tmp_path / "data"
    data.mkdir()
    url = f"sqlite:///{data / 'x.db'}"
    asyncio.run(_store(url, "http://127.0.0.1:9/"))

    descriptor = os.memfd_create("rows")

    async def written() -> int:
        async with Store(url) as store:
            return await past_results.PastResults(store).write_scenario("scn_3", descriptor)

    left_out = asyncio.run(written())
    with open(descriptor, "rb") as file:  # noqa: PTH123  (a descriptor)
        file.seek(0)
        jobs, groups, trials, runs = (json.loads(line) for line in file)
    # Four of the first job, one each of the second and the third, and one scored of the last.
    assert (left_out, len(trials)) == (5, 3)
    assert {row[2] for row in trials} == {"scn_3"}
    assert {row[0] for row in jobs} == {row[0] for row in trials}
    assert (groups, runs) == ([], [])


def test_trends_follow_a_job_that_ends_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"

    async def versions() -> list[object]:
        async with Store(url) as store:
            results = past_results.PastResults(store)
            found = [await results.version(BENCHMARK)]
            for made, _ in JOBS[:2]:
                await store.collection("benchmark_jobs", Job).insert(made)
                found.append(await results.version(BENCHMARK))
            return found

    assert len(set(asyncio.run(versions()))) == 3
