"""Reports of stored jobs over the wire: views of small and large ones, comparisons and gates."""

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchyard.api.job_reports import SMALL_JOB
from benchyard.models.jobs import AgentConfig, Job, JobState
from benchyard.models.trials import Trial
from benchyard.reports.outcomes import job_view
from benchyard.store.database import Store
from benchyard.testing.server import RunningServer
from tests.api.devbox import good, refusal
from tests.cli.conftest import CommandLine
from tests.reports.scenes import job, trial

SCENARIOS = 60


def stored(id: str, name: str, chances: dict[str, float], attempts: int = 1) -> tuple[Job, list[Trial]]:
    """Return an ended job whose agents pass with these chances, and its trials."""
    chance = random.Random(name)
    made = job(agents=len(chances), scenarios=SCENARIOS, attempts=attempts, state=JobState.COMPLETED)
    configs = [AgentConfig(name=agent, model_name="m") for agent in chances]
    spec = made.spec.model_copy(update={"agent_configs": configs})
    times = {"start_time_ms": 1, "end_time_ms": 5}
    made = made.model_copy(update={"id": id, "name": name, "spec": spec, **times})
    trials = [
        trial(float(chance.random() < share), agent=agent, scenario=scenario, attempt=attempt).model_copy(
            update={"id": f"trl_{id}_{agent}_{scenario}_{attempt}", "job_id": id, **times}
        )
        for agent, share in enumerate(chances.values())
        for scenario in range(SCENARIOS)
        for attempt in range(1, attempts + 1)
    ]
    return made, trials


JOBS = [
    stored("bmj_old", "old", {"good": 0.9, "bad": 0.1}),
    stored("bmj_new", "new", {"good": 0.9, "bad": 0.1}, attempts=5),
    stored("bmj_worse", "worse", {"good": 0.2}),
    stored("bmj_twins", "twins", {"good": 0.5, "good ": 0.5}),
]


