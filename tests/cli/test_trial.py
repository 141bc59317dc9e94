"""`benchyard trial`, `run` and `job rescore` as a user types them, against a real server."""

import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchyard.cli.job.summary import conditions_once
from benchyard.cli.run.report import StepSelection, step_lines
from benchyard.cli.run.trial import trial as trial_command
from benchyard.client import Client, Server
from benchyard.models.jobs import BenchmarkJobView
from benchyard.testing.server import RunningServer
from tests.cli.conftest import CommandLine
from tests.cli.screen import Screen

PATIENCE_SECONDS = 120.0
FIX = "quickstart/fix-a-bug"
ANSWER = "quickstart/find-the-answer"
SECRET = "a-secret-of-the-agent"
CRASHES = "printf 'red \\033[31m line\\n'; echo $HIDDEN; seq 100; echo giving up >&2; exit 3"
TRAJECTORY = {
    "schema_version": "ATIF-v1.4",
    "steps": [
        {"step_id": at, "source": "agent", "message": f"message {at}\nof two \x1b[31mlines"}
        for at in range(1, 31)
    ],
}


@pytest.fixture
def benchyard(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> CommandLine:
    """The command line of the server with the native driver, in a folder of its own."""
    monkeypatch.setenv("BENCHYARD_URL", server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", server.key)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capfd)


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[Client]:
    """A client of the same server."""
    with Client(Server(server.url, server.key)) as opened:
        yield opened


@pytest.fixture(scope="module")
def job(client: Client) -> BenchmarkJobView:
    """A job with an agent that solves, one that does nothing and one that crashes, two attempts each."""
    name = f"HIDDEN_{secrets.token_hex(4)}"
    client.secrets.create(name, SECRET)
    crashing = {
        "name": "command",
        "kwargs": {"run": CRASHES},
        "agent_environment": {"secrets": {"HIDDEN": name}},
    }
    scenarios = [next(iter(client.scenarios.list_public(name=each))).id for each in (FIX, ANSWER)]
    made = client.jobs.create(
        {
            "name": f"looked-at-{secrets.token_hex(4)}",
            "spec": {
                "type": "scenarios",
                "scenario_ids": scenarios,
                "agent_configs": [{"name": "oracle"}, {"name": "nop"}, crashing],
                "orchestrator_config": {"n_attempts": 2},
            },
        }
    )
    return client.jobs.wait(made.id, PATIENCE_SECONDS)


def test_a_list_of_trials_is_filtered(benchyard: CommandLine, job: BenchmarkJobView) -> None:
    def found(*flags: str) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(
            benchyard.ok("trial", "list", job.name, *flags, "-o", "json")
        )
        return listed

    assert len(found()) == 12
    assert {each["outcome"] for each in found("--agent", "command")} == {"crashed"}
    assert len(found("--only", "crashed")) == len(found("--only", "passed")) == 4
    assert {each["agent"] for each in found("--only", "not-passed")} == {1}
    assert found("--only", "unscored") == found("--only", "suspect") == []
    assert len(found("--scenario", FIX)) == len(found("--scenario", "fix-a-bug")) == 6
    text = benchyard.ok("trial", "list", job.name, "--only", "crashed")
    assert "the agent ended with exit status 3: giving up" in text
    assert "failed" not in text
    unknown = benchyard("trial", "list", job.name, "--agent", "claude")
    assert (unknown.status, "oracle, nop, command" in unknown.err) == (4, True)


def test_the_server_lists_the_trials_of_one_agent_and_one_scenario(
    client: Client, job: BenchmarkJobView
) -> None:
    assert {each.agent for each in client.jobs.trials(job.id, agent=2)} == {2}
    assert len(list(client.jobs.trials(job.id, agent=0, scenario_name=FIX))) == 2
    (first, *_) = client.jobs.trials(job.id)
    assert client.jobs.trial(first.id) == first


def test_the_worst_trial_is_shown_and_the_others_are_named(
    benchyard: CommandLine, job: BenchmarkJobView
) -> None:
    said = benchyard.ok("trial", "show", job.name, FIX)
    assert "result:      crashed" in said
    assert "why:         the agent ended with exit status 3: giving up" in said
    assert "5 more of this scenario; --agent and --attempt choose" in said
    assert f"benchyard job retry {job.id} --only crashed --scenario {FIX}" in said
    assert f"benchyard job logs {job.id} --scenario {FIX}" in said
    assert "lines before; --full shows them" in said or "the end of stdout" in said
    assert "  100\n" in said
    full = benchyard.ok("trial", "show", job.name, FIX, "--full")
    assert "red \ufffd[31m line" in full
    assert "\x1b" not in full
    assert SECRET not in full + benchyard.ok("trial", "show", job.name, FIX, "-o", "json")


def test_scorers_stages_and_isolation_of_a_trial(benchyard: CommandLine, job: BenchmarkJobView) -> None:
    said = benchyard.ok("trial", "show", job.name, "fix-a-bug", "--agent", "nop", "--attempt", "2")
    assert "attempt:   2 of 2" in said
    assert "result:    not passed" in said
    assert "scorer tests said:\n  some dates are wrong" in said
    assert "isolation: system (the author chose it)" in said
    assert "STAGE" in said
    assert "scoring" in said
    assert "WEIGHT" in said
    whole = json.loads(benchyard.ok("trial", "show", job.name, FIX, "--agent", "oracle", "-o", "json"))
    assert whole["trial"]["outcome"] == "passed"
    assert whole["scenario_run"]["scoring_contract_result"]["score"] == 1.0
    assert len(whole["other_trial_ids"]) == 1
    by_id = benchyard.ok("trial", "show", whole["trial"]["id"])
    assert "result:      passed" in by_id or "result:    passed" in by_id


def test_unknown_trial_is_refused_with_the_nearest(benchyard: CommandLine, job: BenchmarkJobView) -> None:
    typo = benchyard("trial", "show", job.name, "quickstart/fix-a-bugg")
    assert (typo.status, FIX in typo.err) == (4, True)
    which = benchyard("trial", "show", job.name)
    assert (which.status, "say which scenario" in which.err, FIX in which.err) == (2, True, True)
    third = benchyard("trial", "show", job.name, FIX, "--attempt", "3")
    assert (third.status, "no attempt 3; there are 2" in third.err) == (4, True)
    assert benchyard("trial", "show", "trl_none").status == 4


@pytest.mark.parametrize("given", ["0", "-1", "3-2", "x", "1-2-3", "0-4", "٣"])
def test_odd_steps_are_refused_in_the_flags_own_words(given: str) -> None:
    ended = CliRunner().invoke(trial_command, ["show", "job", "scenario", f"--steps={given}"])
    assert ended.exit_code == 2
    assert "neither a range such as 3-10" in ended.output


def test_a_run_of_the_sdk_is_listed_shown_fetched_and_cancelled(
    benchyard: CommandLine, client: Client, job: BenchmarkJobView
) -> None:
    mark = secrets.token_hex(4)
    benchmark = next(iter(client.benchmarks.list_public(name="quickstart")))
    over = client.benchmarks.start_run(benchmark_id=benchmark.id, run_name=f"over-{mark}")
    scenario = next(iter(client.scenarios.list_public(name=FIX)))
    alone = client.scenarios.start_run_and_await_env_ready(scenario_id=scenario.id, run_name=f"alone-{mark}")
    inside = client.scenarios.start_run_and_await_env_ready(
        scenario_id=scenario.id, run_name=f"inside-{mark}", benchmark_run_id=over.id
    )
    client.executions.run(alone.devbox_id, "echo worked on it")
    client.scenarios.runs.upload_trace(alone.id, TRAJECTORY)
    client.scenarios.runs.score_and_await(alone.id)
    rows = json.loads(benchyard.ok("run", "list", "--limit", "1000", "-o", "json"))
    assert {alone.id, over.id} <= {each["id"] for each in rows}
    assert inside.id not in {each["id"] for each in rows}
    assert not [each for each in rows if "job_id" in each], "runs of jobs are trials"
    everything = json.loads(benchyard.ok("run", "list", "--all", "--limit", "1000", "-o", "json"))
    assert {each["job_id"] for each in everything if "job_id" in each} >= {job.id}
    assert inside.id in benchyard.ok("run", "list", "--of", f"over-{mark}")
    assert alone.id not in benchyard.ok("run", "list", "--kind", "benchmark")
    said = benchyard.ok("run", "show", f"alone-{mark}")
    assert "result:      not passed" in said
    assert "  worked on it" in said
    assert "trajectory (30 steps, 0 tool calls)" in said
    assert "... steps 3 to 27 are not shown: --steps 3-27" in said
    assert "\x1b" not in said
    some = benchyard.ok("run", "show", alone.id, "--steps", "4-5")
    assert "message 4" in some
    assert "message 6" not in some
    assert f"benchyard run show {inside.id}" in benchyard.ok("run", "show", over.id)
    benchyard.ok("run", "logs", alone.id, "-o", "logs")
    assert json.loads(Path("logs/run.json").read_text())["id"] == alone.id
    assert benchyard.ok("run", "cancel", alone.id, over.id).count("cancelled") == 2
    assert client.scenarios.runs.get(inside.id).state == "canceled"
    (trial, *_) = client.jobs.trials(job.id)
    refused = benchyard("run", "cancel", str(trial.scenario_run_id))
    assert (refused.status, job.id in refused.err) == (2, True)
    assert benchyard("run", "show", "no-such-run").status == 4


def test_long_trajectories_go_through_the_users_pager(
    server: RunningServer, client: Client, job: BenchmarkJobView, tmp_path: Path
) -> None:
    scenario = next(iter(client.scenarios.list_public(name=ANSWER)))
    run = client.scenarios.start_run_and_await_env_ready(scenario_id=scenario.id)
    client.scenarios.runs.upload_trace(run.id, TRAJECTORY)
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho through the pager\ncat\n")
    pager.chmod(0o755)
    settings = {"BENCHYARD_URL": server.url, "BENCHYARD_API_KEY": server.key, "PAGER": str(pager)}
    with Screen(["run", "show", run.id, "--full"], settings) as screen:
        screen.resize(100, 24)
        screen.expect("through the pager")
        screen.expect("message 30")
        assert screen.expect_end() == 0
    client.scenarios.runs.cancel(run.id)


def test_rescore_shows_old_beside_new(benchyard: CommandLine, job: BenchmarkJobView) -> None:
    said = benchyard.ok("job", "rescore", job.id)
    assert "scored again: 8, another score: 0" in said
    assert "OLD    NEW" in said
    assert "OLD MEAN  NEW MEAN" in said
    told = json.loads(benchyard.ok("job", "rescore", job.id, "-o", "json"))
    scores = {(each["agent"], each["old_score"], each["score"]) for each in told["rescored"]}
    assert scores == {("oracle", 1.0, 1.0), ("nop", 0.0, 0.0)}
    assert {"agent": "oracle", "old_mean": 1.0, "mean": 1.0, "n_suspect": 0} in told["means"]


ENDS_THE_RUNNER = "printf 'import os\\nos._exit(0)\\n' > ~/work.py"
RUNS_TESTS = """cat > ~/test_work.py <<'END'
import unittest
import work

class TestWork(unittest.TestCase):
    def test_done(self) -> None:
        self.assertEqual(work.done, True)
END
cd ~ && python3 -m unittest test_work"""


def test_suspect_scores_are_marked_in_lists_of_runs_and_when_scored_again(
    benchyard: CommandLine, client: Client
) -> None:
    mark = secrets.token_hex(4)
    scorer = {"type": "command_scorer", "command": RUNS_TESTS}
    scenario = client.scenarios.create(
        name=f"suspect-{mark}",
        input_context={"problem_statement": "Do it."},
        scoring_contract={"scoring_function_parameters": [{"name": "unit", "weight": 1, "scorer": scorer}]},
    )
    benchmark = client.benchmarks.create(name=f"of-suspect-{mark}", scenario_ids=[scenario.id])
    over = client.benchmarks.start_run(benchmark_id=benchmark.id, run_name=f"over-{mark}")
    run = client.scenarios.start_run_and_await_env_ready(scenario_id=scenario.id, benchmark_run_id=over.id)
    client.executions.run(run.devbox_id, ENDS_THE_RUNNER)
    client.scenarios.runs.score_and_await(run.id)
    client.benchmark_runs.complete(over.id)
    listed = benchyard.ok("run", "list", "--of", over.id)
    assert "1.000 suspect" in listed
    (row,) = json.loads(benchyard.ok("run", "list", "--of", over.id, "-o", "json"))
    assert (row["n_suspect"], "no closing line of unittest" in row["suspicions"][0]) == (1, True)
    assert client.benchmark_runs.retrieve(over.id).n_suspect == 1
    assert "1.000 suspect" in benchyard.ok("run", "list", "--kind", "benchmark", "--search", f"over-{mark}")
    made = client.jobs.create(
        {
            "name": f"forged-{mark}",
            "spec": {
                "type": "scenarios",
                "scenario_ids": [scenario.id],
                "agent_configs": [{"name": "command", "kwargs": {"run": ENDS_THE_RUNNER}}],
            },
        }
    )
    job = client.jobs.wait(made.id, PATIENCE_SECONDS)
    benchyard.ok("job", "rescore", job.id)
    said = benchyard.ok("job", "rescore", job.id)
    assert "1.000 suspect" in said
    assert "1.000 (1 suspect)" in said
    (run_of_job,) = client.jobs.get(job.id).benchmark_outcomes
    assert client.benchmark_runs.retrieve(str(run_of_job.benchmark_run_id)).n_suspect == 1


def test_the_machines_load_is_told_once() -> None:
    lines = [
        "when the work ended the machine's load was 9 on 2 cores",
        "while it was scored the machine's load was 14 on 2 cores",
        "the egress proxy refused example.test once",
    ]
    assert conditions_once([*lines, lines[2]]) == ["the machine's load was up to 14 on 2 cores", lines[2]]


@pytest.mark.parametrize(
    "steps",
    [
        [None, 1, "x", [], {}],
        [{"message": 5, "tool_calls": {"a": 1}, "observation": [1], "metrics": "x", "source": ["a"]}],
        [
            {
                "message": [{"type": "image", "source": {"path": "a.png"}}, 3],
                "tool_calls": [{"arguments": [1]}],
            }
        ],
        [{"tool_calls": [{"function_name": {"a": 1}, "arguments": {"b": None, "c": {"d": 1}}}, 1]}],
        [{"metrics": {"cost_usd": True, "prompt_tokens": "many"}, "observation": {"results": [1, {}]}}],
    ],
)
def test_odd_trajectories_are_shown_as_far_as_they_go(steps: list[Any]) -> None:
    for wanted in (
        StepSelection(),
        StepSelection(is_excerpt=True),
        StepSelection(from_end=1),
        StepSelection(5, 9),
    ):
        text = "\n".join(step_lines({"steps": steps}, wanted))
        assert "\x1b" not in text


def oracles_trial(benchyard: CommandLine, job: BenchmarkJobView) -> dict[str, Any]:
    named = ("--agent", "oracle", "--scenario", FIX)
    found: list[dict[str, Any]] = json.loads(benchyard.ok("trial", "list", job.id, *named, "-o", "json"))
    return found[0]


def test_trials_of_all_jobs_are_tagged_labelled_and_found(
    benchyard: CommandLine, job: BenchmarkJobView
) -> None:
    id, tag = oracles_trial(benchyard, job)["id"], secrets.token_hex(4)
    assert benchyard.ok("trial", "tag", id, tag, "later") == f"{id}  {tag} later\n"
    assert benchyard.ok("trial", "tag", id, "later", "--remove") == f"{id}  {tag}\n"
    benchyard.ok("trial", "note", id, "red \x1b[31m note")
    told = benchyard.ok("trial", "label", id, "correct=yes", "--comment", "sure")
    assert told == f"{id}  1 labels\ncorrect=yes by first: sure\n"
    shown = benchyard.ok("trial", "show", id)
    assert re.search(rf"tags: +{tag}\nnote: +red .*note\nlabels: +correct=yes by first: sure\n", shown)
    assert "\x1b" not in shown
    (found,) = json.loads(benchyard.ok("trial", "list", "--tag", tag, "--agent", "oracle", "-o", "json"))
    assert (found["id"], found["labels"][0]["value"]) == (id, "yes")
    none = benchyard("trial", "list", "--tag", tag, "--only", "crashed")
    assert "no trials that are crashed" in none.out + none.err
    assert "0 labels" in benchyard.ok("trial", "label", id, "correct=")
    assert "write NAME=VALUE" in benchyard("trial", "label", id, "correct").err
    assert benchyard.ok("job", "tag", job.id, tag) == f"{job.id}  {tag}\n"
    assert benchyard.ok("job", "note", job.id, "a note") == f"{job.id}  a note\n"
    assert tag in benchyard.ok("job", "list", "--tag", tag, "-o", "json")


def test_the_work_of_a_trial_is_a_diff_and_a_devbox(benchyard: CommandLine, job: BenchmarkJobView) -> None:
    trial = oracles_trial(benchyard, job)
    id = trial["id"]
    diff = benchyard.ok("trial", "diff", id)
    assert diff.startswith("diff --git a/home/user/project/days.py b/home/user/project/days.py\n--- a/home")
    assert benchyard.ok("trial", "diff", trial["scenario_run_id"], "days.py") == diff
    stat = benchyard.ok("trial", "diff", id, "--stat")
    assert "M  file  385 B -> 431 B  /home/user/project/days.py\n" in stat
    assert "more paths were changed beside the work; --all shows them" in stat
    files = json.loads(benchyard.ok("trial", "diff", id, "--all", "-o", "json"))["files"]
    assert [each["is_work"] for each in files if each["path"] == "/run/benchyard/prompt.md"] == [False]
    nothing = benchyard("trial", "diff", id, "nowhere")
    assert (nothing.out, nothing.status) == ("", 0)
    assert "nothing was changed" in nothing.err
    opened = json.loads(benchyard.ok("trial", "open", id, "-o", "json"))["id"]
    assert "year % 400" in benchyard.ok("devbox", "exec", opened, "--", "cat", "project/days.py")
    benchyard.ok("devbox", "shutdown", opened)
