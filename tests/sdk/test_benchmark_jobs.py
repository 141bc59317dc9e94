"""Jobs through the official client: created, followed to the end, listed; their runs can be looked into."""

import time
from typing import Any

import pytest
from runloop_api_client import BadRequestError, NotFoundError, Runloop
from runloop_api_client.types import BenchmarkJobView

from tests.sdk.scenes import benchmark, scenario, unique

PATIENCE_SECONDS = 120.0
ORACLE: Any = {"name": "oracle", "type": "job_agent", "timeout_seconds": 600}
NOP: Any = {"name": "nop", "type": "job_agent", "model_name": "none"}
SETTINGS: Any = {"n_concurrent_trials": 4, "n_attempts": 1, "timeout_multiplier": 1, "quiet": False}


def followed(client: Runloop, id: str) -> BenchmarkJobView:
    """The job once it has ended, looked at as the original's command line does."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        job = client.benchmark_jobs.retrieve(id)
        for run in job.in_progress_runs or []:
            assert run.state == "running"
            children = client.benchmark_runs.list_scenario_runs(run.benchmark_run_id, limit=100)
            assert job.job_spec is not None
            assert {each.scenario_id for each in children} <= set(job.job_spec.scenario_ids)
        if job.state not in ("initializing", "queued", "running"):
            return job
        assert time.monotonic() < deadline, job
        time.sleep(0.2)


def test_a_job_over_a_benchmark_from_beginning_to_end(client: Runloop) -> None:
    made = [scenario(client, reference_output="touch ~/done") for _ in range(2)]
    over = benchmark(client, *(each.id for each in made))
    spec: Any = {
        "type": "benchmark",
        "benchmark_id": over.id,
        "agent_configs": [ORACLE, NOP],
        "orchestrator_config": SETTINGS,
    }
    job = client.benchmark_jobs.create(name=(name := unique("job")), spec=spec)
    assert (job.name, job.id[:4]) == (name, "bmj_")
    ended = followed(client, job.id)
    assert (ended.state, ended.failure_reason, ended.in_progress_runs) == ("completed", None, [])
    assert ended.job_spec is not None
    assert ended.job_spec.scenario_ids == [each.id for each in made]
    assert [agent_config.name for agent_config in ended.job_spec.agent_configs] == ["oracle", "nop"]
    oracle, nop = ended.benchmark_outcomes or []
    assert (oracle.agent_name, oracle.average_score, oracle.n_completed) == ("oracle", 1.0, 2)
    assert (nop.api_model_name, nop.average_score, nop.n_failed, nop.n_timeout) == ("none", 0.0, 0, 0)
    row = oracle.scenario_outcomes[0]
    assert (row.scenario_definition_id, row.state, row.score) == (made[0].id, "COMPLETED", 1.0)
    assert row.scenario_run_id is not None
    run = client.scenarios.runs.retrieve(row.scenario_run_id)
    assert (run.state, run.benchmark_run_id) == ("completed", oracle.benchmark_run_id)
    assert client.scenarios.runs.download_logs(run.id).read()[:2] == b"PK"
    assert client.benchmark_runs.retrieve(oracle.benchmark_run_id).score == 1.0


def test_a_job_over_scenarios_distinguishes_failures(client: Runloop) -> None:
    made = scenario(client)
    fails: Any = {"name": "command", "type": "job_agent", "kwargs": {"run": "echo broken >&2; exit 7"}}
    spec: Any = {"type": "scenarios", "scenario_ids": [made.id], "agent_configs": [fails]}
    ended = followed(client, client.benchmark_jobs.create(spec=spec).id)
    (outcome,) = ended.benchmark_outcomes or []
    (row,) = outcome.scenario_outcomes
    assert (outcome.n_failed, outcome.average_score, row.state, row.score) == (1, None, "FAILED", None)
    assert row.failure_reason is not None
    assert row.failure_reason.exception_type == "AgentError"
    assert "broken" in row.failure_reason.exception_message


def test_a_harbor_job_file_over_a_benchmark_by_name(client: Runloop) -> None:
    made = scenario(client, reference_output="touch ~/done")
    over = benchmark(client, made.id)
    text = f"""
job_name: from-a-file
n_attempts: 2
agents:
  - name: oracle
datasets:
  - name: {over.name}
"""
    job = client.benchmark_jobs.create(spec={"type": "harbor", "inline_yaml": text})
    ended = followed(client, job.id)
    assert (ended.name, ended.state) == ("from-a-file", "completed")
    (outcome,) = ended.benchmark_outcomes or []
    assert (outcome.average_score, len(outcome.scenario_outcomes)) == (1.0, 1)
    refused = text + "environment:\n  mounts: [{source: /etc, target: /x}]\n"
    with pytest.raises(BadRequestError, match=r"environment\.mounts"):
        client.benchmark_jobs.create(spec={"type": "harbor", "inline_yaml": refused})


def test_jobs_are_listed_newest_first_page_by_page(client: Runloop) -> None:
    made = scenario(client)
    spec: Any = {"type": "scenarios", "scenario_ids": [made.id], "agent_configs": [NOP]}
    name = unique("listed")
    ids = [client.benchmark_jobs.create(name=name, spec=spec).id for _ in range(3)]
    first = client.benchmark_jobs.list(name=name, limit=2)
    assert [job.id for job in first.jobs] == ids[:0:-1]
    assert (first.has_more, first.total_count) == (True, 3)
    rest = client.benchmark_jobs.list(name=name, limit=2, starting_after=ids[1])
    assert ([job.id for job in rest.jobs], rest.has_more) == (ids[:1], False)
    for id in ids:
        followed(client, id)
    with pytest.raises(NotFoundError):
        client.benchmark_jobs.retrieve("bmj_none")
    with pytest.raises(BadRequestError, match="spec"):
        client.benchmark_jobs.create(name=name)