async def _store(url: str) -> None:
    async with Store(url) as store:
        for made, trials in JOBS:
            await store.collection("benchmark_jobs", Job).insert(made)
            await store.write(store.collection("trials", Trial).rows.adding(trials))


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that finds ended jobs in its database."""
    data = tmp_path_factory.mktemp("reports") / "data"
    data.mkdir(mode=0o700)
    asyncio.run(_store(f"sqlite:///{data / 'benchyard.db'}"))
    with RunningServer(data, ["--driver", "fake"]) as running:
        yield running


@pytest.fixture
def http(reports: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {reports.key}"}
    with httpx.Client(base_url=reports.url, headers=headers, timeout=60) as client:
        yield client


@pytest.mark.parametrize("index", [0, 1])
def test_views_made_on_the_loop_and_in_a_worker_are_the_same(http: httpx.Client, index: int) -> None:
    made, trials = JOBS[index]
    assert (made.n_trials > SMALL_JOB) == bool(index)
    seen = good(http.get(f"/v1/benchmark_jobs/{made.id}"))
    known = json.loads(job_view(made, trials, with_scenarios=True).model_dump_json(exclude_none=True))
    for view in (seen, known):
        view.pop("times")
        for outcome in view["benchmark_outcomes"]:
            outcome["scenario_outcomes"].sort(key=lambda row: row["scenario_definition_id"])
    assert seen == known


def test_a_view_is_compressed_and_known_again_by_its_tag(http: httpx.Client) -> None:
    path = "/v1/benchmark_jobs/bmj_new"
    first = http.get(path)
    assert first.headers["content-encoding"] == "gzip"
    plain = http.get(path, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json() == first.json()
    again = http.get(path, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = http.get(path, params={"suspect": "zero"}, headers={"if-none-match": first.headers["etag"]})
    assert other.status_code == 200


def test_a_view_can_leave_the_scenarios_out(http: httpx.Client) -> None:
    short = good(http.get("/v1/benchmark_jobs/bmj_new", params={"scenarios": "false"}))
    assert [each["scenario_outcomes"] for each in short["benchmark_outcomes"]] == [[], []]
    assert short["benchmark_outcomes"][0]["mean_score"] > 0.8
    made, trials = JOBS[1]
    known = json.loads(job_view(made, trials, with_scenarios=False).model_dump_json(exclude_none=True))
    assert (short.pop("times"), known.pop("times")) != (None, None)
    assert short == known


def test_agents_of_one_job_and_of_two_are_compared(http: httpx.Client) -> None:
    inside = good(http.get("/v1/compare", params={"a": "bmj_old:0", "b": "bmj_old:bad:m"}))
    assert inside["a"]["label"] == "good:m"
    assert inside["difference"]["mean"] < -0.5
    assert inside["p"] < 1e-6
    across = good(http.get("/v1/compare", params={"a": "bmj_old:good", "b": "bmj_new:good"}))
    assert across["difference"]["low"] < 0 < across["difference"]["high"]
    assert across["n_shared"] == SCENARIOS
    assert across["b"]["n_attempts"] == 5 * SCENARIOS
    assert across["power"]["detectable"] > 0


def test_a_gate_tells_worse_from_the_same(http: httpx.Client) -> None:
    def verdict(b: str, **query: Any) -> str:
        view = good(http.get("/v1/gate", params={"a": "bmj_old:good", "b": b, **query}))
        return str(view["verdict"])

    assert verdict("bmj_worse") == "fail"
    assert verdict("bmj_new:good", margin=0.5) == "pass"
    assert verdict("bmj_new:good", margin=0.001) == "inconclusive"
    assert verdict("bmj_old:good") == "pass"


@pytest.mark.parametrize(
    ("path", "query", "status", "words"),
    [
        ("/v1/compare", {"a": "bmj_none", "b": "bmj_worse"}, 404, "no job bmj_none"),
        ("/v1/compare", {"a": "bmj_old", "b": "bmj_worse"}, 400, "bmj_old:0 (good:m)"),
        ("/v1/compare", {"a": "bmj_old:other", "b": "bmj_worse"}, 404, "bmj_old:1 (bad:m)"),
        ("/v1/compare", {"a": "bmj_old:7", "b": "bmj_worse"}, 404, "no agent '7'"),
        ("/v1/compare", {"a": "bmj_worse", "b": "bmj_worse", "suspect": "maybe"}, 400, "suspect"),
        ("/v1/gate", {"a": "bmj_worse", "b": "bmj_worse", "margin": "2"}, 400, "margin"),
        ("/v1/gate", {"a": "bmj_worse", "b": "bmj_worse", "max_unscored": "some"}, 400, "max_unscored"),
        ("/v1/compare", {"a": "bmj_worse"}, 400, "b"),
    ],
)
def test_odd_comparisons_are_refused_with_what_there_is(
    http: httpx.Client, path: str, query: dict[str, str], status: int, words: str
) -> None:
    assert words in refusal(http.get(path, params=query), status)


@pytest.fixture
def benchyard(
    reports: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line of that server."""
    monkeypatch.setenv("BENCHYARD_URL", reports.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", reports.key)
    return CommandLine(monkeypatch, capfd)


def test_the_command_compares_agents_of_jobs(benchyard: CommandLine) -> None:
    text = benchyard.ok("job", "compare", "old", "worse")
    assert "exact Cochran-Mantel-Haenszel" in text
    assert "worse -1" in text
    assert "scenario" in text
    (one,) = json.loads(benchyard.ok("job", "compare", "old", "-o", "json"))["comparisons"]
    assert one["b"]["label"] == "bad:m"
    missing = benchyard("job", "compare", "old", "worse", "--agent", "none")
    assert (missing.status, "has no agent 'none'; it has good:m, bad:m" in missing.err) == (2, True)
    alone = benchyard("job", "compare", "worse")
    assert (alone.status, "has no second agent" in alone.err) == (2, True)


def test_the_gate_has_its_exit_statuses(benchyard: CommandLine) -> None:
    assert benchyard("job", "gate", "worse", "--against", "old").status == 20
    words = ("job", "gate", "new", "--against", "old", "--margin", "0.001")
    undecided = benchyard(*words)
    assert undecided.status == 21
    assert "inconclusive  good:m" in undecided.out
    assert benchyard(*words, "--inconclusive", "pass").status == 0
    assert benchyard(*words, "--inconclusive", "fail").status == 20
    assert benchyard("job", "gate", "new", "--against", "old", "--margin", "0.5").status == 0


def test_a_gate_writes_markdown_and_junit(benchyard: CommandLine, tmp_path: Path) -> None:
    files = tmp_path / "gate.md", tmp_path / "gate.xml"
    words = ("job", "gate", "worse", "--against", "old", "--md", str(files[0]), "--junit", str(files[1]))
    assert benchyard(*words).status == 20
    assert "| FAILED |" in files[0].read_text()
    assert 'failures="1"' in files[1].read_text()
