"""Results in Harbor's layout: names that are safe, and what its files must say."""

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from benchyard.models.jobs import BenchmarkJobView
from benchyard.models.trials import TrialView
from benchyard.reports import harbor_results
from tests.client.test_jobs import job, trial

AGENT = {
    "name": "codex",
    "model_name": "openai/gpt",
    "base_url": "https://me:pw@example.test/v1",
    "kwargs": {"api_key": "sk-1", "effort": "high"},
    "agent_environment": {"environment_variables": {"PLAIN": "value"}, "secrets": {"OPENAI_API_KEY": "mine"}},
}


def view(**fields: Any) -> BenchmarkJobView:
    source = {"type": "benchmark", "benchmark_id": "bmd_1", "benchmark_name": "quickstart"}
    spec = {"agent_configs": [AGENT], "scenario_ids": ["scn_1"], "orchestrator_config": {"n_attempts": 2}}
    said = job(job_source=source, job_spec=spec, n_trials=3, start_time_ms=1_000, end_time_ms=9_000)
    return BenchmarkJobView.model_validate({**said, **fields})


def one(id: str = "trl_1", **fields: Any) -> TrialView:
    return TrialView.model_validate({**trial(id), **fields})


@given(some.lists(some.text(min_size=1), max_size=5))
def test_any_name_is_a_folder_of_its_own(names: list[str]) -> None:
    trials = [one(f"trl_{number}", scenario_name=name) for number, name in enumerate(names)]
    found = list(harbor_results.trial_names(trials).values())
    assert len({each.lower() for each in found}) == len(names)
    for each in found:
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,32}__[A-Za-z0-9]{7}", each)
        assert Path("a", each).parts == ("a", each)
        assert not each.startswith(".")
    assert list(harbor_results.trial_names(trials).values()) == found


def test_a_trial_says_what_harbor_says() -> None:
    stages = [
        {"name": "provision", "start_ms": 1_000, "end_ms": 2_000},
        {"name": "agent", "start_ms": 2_000, "end_ms": 3_000},
        {"name": "agent-2", "start_ms": 4_000, "end_ms": 5_000},
        {"name": "scoring", "start_ms": 5_000, "end_ms": 6_000},
    ]
    rounds = [
        {"number": 1, "name": "first", "score": 1.0, "rewards": {"speed": 2.0}},
        {"number": 2, "score": 0.5, "ended_by": "timeout", "end_time_ms": 5_000},
    ]
    usage = {
        "input_tokens": 10.0,
        "cached_tokens": 4.0,
        "output_tokens": 3.0,
        "cost_usd": 0.25,
        "requests": 2.0,
    }
    done = one(
        score=0.75, rewards={"speed": 2.0}, stages=stages, rounds=rounds, usage=usage, ended_by="timeout"
    )
    said = harbor_results.trial_result(view(), done, "one__aaaaaaa")
    assert said["verifier_result"] == {"rewards": {"speed": 2.0, "reward": 0.75}}
    assert said["agent_result"] == {
        "n_input_tokens": 10,
        "n_cache_tokens": 4,
        "n_output_tokens": 3,
        "cost_usd": 0.25,
    }
    assert said["agent_execution"] == {
        "started_at": "1970-01-01T00:00:02+00:00",
        "finished_at": "1970-01-01T00:00:05+00:00",
    }
    assert said["agent_setup"] is None
    assert said["agent_info"]["model_info"] == {"name": "gpt", "provider": "openai"}
    assert said["exception_info"]["exception_type"] == "AgentTimeoutError"
    first, second = said["step_results"]
    assert (first["step_name"], first["verifier_result"]["rewards"]) == (
        "first",
        {"speed": 2.0, "reward": 1.0},
    )
    assert (second["step_name"], second["exception_info"]["exception_type"]) == ("try-2", "AgentTimeoutError")


def test_no_secret_is_written() -> None:
    told = json.dumps(
        [
            harbor_results.job_config(view()),
            harbor_results.job_lock(view(), [one()]),
            harbor_results.trial_result(view(), one(), "x"),
        ]
    )
    for secret in ("sk-1", "me:pw", '"value"', '"mine"'):
        assert secret not in told
    assert '"OPENAI_API_KEY": "${OPENAI_API_KEY}"' in told
    assert '"effort": "high"' in told


def test_a_job_counts_its_trials() -> None:
    failure = {"exception_type": "DevboxLost", "exception_message": "gone", "kind": "infrastructure"}
    trials = [
        one("trl_1", score=1.0, usage={"input_tokens": 5.0}, suspicions=["opened /bin/sh"]),
        one("trl_2", state="failed", failure=failure, retry=2),
        one("trl_3", state="running"),
    ]
    names = harbor_results.trial_names(trials)
    said = harbor_results.job_result(view(), trials, names)
    stats = said["stats"]
    assert (stats["n_completed_trials"], stats["n_errored_trials"], stats["n_running_trials"]) == (2, 1, 1)
    assert (stats["n_pending_trials"], stats["n_retries"], stats["n_input_tokens"]) == (0, 2, 5)
    assert stats["cost_usd"] is None
    evals = stats["evals"]["codex__openai/gpt__quickstart"]
    assert evals["reward_stats"] == {"reward": {"1.0": [names["trl_1"]]}}
    assert evals["exception_stats"] == {"DevboxLost": [names["trl_2"]]}
    assert evals["n_suspect"] == 1
    assert harbor_results.trial_result(view(), trials[0], "x")["suspicions"] == ["opened /bin/sh"]
