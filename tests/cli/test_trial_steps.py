"""`benchyard trial steps` as a user types it, against a real server."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from benchyard.cli.run.trial import trial
from benchyard.cli.run.trial_steps import MOST_LINES
from benchyard.client import Client, Server
from benchyard.testing.server import RunningServer
from tests.cli.conftest import CommandLine
from tests.cli.screen import Screen

PATIENCE_SECONDS = 120.0
FIX = "quickstart/fix-a-bug"
CALL = {"tool_call_id": "c", "function_name": "bash", "arguments": {"command": "cat \x1b[31m*.py"}}
FAILED = {"results": [{"source_call_id": "c", "content": "no such file", "extra": {"is_error": True}}]}
METRICS = {"prompt_tokens": 123_456, "completion_tokens": 789, "cost_usd": 0.5}
STEPS = [
    {
        "step_id": 1,
        "source": "user",
        "message": "Fix 漢字漢字漢字漢字漢字漢字漢字漢字 the bug that is told here",
    },
    {
        "step_id": 2,
        "source": "agent",
        "message": "",
        "tool_calls": [CALL],
        "observation": FAILED,
        "metrics": METRICS,
    },
    *({"step_id": at, "source": "agent", "message": f"message {at}\nof two"} for at in range(3, 1201)),
]
TRAJECTORY = {"schema_version": "ATIF-v1.4", "agent": {"name": "mine"}, "steps": STEPS}


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[Client]:
    with Client(Server(server.url, server.key)) as opened:
        yield opened


@pytest.fixture(scope="module")
def run_id(client: Client) -> Iterator[str]:
    """A run with a trajectory."""
    found = next(iter(client.scenarios.list_public(name=FIX)))
    run = client.scenarios.start_run_and_await_env_ready(scenario_id=found.id)
    client.scenarios.runs.upload_trace(run.id, TRAJECTORY)
    yield run.id
    client.scenarios.runs.cancel(run.id)


@pytest.fixture
def benchyard(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> CommandLine:
    monkeypatch.setenv("BENCHYARD_URL", server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", server.key)
    return CommandLine(monkeypatch, capfd)


def test_steps_are_listed_shown_and_found(benchyard: CommandLine, run_id: str) -> None:
    lines = benchyard.ok("trial", "steps", run_id).splitlines()
    assert lines[0] == "trajectory.json: 1200 steps"
    assert lines[3].split() == ["2", "agent", "bash", "123k+789", "$0.5000", "!", "cat", "\ufffd[31m*.py"]
    assert len(lines) == MOST_LINES + 3
    assert lines[-1] == f"... 200 more: benchyard trial steps {run_id} --from 1001"
    some = json.loads(benchyard.ok("trial", "steps", run_id, "--from", "2", "--to", "3", "-o", "json"))
    assert [(each["number"], each["tools"]) for each in some["steps"]] == [(2, ["bash"]), (3, [])]
    whole = benchyard.ok("trial", "steps", run_id, "--step", "2")
    assert whole.startswith("step 2  agent  123,456 tokens in  789 out  $0.5000\n")
    assert "  > bash  cat \ufffd[31m*.py\n  < no such file" in whole
    assert json.loads(benchyard.ok("trial", "steps", run_id, "--step", "2", "-o", "json"))["step"] == STEPS[1]
    found = benchyard.ok("trial", "steps", run_id, "--find", "SUCH")
    assert found == "1 step with 'SUCH'\n    2  observation.results[0].content: no such file\n"
    refused = benchyard("trial", "steps", run_id, "--step", "1201")
    assert (refused.status, "the steps 1 to 1200" in refused.err) == (4, True)


def test_lines_fit_a_terminal(server: RunningServer, run_id: str) -> None:
    settings = {"BENCHYARD_URL": server.url, "BENCHYARD_API_KEY": server.key}
    with Screen(["trial", "steps", run_id, "--to", "2"], settings) as screen:
        screen.resize(80, 24)
        screen.expect("FIRST WORDS")
        assert screen.expect_end() == 0
    first, second = screen.shown.decode().split("\r\n")[1:3]
    assert first.endswith("…")
    assert cell_len(first) in (79, 80)
    assert second.endswith("! cat \ufffd[31m*.py")


def test_a_trial_without_model_calls_has_no_steps(benchyard: CommandLine, client: Client) -> None:
    found = next(iter(client.scenarios.list_public(name=FIX)))
    spec = {"type": "scenarios", "scenario_ids": [found.id], "agent_configs": [{"name": "nop"}]}
    job = client.jobs.wait(client.jobs.create({"spec": spec}).id, PATIENCE_SECONDS)
    (trial_id,) = [each.id for each in client.jobs.trials(job.id)]
    ended = benchyard.ok("trial", "steps", trial_id, "--follow", "-o", "json")
    assert json.loads(ended)["message"] == "the trial is completed"
    refused = benchyard("trial", "steps", trial_id)
    assert (refused.status, "has no trajectory" in refused.err) == (4, True)


@pytest.mark.parametrize("flags", [["--step=1", "--follow"], ["--from=2", "--find=x"]])
def test_one_way_of_looking_at_a_time(flags: list[str]) -> None:
    ended = CliRunner().invoke(trial, ["steps", "trl_x", *flags])
    assert (ended.exit_code, "choose one of" in ended.output) == (2, True)
