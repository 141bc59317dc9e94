"""`job judge` and `job judgements`, typed against a real server with a scripted model."""

import json
from collections.abc import Iterator

import pytest

from benchyard.client import Client, Server
from benchyard.scripted_model import RunningModel, Script, ScriptStep
from benchyard.testing.server import RunningServer
from tests.cli.conftest import CommandLine
from tests.cli.test_job_problems import ended_job, writes
from tests.reports.problems.planted import ran, said, trajectory

CONTENT = trajectory(ran("ls"), ran("rg days", "bash: rg: command not found", 127), said("Done."))
GOOD = {
    "category": "system-failure",
    "critical_step": 3,
    "explanation": "The search tool is missing.",
    "citations": [
        {"step": 3, "quote": "bash: rg: command not found"},
        {"step": 2, "quote": "nobody said so"},
    ],
}


@pytest.fixture
def model() -> Iterator[RunningModel]:
    script = Script(match="rg days", steps=(ScriptStep(text=json.dumps(GOOD)),), without_tools=True)
    with RunningModel([script]) as running:
        yield running


@pytest.fixture
def typed(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> CommandLine:
    monkeypatch.setenv("BENCHYARD_URL", server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", server.key)
    return CommandLine(monkeypatch, capfd)


def test_a_judge_is_asked_and_its_judgement_is_shown_apart_from_signals(
    typed: CommandLine, server: RunningServer, model: RunningModel
) -> None:
    with Client(Server(server.url, server.key)) as client:
        public = next(iter(client.benchmarks.list_public(name="quickstart")))
        job_id = ended_job(client, public.id, "judged", writes(CONTENT))
        client.secrets.create("JUDGE_OF_THE_CLI", "sk-anything-that-is-long")
        (trial,) = client.jobs.trials(job_id)
    options = ("--secret", "JUDGE_OF_THE_CLI", "--base-url", model.url)
    told = typed.ok("job", "judge", job_id, "--model", "claude-sonnet-4-5", *options)
    assert "claude-sonnet-4-5: 1 of 1 trial;" in told
    assert "1 system-failure: the environment, a tool, the network" in told
    assert 'step 3: "bash: rg: command not found"' in told
    assert "! 1 quote not found in the steps" in told
    assert f"benchyard trial steps {trial.id} --step 3" in told
    assert "agreement with people: not known" in told
    typed.ok("trial", "label", trial.id, "category=system-failure")
    told = typed.ok("job", "judgements", job_id)
    assert "1 of 1 (100%, " in told
    assert "judged by a model, apart from the signals" in typed.ok("job", "problems", job_id)
    assert "system-failure, says claude-sonnet-4-5" in typed.ok("trial", "show", trial.id)
    view = json.loads(typed.ok("job", "judgements", job_id, "--trial", trial.id, "-o", "json"))
    assert view["judgements"][0]["n_false_citations"] == 1
    assert json.loads(typed.ok("trial", "show", trial.id, "-o", "json"))["judgements"] == view["judgements"]
    begun = json.loads(
        typed.ok("job", "judge", job_id, "--model", "claude-sonnet-4-5", *options, "--no-wait", "-o", "json")
    )
    assert begun["id"].startswith("jdr_")
    typed.ok("job", "judge", job_id, "--stop")
    with Client(Server(server.url, server.key)) as client:
        client.jobs.delete(job_id)
        client.secrets.delete("JUDGE_OF_THE_CLI")


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--model", "claude-sonnet-4-5", "--stop"),
        ("--model", "claude-sonnet-4-5", "--budget", "euros=1"),
        ("--model", "claude-sonnet-4-5", "--budget", "usd=much"),
        ("--model", "claude-sonnet-4-5", "--budget", "usd=-1"),
        ("--model", "claude-sonnet-4-5", "--limit", "501"),
    ],
)
def test_what_makes_no_sense_is_refused(typed: CommandLine, options: tuple[str, ...]) -> None:
    with_job = typed("job", "judge", "no-such-job", *options)
    assert with_job.status in (2, 4)
