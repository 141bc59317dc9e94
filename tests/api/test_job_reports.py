"""Reports and tables of stored jobs over the wire, and the report of a benchmark run."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchyard.models.benchmarks import Benchmark
from benchyard.models.jobs import Job, JobState
from benchyard.models.reports.job_report import ReportView
from benchyard.models.runs import BenchmarkRun, ContractResult, RunState, ScenarioRun
from benchyard.models.scenarios import Scenario
from benchyard.models.trials import Trial
from benchyard.store.database import Store
from benchyard.testing.server import RunningServer
from tests.api.devbox import good, refusal
from tests.api.test_comparisons import SCENARIOS, stored
from tests.reports.scenes import job

HOSTILE = '=cmd|" /C calc"!A1,<script>alert(1)</script>'


def _jobs() -> list[tuple[Job, list[Trial]]]:
    empty = job(state=JobState.COMPLETED).model_copy(update={"id": "bmj_empty", "name": "empty"})
    odd, rows = stored("bmj_odd", "odd", {"good": 0.5, "bad": 0.5})
    rows[0] = rows[0].model_copy(update={"scenario_name": HOSTILE})
    return [
        stored("bmj_seen", "seen", {"good": 0.9, "middle": 0.85, "bad": 0.1}, attempts=3),
        (empty, []),
        (odd, rows),
    ]


async def _store(url: str) -> None:
    async with Store(url) as store:
        for made, trials in _jobs():
            await store.collection("benchmark_jobs", Job).insert(made)
            await store.write(store.collection("trials", Trial).rows.adding(trials))
        for number in range(3):
            scenario = {"id": f"scn_{number}", "create_time_ms": 1, "name": f"s{number}"}
            metadata = {"repo": "x" if number else "y"}
            made_scenario = Scenario.model_validate({**SCENARIO, **scenario, "metadata": metadata})
            await store.collection("scenarios", Scenario).insert(made_scenario)
        ids = [f"scn_{number}" for number in range(3)]
        await store.collection("benchmarks", Benchmark).insert(
            Benchmark(id="bmk_1", create_time_ms=1, name="three", scenario_ids=ids)
        )
        run = BenchmarkRun(
            id="bmr_1",
            create_time_ms=1,
            benchmark_id="bmk_1",
            scenario_ids=ids,
            state="completed",
            end_time_ms=9,
        )
        await store.collection("benchmark_runs", BenchmarkRun).insert(run)
        for number, (score, state) in enumerate(((1.0, "completed"), (None, "timeout"), (None, "canceled"))):
            result = None if score is None else ContractResult(score=score, scoring_function_results=[])
            await store.collection("scenario_runs", ScenarioRun).insert(
                ScenarioRun(
                    id=f"scr_{number}",
                    create_time_ms=1,
                    end_time_ms=9,
                    scenario_id=f"scn_{number}",
                    benchmark_run_id="bmr_1",
                    devbox_id="dbx_1",
                    state=RunState(state),
                    result=result,
                )
            )


SCENARIO: dict[str, Any] = {
    "input_context": {"problem_statement": "Do it."},
    "scoring_contract": {
        "scoring_function_parameters": [
            {"name": "s", "weight": 1, "scorer": {"type": "command_scorer", "command": "true"}}
        ]
    },
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that finds jobs and a benchmark run in its database."""
    data = tmp_path_factory.mktemp("job-reports") / "data"
    data.mkdir(mode=0o700)
    asyncio.run(_store(f"sqlite:///{data / 'benchyard.db'}"))
    with RunningServer(data, ["--driver", "fake"]) as running:
        yield running


