"""Benchmark runs of the SDK over the wire, reported and compared as jobs with one agent; notes on runs."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from benchyard.models.benchmarks import Benchmark
from benchyard.models.jobs import JOB_KEY, TRIAL_KEY, Job, JobSource
from benchyard.models.reports.problems import ProblemsView
from benchyard.models.runs import BenchmarkRun, ContractResult, RunState, ScenarioRun
from benchyard.models.scenarios import Scenario
from benchyard.models.trials import Trial
from benchyard.store.database import Store
from benchyard.store.tables import TABLES, TAGS
from benchyard.testing.server import RunningServer
from tests.api.devbox import good, refusal
from tests.api.test_comparisons import SCENARIOS, stored
from tests.api.test_job_reports import SCENARIO

IDS = [f"scn_{number}" for number in range(SCENARIOS)]
AGENT = {"agent": "mine", "model": "m"}


def scored(id: str, parent: str, scenario: int, score: float | None, **fields: Any) -> ScenarioRun:
    """Return a scenario run that has ended."""
    result = None if score is None else ContractResult(score=score, scoring_function_results=[])
    return ScenarioRun.model_validate(
        {
            "id": id,
            "create_time_ms": 1,
            "end_time_ms": 9,
            "scenario_id": IDS[scenario],
            "benchmark_run_id": parent,
            "devbox_id": "dbx_1",
            "state": RunState.COMPLETED,
            "result": result,
            **fields,
        }
    )


def benchmark_run(id: str, **fields: Any) -> BenchmarkRun:
    """Return a benchmark run that has ended."""
    given = {"name": id, "metadata": AGENT, "state": "completed", "end_time_ms": 9, **fields}
    return BenchmarkRun.model_validate(
        {"id": id, "create_time_ms": 1, "benchmark_id": "bmk_1", "scenario_ids": IDS, **given}
    )


def everything() -> list[tuple[BenchmarkRun, list[ScenarioRun]]]:
    """Return a good run with two attempts at each scenario, and others."""
    good_runs = [
        scored(f"scr_good_{number}_{attempt}", "bmr_good", number, float(number % 10 > 0))
        for number in range(SCENARIOS)
        for attempt in (1, 2)
    ]
    bad_runs = [scored(f"scr_bad_{number}", "bmr_bad", number, 0.0) for number in range(SCENARIOS)]
    odd_runs = [
        scored("scr_odd_0", "bmr_odd", 0, None, state="timeout"),
        scored("scr_odd_1", "bmr_odd", 1, None, state="failed", failure_reason="the devbox\x00 broke"),
        scored("scr_odd_2", "bmr_odd", 2, 0.5, usage={"cost_usd": 0.25, "model_calls": 3}),
        scored("scr_odd_3", "bmr_odd", 3, None, is_reference=True),
        scored("scr_odd_4", "bmr_odd", 3, 1.0, scenario_id="scn_elsewhere"),
    ]
    open_runs = [scored("scr_open_0", "bmr_open", 0, 1.0)]
    of_job = {"metadata": {JOB_KEY: "bmj_good"}}
    of_trial = {"metadata": {JOB_KEY: "bmj_good", TRIAL_KEY: "trl_bmj_good_0_0_1"}}
    return [
        (benchmark_run("bmr_bad"), bad_runs),
        (benchmark_run("bmr_good"), good_runs),
        (benchmark_run("bmr_odd", metadata={"agent": "two\nlines"}, name=None), odd_runs),
        (benchmark_run("bmr_open", state="running", end_time_ms=None), open_runs),
        (benchmark_run("bmr_empty", scenario_ids=[], metadata={}), []),
        (benchmark_run("bmr_job", **of_job), [scored("scr_trial", "bmr_job", 0, 1.0, **of_trial)]),
    ]


async def _store(url: str) -> None:
    made, trials = stored("bmj_good", "good job", {"mine": 0.9})
    source = JobSource(type="benchmark", benchmark_id="bmk_1", benchmark_name="sixty")
    async with Store(url) as store:
        await store.collection("benchmark_jobs", Job).insert(made.model_copy(update={"source": source}))
        await store.write(store.collection("trials", Trial).rows.adding(trials))
        for number, id in enumerate(IDS):
            metadata = {"repo": str(number % 6)}
            told = {"id": id, "create_time_ms": 1, "name": f"s{number}", "metadata": metadata}
            made_scenario = Scenario.model_validate({**SCENARIO, **told})
            await store.collection("scenarios", Scenario).insert(made_scenario)
        await store.collection("benchmarks", Benchmark).insert(
            Benchmark(id="bmk_1", create_time_ms=1, name="sixty", scenario_ids=IDS)
        )
        for run, children in everything():
            await store.collection("benchmark_runs", BenchmarkRun).insert(run)
            await store.write(store.collection("scenario_runs", ScenarioRun).rows.adding(children))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that finds benchmark runs and a job in its database."""
    data = tmp_path_factory.mktemp("run-reports") / "data"
    data.mkdir(mode=0o700)
    asyncio.run(_store(f"sqlite:///{data / 'benchyard.db'}"))
    with RunningServer(data, ["--driver", "fake"]) as running:
        yield running


