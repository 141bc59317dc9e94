"""`benchyard job` as a user types it, against a real server and real devboxes."""

import json
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchyard.client import Client, Server
from benchyard.models.trials import TrialState, TrialView
from benchyard.testing.server import RunningServer
from tests.cli.conftest import CommandLine

PATIENCE_SECONDS = 60.0
FIX = "quickstart/fix-a-bug"
ANSWER = "quickstart/find-the-answer"
WAITS = "until [ -e /tmp/go ]; do sleep 0.1; done"
"""An agent that works until it is told to stop."""


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


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    """A client of the same server."""
    with Client(Server(server.url, server.key)) as opened:
        yield opened


def new_name() -> str:
    return f"job-{secrets.token_hex(4)}"


def started(benchyard: CommandLine, *arguments: str) -> dict[str, Any]:
    """A job that was asked for, as the command line shows it."""
    found: dict[str, Any] = json.loads(benchyard.ok("job", "run", *arguments, "-o", "json"))
    return found


def running_trial(client: Client, job_id: str) -> TrialView:
    """The first trial of a job whose agent runs."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for each in client.jobs.trials(job_id, status="running"):
            if each.devbox_id is not None:
                return each
        time.sleep(0.05)
    raise AssertionError(f"no trial of {job_id} runs: {client.jobs.get(job_id)}")


def test_two_agents_side_by_side(benchyard: CommandLine, client: Client) -> None:
    name = new_name()
    ended = benchyard(
        "job", "run", "--agent", "oracle", "--agent", "nop", "--scenarios", FIX, ANSWER, "-n", name, "--watch"
    )
    assert ended.status == 0, ended.err
    assert f"oracle  {FIX}  passed  1" in ended.out
    assert f"nop  {ANSWER}  not passed  0" in ended.out
    assert "is completed\n" in ended.out
    assert (
        "nop against oracle: -1.000 (-1.000 to +0.684), p = 0.500 on 2 scenarios: may be chance" in ended.out
    )
    said = benchyard.ok("job", "summary", name)
    assert "oracle  2 (100%)" in said
    assert "1.000 (0.342 to 1.000)" in said
    extended = benchyard.ok("job", "summary", name, "--extended")
    rows = [line.split() for line in extended.splitlines()]
    assert [FIX, "1.000", "0.000"] in rows
    assert [ANSWER, "passed", "1.000", "1"] in [row[:4] for row in rows]
    assert [ANSWER, "not", "passed", "0.000", "1"] in [row[:5] for row in rows]
    view = json.loads(benchyard.ok("job", "summary", name, "-o", "json"))
    assert [each["mean_score"] for each in view["benchmark_outcomes"]] == [1.0, 0.0]
    assert "state: completed" in benchyard.ok("job", "summary", view["id"], "-o", "yaml")
    assert client.jobs.get(view["id"]).job_spec.orchestrator_config is not None

    fetched = benchyard("job", "logs", name, "--output-dir", "logs", "--scenario", FIX)
    assert fetched.status == 0, fetched.err
    assert fetched.out == "logs  2 of 2 trials, each with its logs and results.json in a folder of its own\n"
    folder = Path("logs/oracle/quickstart_fix-a-bug")
    results = json.loads((folder / "results.json").read_text())
    assert (results["score"], results["scenario_name"]) == (1.0, FIX)
    assert [path for path in folder.iterdir() if "scorer" in path.name]
    run_id = view["benchmark_outcomes"][1]["benchmark_run_id"]
    benchyard.ok("job", "logs", name, "-o", "only", "--run", run_id)
    assert [path.name for path in Path("only").iterdir()] == ["nop"]
    assert benchyard("job", "logs", name, "--scenario", "no-such").status == 4


def test_several_values_and_their_way_to_the_agent(benchyard: CommandLine, client: Client) -> None:
    benchyard.ok("secret", "set", "JOBS_TEST", "--value", "hidden")
    made = started(
        benchyard,
        *("--agent", "command:some-model", "--agent-kwargs", 'run=test "$A-$B-$C-$S" = 1-2-3-hidden'),
        *("--env-vars", "A=1", "B=2", "--env-vars", "C=3", "--secrets", "S=JOBS_TEST", "--scenarios", ANSWER),
    )
    (config,) = made["job_spec"]["agent_configs"]
    assert (config["model_name"], config["timeout_seconds"]) == ("some-model", 7200)
    assert config["agent_environment"]["environment_variables"] == {"A": "1", "B": "2", "C": "3"}
    view = client.jobs.wait(made["id"], PATIENCE_SECONDS)
    (trial,) = client.jobs.trials(view.id)
    assert (trial.state, trial.exit_status) == (TrialState.COMPLETED, 0), trial


def test_a_threshold_and_a_file_for_ci(benchyard: CommandLine) -> None:
    Path("job.yaml").write_text(f"agents: [oracle]\nscenarios: [{ANSWER}]\n")
    good = benchyard(
        "job", "run", "-f", "job.yaml", "--fail-under", "0.8", "--junit", "good.xml", "-o", "json"
    )
    assert good.status == 0, good.err
    assert json.loads(good.out)["state"] == "completed"
    assert f"oracle  {ANSWER}  passed  1" in good.err
    assert ElementTree.parse("good.xml").getroot().get("failures") == "0"
    bad = benchyard(
        "job", "run", "-f", "job.yaml", "--agent", "nop", "--fail-under", "0.8", "--junit", "bad.xml"
    )
    assert bad.status == 20
    assert "nop: the mean 0.000 is below 0.8" in bad.err
    assert ElementTree.parse("bad.xml").getroot().get("failures") == "1"


def planned(benchyard: CommandLine, *arguments: str) -> dict[str, Any]:
    """What oracle would run of quickstart, as the command line shows it."""
    words = ("job", "run", "--agent", "oracle", "--benchmark", "quickstart", "--dry-run", "-o", "json")
    found: dict[str, Any] = json.loads(benchyard.ok(*words, *arguments))
    return found


def test_a_dry_run_counts_and_starts_nothing(
    benchyard: CommandLine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-a-real-key")
    before = {each.id for each in client.jobs.list(limit=100)}
    secrets_before = {each.name for each in client.secrets.list()}
    said = benchyard.ok(
        *("job", "run", "--agent", "oracle", "--agent", "claude-code:claude-sonnet-4-5", "--agent", "nop"),
        *("--benchmark", "quickstart", "--n-attempts", "4", "--n-concurrent-trials", "7", "--dry-run"),
        *(
            "--timeout",
            "90",
            "--timeout-multiplier",
            "2",
            "--job-budget",
            "usd=5",
            "--trial-budget",
            "tokens=9",
        ),
    )
    assert "12 scenarios x 3 agents x 4 attempts = 144 trials" in said
    assert "at the same time: 7 trials" in said
    assert "job budget:       $5" in said
    assert "trial budget:     9 tokens" in said
    assert "oracle, 3m00s for each scenario" in said
    assert "unknown: no earlier job tells what claude-code@" in said
    assert FIX in said
    plan = planned(benchyard, "--limit", "3")
    assert (plan["n_trials"], len(plan["scenarios"]), plan["missing_images"]) == (3, 3, [])
    assert "n_trials: 12" in benchyard.ok(
        "job", "run", "--agent", "nop", "--benchmark", "quickstart", "--dry-run", "-o", "yaml"
    )
    assert {each.id for each in client.jobs.list(limit=100)} == before
    assert {each.name for each in client.secrets.list()} == secrets_before
    assert not Path("config").exists(), "what was sent where is not remembered of a dry run"
    refused = benchyard("job", "run", "--agent", "codex:gpt-5", "--benchmark", "quickstart", "--dry-run")
    assert (refused.status, "OPENAI_API_KEY" in refused.err) == (2, True)


def test_a_part_is_chosen_by_conditions_and_globs(benchyard: CommandLine) -> None:
    def chosen(*arguments: str) -> list[str]:
        names = [each["name"] for each in planned(benchyard, *arguments)["scenarios"]]
        return sorted(name.removeprefix("quickstart/") for name in names)

    fixes = ["fix-a-bug", "fix-the-permissions"]
    assert chosen("--filter", "name=*answer", "--filter", "name=*bug") == ["find-the-answer", "fix-a-bug"]
    assert chosen("--filter", "name=fix-*", "name!=*bug") == ["fix-the-permissions"]
    assert chosen("--filter", "name~=^fix-") == fixes
    assert chosen("--filter", "name~=^fix- or name=*answer", "name!~bug$") == [
        "find-the-answer",
        "fix-the-permissions",
    ]
    assert chosen("--include", "fix-*", "--include", "undo-*", "--exclude", "*bug") == [
        "fix-the-permissions",
        "undo-a-change",
    ]
    Path("job.yaml").write_text("filter: ['name~=^fix-']\nexclude: [fix-a-bug]\n")
    assert chosen("-f", "job.yaml") == ["fix-the-permissions"]
    for arguments, told in {
        ("--filter", "name=fix-a-bgu"): "did you mean 'quickstart/fix-a-bug'?",
        ("--include", "find-teh-answer"): "did you mean 'quickstart/find-the-answer'?",
        ("--filter", "kind=nonsense"): "kind is ",
        ("--filter", "name~=("): "is not a valid regular expression",
        ("--filter", "name"): "is not a condition",
        ("--filter", r"name~=^(\w|[a-z]|[^A-Z])+!$"): "takes too long here; write simpler conditions",
    }.items():
        ended = benchyard(
            "job", "run", "--agent", "oracle", "--benchmark", "quickstart", "--dry-run", *arguments
        )
        assert (ended.status, told in ended.err) == (2, True), ended.err


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        *(("--n-attempts", value) for value in ("0", "-1", "1001", "x", "1.5")),
        *(("--n-concurrent-trials", value) for value in ("0", "10001")),
        *(("--timeout", value) for value in ("0", "-3", "nan", "inf", "1e99")),
        *(("--timeout-multiplier", value) for value in ("0", "nan", "1001")),
        *(("--limit", value) for value in ("0", "9" * 30)),
        *(("--sample", value) for value in ("0", "9" * 30)),
        ("--seed", "9" * 30),
        *(("--fail-under", value) for value in ("-0.1", "1.1", "nan")),
        *(("--trial-budget", value) for value in ("usd=-1", "usd=nan", "tokens=1.5", "tokens=x")),
        *(("--job-budget", value) for value in ("usd=-1", "requests=-1", "money=1")),
        ("--max-unscored", "nan"),
        ("--env-vars", "1A=x"),
    ],
)
def test_numbers_are_refused_in_the_words_of_their_flag(
    benchyard: CommandLine, flag: str, value: str
) -> None:
    ended = benchyard("job", "run", "--agent", "nop", "--benchmark", "quickstart", flag, value)
    assert ended.status == 2
    assert flag in ended.err
    assert "spec." not in ended.err
    assert "agent_configs" not in ended.err


def test_an_install_is_told_and_counted_apart(benchyard: CommandLine, client: Client) -> None:
    name = f"agent-{secrets.token_hex(4)}"
    Path("own").mkdir()
    Path("own/run.sh").write_text("exit 0\n")
    register = ("agent", "register", name, "--object", "own", "--version", "1", "--run")
    benchyard.ok(*register, "sh {agent_dir}/run.sh {effort}")
    assert "kwargs:  effort" in benchyard.ok("agent", "show", name)
    words = ("--agent", name, "--agent-kwargs", "effort=low", "--scenarios", ANSWER)
    assert f"{name}@1 has to be installed first, from an uploaded object" in benchyard.ok(
        "job", "run", *words, "--dry-run"
    )
    ended = benchyard("job", "run", *words, "-n", name, "--watch")
    assert ended.status == 0, ended.err
    assert f"benchyard: {name}@1 has to be installed first, from an uploaded object" in ended.err
    assert "benchyard: 1 scenario x 1 agent x 1 attempt = 1 trial" in ended.err
    lines = [line for line in ended.out.splitlines() if f"{name}@1 from an uploaded object" in line]
    assert [line.split(" ", 1)[1].partition(f" {name}")[0] for line in lines] == ["installing", "installed"]
    assert all(line[:4].isdigit() and line.split()[0].endswith("Z") for line in lines)
    view = json.loads(benchyard.ok("job", "summary", name, "-o", "json"))
    (installed,) = view["preparations"]
    assert (installed["kind"], installed["name"], installed["source"]) == ("install", f"{name}@1", "object")
    assert view["times"]["preparing_ms"] >= 0
    told = [each.preparation for each in client.jobs.events(view["id"]) if each.preparation]
    assert [each.end_time_ms is None for each in told] == [True, False]
    assert benchyard.ok("agent", "install", name) == f"{name}@1  was installed already\n"


def test_agents_are_installed_ahead(benchyard: CommandLine) -> None:
    name = f"agent-{secrets.token_hex(4)}"
    Path("own").mkdir()
    Path("own/run.sh").write_text("exit 0\n")
    for version, setup in (("1", "true"), ("2", "echo no such thing; exit 7")):
        source = ("--object", "own", "--version", version, "--setup", setup, "--run", "true")
        benchyard.ok("agent", "register", name, *source)
    (first, second) = json.loads(benchyard.ok("agent", "install", f"{name}@1", "oracle", "-o", "json"))
    assert (first["version"], first["source"], first["was_installed"]) == ("1", "object", False)
    assert second == {"name": "oracle", "was_installed": True, "duration_ms": 0}
    assert benchyard.ok("agent", "install", f"{name}@1").endswith("was installed already\n")
    broken = benchyard("agent", "install", name)
    assert (broken.status != 0, "no such thing" in broken.err) == (True, True)
    unknown = benchyard("agent", "install", "opencod")
    assert (unknown.status, "did you mean 'opencode'?" in unknown.err) == (4, True)
    unknown = benchyard("agent", "install", f"{name}@3")
    assert (unknown.status, "there are: 2, 1" in unknown.err) == (2, True)


def test_attempts_and_the_same_again(benchyard: CommandLine, client: Client) -> None:
    name = new_name()
    made = started(
        benchyard,
        *("--agent", "oracle", "--benchmark", "quickstart", "--filter", "name=*answer", "-n", name),
        *("--n-attempts", "2", "--n-concurrent-trials", "2", "--timeout-multiplier", "2"),
    )
    view = client.jobs.wait(made["id"], PATIENCE_SECONDS)
    assert len(view.job_spec.scenario_ids) == 1
    assert "@1 1.000  @2 1.000" in benchyard.ok("job", "summary", name)
    again = started(benchyard, "--like", name, "--n-attempts", "1", "-n", new_name())
    assert again["job_spec"]["scenario_ids"] == view.job_spec.scenario_ids
    assert (again["n_trials"], again["job_source"]["benchmark_name"]) == (1, "quickstart")
    assert client.jobs.wait(again["id"], PATIENCE_SECONDS).benchmark_outcomes[0].mean_score == 1.0
    benchyard.ok("job", "logs", name, "-o", "logs")
    assert sorted(path.name for path in Path("logs/oracle/quickstart_find-the-answer").iterdir()) == [
        "attempt-1",
        "attempt-2",
    ]


def test_labels_of_a_job_and_the_nearest_of_its_name(benchyard: CommandLine, client: Client) -> None:
    name = new_name()
    Path("labels.yaml").write_text(
        f"agents: [nop]\nscenarios: [{ANSWER}]\nmetadata: {{team: blue, size: 3}}\n"
    )
    made = started(benchyard, "-f", "labels.yaml", "-n", name, "--metadata", "team=red", "by=me")
    assert made["metadata"] == {"team": "red", "size": "3", "by": "me"}
    again = started(benchyard, "--like", name, "-n", f"{name}-more", "--metadata", "by=you")
    assert again["metadata"] == {"team": "red", "size": "3", "by": "you"}
    for each in (made, again):
        client.jobs.wait(each["id"], PATIENCE_SECONDS)
    assert "metadata:  team=red, size=3, by=me" in benchyard.ok("job", "summary", name)
    assert benchyard("job", "run", "--agent", "nop", "--scenarios", ANSWER, "--metadata", "red").status == 2
    for verb in ("summary", "logs", "watch"):
        ended = benchyard("job", verb, name[:-1])
        assert (ended.status, f"did you mean {name!r}?" in ended.err) == (4, True), ended.err
    started(benchyard, "--like", name, "-n", name)
    for verb in ("summary", "logs"):
        assert "several jobs are called" in benchyard("job", verb, name).err


def test_a_sample_is_the_same_for_the_same_seed(benchyard: CommandLine, client: Client) -> None:
    flags = ("--agent", "nop", "--benchmark", "quickstart", "--sample", "2", "--seed", "7", "--limit", "1")
    jobs = [started(benchyard, *flags) for _ in range(2)]
    chosen = [client.jobs.wait(each["id"], PATIENCE_SECONDS).job_spec.scenario_ids for each in jobs]
    assert chosen[0] == chosen[1]
    assert len(chosen[0]) == 1


def test_cancel_and_resume(benchyard: CommandLine, client: Client) -> None:
    made = started(benchyard, "--agent", "command", "--agent-kwargs", f"run={WAITS}", "--scenarios", ANSWER)
    trial = running_trial(client, made["id"])
    assert "0/1" in benchyard.ok("job", "summary", made["id"])
    assert benchyard.ok("job", "cancel", made["id"]).startswith(made["id"])
    view = client.jobs.wait(made["id"], PATIENCE_SECONDS)
    assert (view.state.value, view.benchmark_outcomes[0].unscored) == ("cancelled", 1)
    assert "cancelled" in benchyard.ok("job", "list", "--status", "canceled,failed")
    assert benchyard("job", "watch", made["id"]).status == 1
    benchyard.ok("job", "resume", made["id"])
    again = running_trial(client, made["id"])
    assert again.id != trial.id
    assert again.devbox_id is not None
    client.executions.run(again.devbox_id, "touch /tmp/go")
    ended = benchyard("job", "watch", made["id"], "-o", "json")
    assert ended.status == 0, ended.err
    assert json.loads(ended.out)["benchmark_outcomes"][0]["n_completed"] == 1


def test_retry(benchyard: CommandLine, client: Client) -> None:
    made = started(benchyard, "--agent", "command", "--agent-kwargs", "run=exit 3", "--scenarios", ANSWER)
    client.jobs.wait(made["id"], PATIENCE_SECONDS)
    told = benchyard.ok("job", "summary", made["id"], "-e")
    assert "the agent ended with exit status 3" in told
    assert "agent: the agent" not in told
    assert benchyard("job", "retry", made["id"]).status == 5, "the agent's own failure is no reason"
    other = benchyard("job", "retry", made["id"], "--only", "crashed", "--scenario", "find-the-anser")
    assert (other.status, f"did you mean {ANSWER!r}?" in other.err) == (4, True)
    said = benchyard.ok(
        "job", "retry", made["id"], "--only", "crashed", "--watch", "--scenario", "find-the-answer"
    )
    assert f"command  {ANSWER} (try 2)  crashed  the agent ended with exit status 3" in said
    assert f"command  {ANSWER}  " not in said, "what was there before was told before"
    assert "1 crashed: the agent ended with exit status 3" in said
    assert "without a score" not in said
    assert client.jobs.get(made["id"]).state.value == "completed"
    tries = [(each.retry, each.is_superseded) for each in client.jobs.trials(made["id"])]
    assert sorted(tries) == [(0, True), (1, False)]
    benchyard.ok("job", "logs", made["id"], "-o", "logs")
    folder = Path("logs/command/quickstart_find-the-answer")
    assert json.loads((folder / "results.json").read_text())["retry"] == 1
    assert (folder / "superseded/attempt-1-try-1/results.json").is_file()


def test_list_leaves_out_what_is_not_asked_for(benchyard: CommandLine, client: Client) -> None:
    name = new_name()
    made = started(benchyard, "--agent", "nop", "--scenarios", ANSWER, "-n", name)
    client.jobs.wait(made["id"], PATIENCE_SECONDS)
    row = next(line for line in benchyard.ok("benchmark-job", "list").splitlines() if name in line)
    assert row.split()[:5] == [made["id"], name, "completed", "nop", "1/1"]
    found = json.loads(benchyard.ok("job", "list", "--all", "--name", name[4:], "-o", "json"))
    assert [each["id"] for each in found] == [made["id"]]
    assert (
        "scenario_outcomes" not in found[0]["benchmark_outcomes"][0]
        or not (found[0]["benchmark_outcomes"][0]["scenario_outcomes"])
    )
    assert "no jobs" in benchyard("job", "list", "--name", name, "--status", "failed").err
    assert "no jobs" in benchyard("job", "list", "--name", name, "--days", "0.0000001").err


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["run", "--agent", "oracle"], 2, "--benchmark"),
        (["run", "--benchmark", "quickstart"], 2, "--agent"),
        (["run", "--agent", "oracle", "--benchmark", "no-such-benchmark"], 4, "no-such-benchmark"),
        (["run", "--agent", "orakel", "--benchmark", "quickstart"], 2, "orakel"),
        (["run", "--agent", "a", "--benchmark", "b", "--scenarios", "c"], 2, "not both"),
        (["run", "--like", "x", "-f", "/dev/null"], 2, "--like"),
        (["run", "--agent", "oracle", "--benchmark", "quickstart", "--env-vars", "A"], 2, "NAME=VALUE"),
        (["run", "--agent", "oracle", "--benchmark", "quickstart", "--timeout", "-1"], 2, "timeout"),
        (["run", "--agent", "oracle", "--benchmark", "quickstart", "--junit", "no/such/x.xml"], 2, "no/such"),
        (["run", "--agent", "oracle", "--benchmark", "quikstart"], 4, "did you mean 'quickstart'?"),
        (["run", "--agent", "oracle", "--scenarios", f"{FIX}g"], 4, f"did you mean {FIX!r}?"),
        (["run", "--agent", "oracle", "--scenarios", "fix-a-bugg"], 4, f"did you mean {FIX!r}?"),
        (["run", "--agent", "oracle", "--benchmark", "quickstart", "--job-budget", "3"], 2, "usd=N"),
        (["run", "--agent", "oracle", "--benchmark", "quickstart", "--max-unscored", "2"], 2, "--fail-under"),
        (
            ["run", "--agent", "nop", "--benchmark", "quickstart", "--agent-kwargs", "a=1"],
            2,
            "nop: no kwargs",
        ),
        (["watch", "some-job", "--max-unscored", "2"], 2, "--fail-under"),
        (["summary", "some-job", "--max-unscored", "5%"], 2, "--fail-under"),
        (["run", "--agent", "nop", "--benchmark", "quickstart", "--limit", "0"], 2, "whole number from 1 on"),
        (["run", "--agent", "nop", "--benchmark", "quickstart", "--n-attempts", "0"], 2, "from 1 to 1000"),
        (
            ["run", "--agent", "nop", "--benchmark", "quickstart", "--timeout", "abc"],
            2,
            "'abc' is not a number",
        ),
        (["run", "--agent", "nop", "--benchmark", "quickstart", "--timeout", "-3"], 2, "above 0, 2592000 at"),
        (["list", "--status", "done"], 2, "done is not a state"),
        (["watch", "no-such-job"], 4, "no-such-job"),
        (["logs", "no-such-job"], 4, "no-such-job"),
        (["cancel", "no-such-job"], 4, "no-such-job"),
    ],
)
def test_invalid_command_has_its_status_and_message(
    benchyard: CommandLine, arguments: list[str], status: int, said: str
) -> None:
    ended = benchyard("job", *arguments)
    assert (ended.status, said in ended.err) == (status, True), ended


@pytest.mark.parametrize(
    "verb", ["run", "watch", "summary", "list", "logs", "cancel", "resume", "retry", "rescore"]
)
def test_every_verb_has_an_example(benchyard: CommandLine, verb: str) -> None:
    assert f"benchyard job {verb}" in benchyard.ok("benchmark-job", verb, "--help")


def test_only_one_name_of_jobs_is_in_the_help(benchyard: CommandLine) -> None:
    names = [line.split()[0] for line in benchyard.ok("--help").splitlines() if line.strip()]
    assert "job" in names
    assert "benchmark-job" not in names


def test_rescore(benchyard: CommandLine, client: Client) -> None:
    made = started(benchyard, "--agent", "oracle", "--scenarios", ANSWER)
    client.jobs.wait(made["id"], PATIENCE_SECONDS)
    (trial,) = client.jobs.trials(made["id"])
    said = benchyard.ok("job", "rescore", made["id"], "--trial", trial.id, "--no-wait")
    assert "to be scored again: 1;" in said
    deadline = time.monotonic() + PATIENCE_SECONDS
    while client.jobs.get(made["id"]).rescoring_state != "completed":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (again,) = client.jobs.trials(made["id"])
    assert (again.score, len(again.earlier_scores)) == (1.0, 1)
    assert "1 of its trials, completed" in benchyard.ok("job", "summary", made["id"])
    refused = benchyard("job", "rescore", made["id"], "--trial", "trl_none")
    assert (refused.status, "trl_none" in refused.err) == (2, True), refused