@pytest.fixture
def http(reports: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {reports.key}"}
    with httpx.Client(base_url=reports.url, headers=headers, timeout=60) as client:
        yield client


def test_a_report_has_every_figure_with_what_it_rests_on(http: httpx.Client) -> None:
    view = ReportView.model_validate(good(http.get("/v1/benchmark_jobs/bmj_seen/report")))
    first, second, last = view.agents
    assert (view.n_planned, view.n_ended) == (3 * 3 * SCENARIOS, 3 * 3 * SCENARIOS)
    assert first.score is not None
    assert (first.score.n, first.score.method) == (SCENARIOS, "wilson, effective n")
    assert [point.k for point in first.pass_curve] == [1, 2, 3]
    assert first.pass_curve[2].all_pass.mean < first.score.mean < first.pass_curve[2].any_passes.mean
    assert view.groups == [[0, 1], [2]]
    assert last.against_first is not None
    assert last.against_first.p_adjusted < 0.001 < ((second.against_first and second.against_first.p) or 0)
    assert view.power is not None
    assert {row.attempts for row in view.power.rows} == {1, 3, 5, 10}
    assert view.scenarios.n_flaky > 0
    assert view.scenarios.flaky[0].agent is not None


def test_a_report_is_compressed_and_known_again_by_its_tag(http: httpx.Client) -> None:
    path = "/v1/benchmark_jobs/bmj_seen/report"
    first = http.get(path)
    assert first.headers["content-encoding"] == "gzip"
    again = http.get(path, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_scenarios_are_grouped_by_a_key_of_their_metadata(http: httpx.Client) -> None:
    path = "/v1/benchmark_jobs/bmj_seen/report"
    grouped = good(http.get(path, params={"cluster": "repo"}))
    # scn_1 and scn_2 are one group; scenarios without the key are their own.
    assert grouped["agents"][0]["score"]["n_clusters"] == SCENARIOS - 1
    assert grouped["cluster_key"] == "repo"
    assert "metadata" in refusal(http.get(path, params={"cluster": "nothing"}), 400)


def test_groups_that_change_are_seen_in_the_next_report(http: httpx.Client) -> None:
    path = "/v1/benchmark_jobs/bmj_odd/report"
    before = good(http.get(path, params={"cluster": "repo"}))["agents"][0]["score"]["n_clusters"]
    kept = good(http.get("/v1/scenarios/scn_1"))["metadata"]
    good(http.post("/v1/scenarios/scn_1", json={"metadata": {"repo": "z"}}))
    assert good(http.get(path, params={"cluster": "repo"}))["agents"][0]["score"]["n_clusters"] == before + 1
    good(http.post("/v1/scenarios/scn_1", json={"metadata": kept}))
    assert good(http.get(path, params={"cluster": "repo"}))["agents"][0]["score"]["n_clusters"] == before


def test_a_job_without_trials_has_a_report_all_the_same(http: httpx.Client) -> None:
    view = good(http.get("/v1/benchmark_jobs/bmj_empty/report"))
    assert view["notes"] == ["nothing was scored"]
    assert "score" not in view["agents"][0]
    table = good(http.get("/v1/benchmark_jobs/bmj_empty/table"))
    assert table["n"] == 0
    assert table["columns"]["score"]["values"] == []


def test_a_table_has_the_columns_that_are_asked_for(http: httpx.Client) -> None:
    path = "/v1/benchmark_jobs/bmj_odd/table"
    table = good(http.get(path, params={"columns": "scenario_name,score,agent_label,outcome"}))
    assert list(table["columns"]) == ["scenario_name", "score", "agent_label", "outcome"]
    names, scores = table["columns"]["scenario_name"], table["columns"]["score"]["values"]
    assert (table["n"], len(scores), len(names["codes"])) == (2 * SCENARIOS,) * 3
    assert names["dictionary"][names["codes"][0]] == HOSTILE
    outcomes = table["columns"]["outcome"]
    shown = [outcomes["dictionary"][code] for code in outcomes["codes"]]
    assert [each == "passed" for each in shown] == [score == 1.0 for score in scores]
    told = refusal(http.get(path, params={"columns": "score,nonsense"}), 400)
    assert "'nonsense'" in told
    assert "counted_score" in told
    assert refusal(http.get("/v1/benchmark_jobs/bmj_none/table"), 404)


def test_a_benchmark_run_is_reported_as_a_job_with_one_agent(http: httpx.Client) -> None:
    for path in ("/v1/benchmark_runs/bmr_1/report", "/v1/benchmarks/runs/bmr_1/report"):
        view = good(http.get(path, params={"cluster": "repo"}))
        agent = view["agents"][0]
        assert (view["kind"], view["benchmark_name"]) == ("benchmark run", "three")
        assert (agent["score"]["mean"], agent["score"]["n"], agent["score"]["n_clusters"]) == (0.5, 2, 2)
        assert agent["bounds"] == [pytest.approx(1 / 3), pytest.approx(2 / 3)]
        assert agent["attempts"] == {"passed": 1, "not_passed": 0, "crashed": 1, "unscored": 1}