@pytest.fixture
def http(runs: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {runs.key}"}
    with httpx.Client(base_url=runs.url, headers=headers, timeout=60) as client:
        yield client


def column(table: dict[str, Any], name: str) -> list[Any]:
    """Return the values of a column."""
    found = table["columns"][name]
    return found["values"] if "values" in found else [found["dictionary"][code] for code in found["codes"]]


def test_a_table_has_each_run_as_an_attempt(http: httpx.Client) -> None:
    wanted = "trial_id,agent_label,scenario_name,attempt,outcome,score,state,working_ms"
    table = good(http.get("/v1/benchmark_runs/bmr_good/table", params={"columns": wanted}))
    assert table["n"] == 2 * SCENARIOS
    assert column(table, "trial_id")[:3] == ["scr_good_0_1", "scr_good_0_2", "scr_good_1_1"]
    assert column(table, "attempt")[:4] == [1, 2, 1, 2]
    assert set(column(table, "agent_label")) == {"mine:m"}
    assert column(table, "scenario_name")[2] == "s1"
    assert column(table, "outcome")[:3] == ["not_passed", "not_passed", "passed"]
    assert set(column(table, "working_ms")) == {8}
    assert "no column" in refusal(http.get("/v1/benchmark_runs/bmr_good/table?columns=nothing"), 400)


def test_a_table_tells_what_became_of_runs_without_a_score(http: httpx.Client) -> None:
    columns = "trial_id,outcome,counted_score,failure,cost_usd,agent_label"
    table = good(http.get("/v1/benchmark_runs/bmr_odd/table", params={"columns": columns}))
    assert column(table, "trial_id") == ["scr_odd_0", "scr_odd_1", "scr_odd_2"]
    assert column(table, "outcome") == ["crashed", "unscored", "not_passed"]
    assert column(table, "counted_score") == [0.0, None, 0.5]
    assert column(table, "failure") == ["timeout", "infrastructure", None]
    assert column(table, "cost_usd") == [None, None, 0.25]
    assert set(column(table, "agent_label")) == {"two lines"}
    assert good(http.get("/v1/benchmark_runs/bmr_empty/table"))["n"] == 0


def test_two_runs_are_compared_as_jobs_are(http: httpx.Client) -> None:
    view = good(http.get("/v1/compare", params={"a": "bmr_good", "b": "bmr_bad", "cluster": "repo"}))
    assert (view["a"]["label"], view["a"]["job_id"]) == ("mine:m", "bmr_good")
    assert view["b"]["job_name"] == "bmr_bad"
    assert (view["n_shared"], view["difference"]["n_clusters"]) == (SCENARIOS, 6)
    assert view["difference"]["high"] < -0.5
    assert (view["flips"]["won"], view["flips"]["lost"]) == (0, SCENARIOS * 9 // 10)
    assert view["scenarios"][0]["run_a"].startswith("scr_good_")
    assert view["setup"] == []
    same = good(http.get("/v1/gate", params={"a": "bmr_good", "b": "bmr_good"}))
    assert (same["verdict"], same["comparison"]["is_same"]) == ("pass", True)


def test_a_run_and_a_job_are_compared_and_what_is_not_known_of_a_run_is_told(http: httpx.Client) -> None:
    for a, b in (("bmj_good", "bmr_good"), ("bmr_good", "bmj_good:mine")):
        view = good(http.get("/v1/compare", params={"a": a, "b": b}))
        assert view["n_shared"] == SCENARIOS
        whats = {each["what"] for each in view["setup"]}
        assert "time limits, retries and concurrency" in whats
        assert "concurrent trials" not in whats
    worse = good(http.get("/v1/gate", params={"a": "bmj_good", "b": "bmr_bad", "margin": 0.02}))
    assert worse["verdict"] == "fail"
    told = good(http.post("/v1/gate", params={"a": "bmr_bad", "b": "bmr_good", "margin": 0.02}))
    assert told["verdict"] == "pass"


def test_a_run_that_goes_on_is_judged_by_what_holds_at_every_look(http: httpx.Client) -> None:
    view = good(http.get("/v1/gate", params={"a": "bmr_good", "b": "bmr_open"}))
    assert view["verdict"] == "inconclusive"
    assert view["comparison"]["running"]["n_planned"] == SCENARIOS
    assert view["comparison"]["running"]["n"] == 1
    assert any("still running" in note for note in view["comparison"]["notes"])


def test_a_run_of_a_job_names_its_job(http: httpx.Client) -> None:
    own = "benchmark_runs/bmr_job"
    for path in (f"{own}/table", f"{own}/problems", "compare?a=bmr_job&b=bmr_bad"):
        assert "benchyard job summary bmj_good" in refusal(http.get(f"/v1/{path}"), 409)
    refusal(http.get("/v1/benchmark_runs/bmr_none/table"), 404)
    refusal(http.get("/v1/compare?a=bmr_none&b=bmr_bad"), 404)


def test_problems_of_a_run_are_found_and_new_ones_since_the_run_before(http: httpx.Client) -> None:
    view = ProblemsView.model_validate(good(http.get("/v1/benchmark_runs/bmr_odd/problems")))
    assert (view.job_id, view.n_trials, view.n_read, view.is_complete) == ("bmr_odd", 3, 3, True)
    assert view.previous_job_id == "bmr_good"
    (failed,) = (each for each in view.problems if each.signal == "failed-stage")
    assert failed.is_new
    assert {each.trial_id for each in failed.examples} <= {"scr_odd_0", "scr_odd_1"}
    over = good(http.get("/v1/problems", params={"benchmark": "sixty", "limit": 10}))
    ids = [each["job_id"] for each in over["jobs"]]
    assert {"bmj_good", "bmr_good", "bmr_odd"} <= set(ids)
    assert "bmr_job" not in ids
    assert len(good(http.get("/v1/problems", params={"benchmark": "sixty", "limit": 2}))["jobs"]) == 2


def test_a_run_is_a_baseline_and_stays_as_long(http: httpx.Client) -> None:
    (made,) = good(http.post("/v1/baselines", json={"name": "main", "job_id": "bmr_good"}))["baselines"]
    assert (made["agent_name"], made["benchmark_name"], made["job_id"]) == ("mine:m", "sixty", "bmr_good")
    view = good(http.get("/v1/gate", params={"a": "main", "b": "bmr_bad", "margin": 0.02}))
    assert (view["verdict"], view["comparison"]["a"]["job_id"]) == ("fail", "bmr_good")
    assert good(http.get("/v1/gate", params={"a": "main", "b": "bmj_good"}))["comparison"]["a"]["job_id"]
    assert "baseline delete main" in refusal(http.post("/v1/benchmark_runs/bmr_good/delete"), 409)
    kept = good(http.post("/v1/server/collect", json={"keep_days": 1, "dry_run": True}))
    removed = {each["id"] for each in kept["removed"]}
    assert "bmr_bad" in removed
    assert "bmr_good" not in removed
    assert "running" in refusal(http.post("/v1/baselines", json={"name": "main", "job_id": "bmr_open"}), 409)
    refusal(http.post("/v1/baselines", json={"name": "bmr_main", "job_id": "bmr_good"}), 400)
    told = refusal(http.post("/v1/baselines", json={"name": "main", "job_id": "bmr_empty"}), 409)
    assert "no score" in told
    assert "job retry" not in told
    good(http.post(f"/v1/baselines/{made['id']}/delete"))


def test_tags_and_notes_are_on_runs_of_both_kinds_and_lists_find_them(http: httpx.Client) -> None:
    group = good(http.post("/v1/benchmark_runs/bmr_bad/annotate", json={"add_tags": ["x"], "note": " why "}))
    assert (group["tags"], group["note"]) == (["x"], "why")
    run = good(http.post("/v1/scenarios/runs/scr_bad_1/annotate", json={"add_tags": ["x", "y"]}))
    assert run["tags"] == ["x", "y"]
    assert good(http.get("/v1/benchmark_runs/bmr_bad"))["note"] == "why"
    assert good(http.get("/v1/scenarios/runs/scr_bad_1"))["tags"] == ["x", "y"]
    groups = good(http.get("/v1/benchmark_runs", params={"tag": "x"}))
    assert [(each["id"], each["tags"]) for each in groups["runs"]] == [("bmr_bad", ["x"])]
    listed = good(http.get("/v1/scenarios/runs", params={"tag": "y"}))
    assert [(each["id"], each["tags"]) for each in listed["runs"]] == [("scr_bad_1", ["x", "y"])]
    good(http.post("/v1/scenarios/runs/scr_bad_1/annotate", json={"remove_tags": ["y"]}))
    assert good(http.get("/v1/scenarios/runs", params={"tag": "y"}))["runs"] == []
    gone = good(http.post("/v1/benchmark_runs/bmr_bad/annotate", json={"remove_tags": ["x"], "note": ""}))
    assert (gone["tags"], gone.get("note")) == ([], None)
    refusal(http.post("/v1/scenarios/runs/scr_bad_1/annotate", json={"add_tags": ["two words"]}), 400)
    refusal(http.post("/v1/scenarios/runs/scr_none/annotate", json={"add_tags": ["x"]}), 404)


def test_people_give_verdicts_on_runs(http: httpx.Client) -> None:
    path = "/v1/scenarios/runs/scr_bad_2"
    body = {"name": "correct", "value": "no", "comment": "only tests"}
    good(http.post(f"{path}/label", json={**body, "value": "yes"}))
    (label,) = good(http.post(f"{path}/label", json=body))["labels"]
    assert (label["name"], label["value"], label["comment"]) == ("correct", "no", "only tests")
    assert label["key_name"]
    (listed,) = [
        each
        for each in good(http.get("/v1/benchmark_runs/bmr_bad/scenario_runs", params={"limit": 100}))["runs"]
        if each["id"] == "scr_bad_2"
    ]
    assert listed["labels"] == [label]
    assert good(http.post(f"{path}/label", json={"name": "correct"}))["labels"] == []


def test_what_belongs_to_a_job_is_noted_there(http: httpx.Client) -> None:
    tags = {"add_tags": ["x"]}
    told = refusal(http.post("/v1/scenarios/runs/scr_trial/annotate", json=tags), 409)
    assert "trial show trl_bmj_good_0_0_1" in told
    assert "trial show" in refusal(
        http.post("/v1/scenarios/runs/scr_trial/label", json={"name": "a", "value": "b"}), 409
    )
    assert "job summary bmj_good" in refusal(http.post("/v1/benchmark_runs/bmr_job/annotate", json=tags), 409)


def test_notes_go_with_the_run_they_are_on(http: httpx.Client, runs: RunningServer) -> None:
    for id in ("scr_odd_0", "scr_odd_1"):
        good(http.post(f"/v1/scenarios/runs/{id}/annotate", json={"add_tags": ["gone"]}))
    good(http.post("/v1/benchmark_runs/bmr_odd/annotate", json={"add_tags": ["gone"]}))
    good(http.get("/v1/benchmark_runs/bmr_odd/problems"))
    findings = runs.data / "problems" / "bmr_odd.jsonl"
    assert findings.exists()
    good(http.post("/v1/scenarios/runs/scr_odd_0/delete"))
    assert asyncio.run(noted(runs)) == {"scr_odd_1", "bmr_odd"}
    good(http.post("/v1/benchmark_runs/bmr_odd/delete"))
    assert asyncio.run(noted(runs)) == set()
    assert not findings.exists()


async def noted(server: RunningServer) -> set[str]:
    """Return the ids of all that has a note in the server's database, among those that the test tagged."""
    notes = TABLES["trial_annotations"]
    async with Store(f"sqlite:///{server.data / 'benchyard.db'}") as store:
        tagged = await store.read(
            lambda connection: set(
                connection.execute(select(TAGS.c.subject).where(TAGS.c.tag == "gone")).scalars()
            )
        )
        known = await store.read(lambda connection: set(connection.execute(select(notes.c.id)).scalars()))
    assert tagged == {id for id in known if "odd" in id}
    return tagged
