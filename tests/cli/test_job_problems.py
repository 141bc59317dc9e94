"""Problems of a job, typed against a real server: an agent that loops is told with its steps."""

import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from benchyard.client import Client, Server
from benchyard.testing.server import RunningServer
from tests.cli.conftest import CommandLine
from tests.reports.problems.planted import ran, said, trajectory

LOOP = trajectory(ran("ls"), *[ran("rg days", "bash: rg: command not found")] * 3, said("I have fixed it."))
PLAIN = trajectory(ran("ls"), said("Here you are."))
BROKEN = b'{"schema_version": "ATIF-v1.4", "steps": []}'


@pytest.fixture
def typed(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> CommandLine:
    monkeypatch.setenv("BENCHYARD_URL", server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", server.key)
    return CommandLine(monkeypatch, capfd)


@pytest.fixture
def own(server: RunningServer) -> Iterator[Client]:
    with Client(Server(server.url, server.key)) as opened:
        yield opened


def writes(content: bytes, then: str = "true") -> dict[str, Any]:
    """An agent that leaves a trajectory."""
    run = f"cat > $BENCHYARD_TRAJECTORY <<'END'\n{content.decode()}\nEND\n{then}"
    return {"name": "command", "kwargs": {"run": run}}


def ended_job(
    client: Client, benchmark_id: str, name: str, *agents: dict[str, Any], attempts: int = 1
) -> str:
    spec = {
        "type": "benchmark",
        "benchmark_id": benchmark_id,
        "agent_configs": list(agents),
        "orchestrator_config": {"n_attempts": attempts, "n_concurrent_trials": 8},
        "selection": {"limit": 1},
    }
    job = client.jobs.create({"name": name, "spec": spec})
    client.jobs.wait(job.id, timeout=120)
    return job.id


def test_problems_of_a_looping_agent_are_told_new_ones_first(
    typed: CommandLine, own: Client, server: RunningServer
) -> None:
    public = next(iter(own.benchmarks.list_public(name="quickstart")))
    mark = secrets.token_hex(4)
    benchmark = own.benchmarks.create(name=f"problems-{mark}", scenario_ids=[public.scenario_ids[0]])
    ended_job(own, benchmark.id, f"first-{mark}", writes(PLAIN), attempts=2)
    job_id = ended_job(
        own, benchmark.id, f"second-{mark}", writes(LOOP), writes(BROKEN, "exit 3"), attempts=2
    )
    told = typed.ok("job", "problems", f"second-{mark}")
    assert "trials: 4 ended, 2 of them with a trajectory" in told
    assert "new  repeated-call  2 of 2 trials" in told
    assert "new  failed-stage  2 of 4 trials" in told
    assert "3 times: rg days" in told
    assert "--step 3" in told
    assert "new: 2 trials, agent in agent: AgentError: the agent ended with exit status <*>" in told
    assert f"benchyard job problems {job_id}" in typed.ok("job", "summary", f"second-{mark}")
    view = json.loads(
        typed.ok("job", "problems", f"second-{mark}", "--signal", "absent-program", "-o", "json")
    )
    (problem,) = view["problems"]
    assert (problem["signal"], problem["is_new"], problem["n_found"]) == ("absent-program", True, 2)
    assert problem["examples"][0]["steps"] == [3, 4, 5]
    assert view["is_complete"]
    over = own.jobs.problems_of(benchmark.name)
    counts = {each.signal: [point.n_found for point in each.jobs] for each in over.problems}
    assert counts["repeated-call"] == [2, 0]
    refused = typed("job", "problems", f"second-{mark}", "--signal", "no-such-signal")
    assert (refused.status, "absent-program" in refused.err) == (2, True)
    assert typed("job", "problems", f"second-{mark}", "--agent", "nobody").status == 2
    assert typed("job", "problems", "no-such-job").status == 4
    findings = server.data / "problems" / f"{job_id}.jsonl"
    assert findings.exists()
    own.jobs.delete(job_id)
    assert not findings.exists()
