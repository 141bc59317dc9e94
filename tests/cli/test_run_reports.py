"""`run report|problems|table|tag|note|label`, and comparisons of benchmark runs, typed and from Python."""

import asyncio
import json
from pathlib import Path
from typing import Any

import polars
import pytest

from benchyard.client import AsyncClient, Client, Server
from benchyard.errors import Conflict
from benchyard.testing.server import RunningServer
from tests.api.test_comparisons import SCENARIOS
from tests.api.test_run_reports import runs
from tests.cli.conftest import CommandLine

__all__ = ["runs"]


@pytest.fixture
def told(
    runs: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line of a server with stored benchmark runs."""
    monkeypatch.setenv("BENCHYARD_URL", runs.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", runs.key)
    return CommandLine(monkeypatch, capfd)


def test_a_run_is_reported_as_a_job_is(told: CommandLine, tmp_path: Path) -> None:
    text = told.ok("run", "report", "bmr_good")
    assert "run:" in text
    assert f"{SCENARIOS} scenarios x 2" in text
    assert "0.900" in text
    view = json.loads(told.ok("run", "report", "bmr_good", "--cluster", "repo", "-o", "json"))
    assert (view["kind"], view["agents"][0]["score"]["n_clusters"]) == ("benchmark run", 6)
    file = tmp_path / "report.md"
    assert told.ok("run", "report", "bmr_good", "--md", str(file)).strip() == str(file)
    assert file.read_text(encoding="utf-8") == told.ok("run", "report", "bmr_good", "--md", "-")
    assert "make it first" in told("run", "report", "bmr_good", "--md", str(tmp_path / "no" / "a.md")).err
    assert told("run", "report", "no-such-run").status == 4


def test_problems_of_a_run_name_commands_that_show_its_steps(told: CommandLine) -> None:
    text = told.ok("run", "problems", "bmr_odd")
    assert "run:" in text
    assert "failed-stage" in text
    assert "benchyard run show scr_odd_" in text
    assert "benchyard trial" not in text
    view = json.loads(told.ok("run", "problems", "bmr_odd", "--signal", "failed-stage", "-o", "json"))
    assert [each["signal"] for each in view["problems"]] == ["failed-stage"]
    assert view["job_id"] == "bmr_odd"
    assert told("run", "problems", "bmr_odd", "--signal", "no-such-signal").status == 2


def test_problems_over_the_jobs_and_runs_of_a_benchmark(told: CommandLine) -> None:
    text = told.ok("benchmark", "problems", "sixty")
    assert "bmr_odd" in text
    assert "failed-stage" in text
    view = json.loads(told.ok("benchmark", "problems", "sixty", "--jobs", "3", "-o", "json"))
    assert len(view["jobs"]) == 3
    assert told("benchmark", "problems", "no-such-benchmark").status == 4


def test_tables_of_runs_and_jobs_are_for_people_and_programs(told: CommandLine) -> None:
    text = told.ok("run", "table", "bmr_good", "--limit", "3")
    head, *rows = text.splitlines()
    assert head.split() == [
        *("AGENT_LABEL", "SCENARIO_NAME", "ATTEMPT", "OUTCOME", "SCORE", "WORKING_MS", "COST_USD"),
    ]
    assert (len(rows), rows[-1]) == (
        4,
        f"... and {2 * SCENARIOS - 3} more; --limit shows more, -o json shows all",
    )
    view = json.loads(told.ok("run", "table", "bmr_good", "-o", "json", "--columns", "score, scenario_name"))
    assert (view["n"], list(view["columns"])) == (2 * SCENARIOS, ["score", "scenario_name"])
    assert "good job" not in text
    job = json.loads(told.ok("job", "table", "good job", "-o", "json"))
    assert (job["n"], "trial_id" in job["columns"]) == (SCENARIOS, True)
    assert "mine:m" in told.ok("job", "table", "good job", "--columns", "agent_label,score")
    assert "no column" in told("job", "table", "good job", "--columns", "nothing").err
    assert told("job", "table", "good job", "--columns", ",").status == 2
    assert told("job", "table", "no-such-job").status == 4


def test_a_summary_can_leave_the_scenarios_out(told: CommandLine) -> None:
    view = json.loads(told.ok("job", "summary", "good job", "--without-scenarios", "-o", "json"))
    assert view["benchmark_outcomes"][0]["scenario_outcomes"] == []
    assert view["benchmark_outcomes"][0]["mean_score"] > 0.7
    assert "mine" in told.ok("job", "summary", "bmj_good", "--without-scenarios")
    for flag in (["-e"], ["--fail-under", "0"], ["--suspect", "fail"]):
        assert told("job", "summary", "good job", "--without-scenarios", *flag).status == 2


def test_runs_are_compared_gated_and_kept_as_baselines(told: CommandLine, tmp_path: Path) -> None:
    text = told.ok("job", "compare", "bmr_good", "bmr_bad")
    assert "mine:m" in text
    pair = json.loads(told.ok("job", "compare", "good job", "bmr_good", "-o", "json"))["comparisons"]
    assert [(each["a"]["job_id"], each["b"]["job_id"]) for each in pair] == [("bmj_good", "bmr_good")]
    # A run is found by its name where no job has it.
    assert told("job", "gate", "bmr_bad", "--against", "good job").status == 20
    junit, md = tmp_path / "gate.xml", tmp_path / "gate.md"
    files = ("--junit", str(junit), "--md", str(md))
    assert told("job", "gate", "bmr_good", "--against", "bmr_bad", *files).status == 0
    assert "bmr_good" in junit.read_text(encoding="utf-8")
    assert "passed" in md.read_text(encoding="utf-8")
    assert "bmr_good" in told.ok("baseline", "set", "typed", "bmr_good")
    gates = json.loads(told("job", "gate", "bmr_bad", "--against", "typed", "-o", "json").out)["gates"]
    assert [(each["verdict"], each["comparison"]["a"]["job_id"]) for each in gates] == [("fail", "bmr_good")]
    refused = told("run", "delete", "bmr_good", "--yes")
    assert (refused.status, "baseline delete typed" in refused.err) == (5, True)
    told.ok("baseline", "delete", "typed")
    assert told("job", "compare", "bmr_job", "bmr_bad").status == 5
    assert told("job", "compare", "bmr_good").status == 2


def test_runs_are_tagged_noted_and_judged(told: CommandLine) -> None:
    assert told.ok("run", "tag", "bmr_empty", "one", "two").split() == ["bmr_empty", "one", "two"]
    assert told.ok("run", "tag", "scr_bad_5", "one").split() == ["scr_bad_5", "one"]
    listed = json.loads(told.ok("run", "list", "--tag", "one", "-o", "json"))
    assert {each["id"] for each in listed} == {"bmr_empty", "scr_bad_5"}
    assert json.loads(told.ok("run", "tag", "bmr_empty", "two", "--remove", "-o", "json"))["tags"] == ["one"]
    assert told.ok("run", "note", "bmr_empty", "a\x1bnote").startswith("bmr_empty  a")
    shown = told.ok("run", "show", "bmr_empty")
    assert "tags:" in shown
    assert "\x1b" not in shown
    judged = json.loads(told.ok("run", "label", "scr_bad_5", "correct=no", "-o", "json"))
    assert [each["value"] for each in judged["labels"]] == ["no"]
    assert "correct=no by" in told.ok("run", "show", "scr_bad_5")
    assert "0 labels" in told.ok("run", "label", "scr_bad_5", "correct=")
    assert "run list --of bmr_empty" in told("run", "label", "bmr_empty", "correct=no").err
    assert told("run", "label", "scr_bad_5", "correct").status == 2
    assert told("run", "tag", "scr_trial", "x").status == 5


@pytest.mark.parametrize(
    "verb",
    [["run", each] for each in ("report", "problems", "table", "tag", "note", "label")]
    + [["job", "table"], ["benchmark", "problems"]],
)
def test_each_verb_has_examples(told: CommandLine, verb: list[str]) -> None:
    text = told.ok(*verb, "--help")
    assert f"benchyard {' '.join(verb)} " in text.partition("Usage:")[2].partition("\n")[2]


def test_python_has_the_same_verbs_in_both_clients(runs: RunningServer) -> None:
    server = Server(runs.url, runs.key)

    async def awaited() -> list[Any]:
        async with AsyncClient(server) as client:
            own = client.benchmark_runs
            noted = await own.annotate("bmr_bad", add_tags=["python"])
            label = await client.scenarios.runs.label("scr_bad_7", "fair", "yes")
            return [
                (await own.report("bmr_bad")).agents[0].score,
                (await own.table("bmr_bad", ["score"])).n,
                (await own.problems("bmr_bad")).job_id,
                (await client.jobs.compare("bmr_good", "bmr_bad")).n_shared,
                noted.tags,
                [each.value for each in label.labels],
                [each.id async for each in own.list(tag="python")],
            ]

    score, n, job_id, n_shared, tags, labels, found = asyncio.run(awaited())
    assert (score.mean, n, job_id, n_shared) == (0.0, SCENARIOS, "bmr_bad", SCENARIOS)
    assert (tags, labels, found) == (["python"], ["yes"], ["bmr_bad"])
    with Client(server) as client:
        frame = client.benchmark_runs.frame("bmr_good", "polars", ["scenario_name", "score"])
        assert isinstance(frame, polars.DataFrame)
        assert frame.shape == (2 * SCENARIOS, 2)
        assert client.jobs.gate("bmr_good", "bmr_good").verdict == "pass"
        assert client.baselines.set("python", "bmr_good")[0].agent_name == "mine:m"
        with pytest.raises(Conflict):
            client.benchmark_runs.delete("bmr_good")
        client.baselines.delete(client.baselines.list(name="python")[0].id)
        view = client.scenarios.runs.annotate("scr_bad_7", note="seen")
        assert (view.note, view.labels[0].name) == ("seen", "fair")
        client.benchmark_runs.annotate("bmr_bad", remove_tags=["python"])
