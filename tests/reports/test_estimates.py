"""Estimates of a job's cost from earlier jobs."""

from typing import Any

from benchyard.models.job_plans import JobPlanView, count_line
from benchyard.models.jobs import AttemptCounts, BenchmarkJobView
from benchyard.reports.estimates import with_costs


def plan(*agents: dict[str, Any]) -> JobPlanView:
    """Of two scenarios and three attempts."""
    return JobPlanView.model_validate(
        {
            "name": "planned",
            "benchmark_id": "bmd_1",
            "n_scenarios": 2,
            "n_agents": len(agents),
            "n_attempts": 3,
            "n_trials": 6 * len(agents),
            "n_concurrent_trials": 1,
            "scenarios": [{"id": "scn_1", "name": "a"}, {"id": "scn_2", "name": "b"}],
            "agents": list(agents),
        }
    )


def past(id: str, cost: float | None, trials: int, **fields: Any) -> BenchmarkJobView:
    """A job that had codex with gpt."""
    usage = {"model_calls": 5.0} | ({} if cost is None else {"cost_usd": cost})
    outcome = {
        "agent_name": "codex",
        "model_name": "gpt",
        "benchmark_run_id": "bmr_1",
        "n_completed": 1,
        "n_failed": 0,
        "n_timeout": 0,
        "n_trials": trials,
        "usage": usage,
    }
    whole = {
        "id": id,
        "name": id,
        "state": "completed",
        "create_time_ms": 1,
        "job_source": {"type": "benchmark", "benchmark_id": "bmd_1"},
        "job_spec": {"agent_configs": [{"name": "codex"}], "scenario_ids": ["scn_9"]},
        "benchmark_outcomes": [outcome],
    }
    return BenchmarkJobView.model_validate(whole | fields)


CODEX = {"name": "codex", "model_name": "gpt", "asks_models": True}


def test_the_mean_of_the_last_jobs_alike_times_the_trials() -> None:
    other = past("bmj_x", 100.0, 1, job_source={"type": "benchmark", "benchmark_id": "bmd_2"})
    shared = past(
        "bmj_3",
        1.0,
        4,
        job_source={"type": "scenarios"},
        job_spec={"agent_configs": [{"name": "codex"}], "scenario_ids": ["scn_2"]},
    )
    jobs = [other, past("bmj_1", 2.0, 4), past("bmj_2", None, 4), shared]
    found = with_costs(plan(CODEX, {"name": "nop"}), jobs)
    (codex, nop) = found.agents
    assert codex.past_cost is not None
    assert (codex.past_cost.usd_per_trial, codex.past_cost.job_ids) == (3.0 / 8, ["bmj_1", "bmj_3"])
    assert nop.past_cost is None
    assert found.estimated_cost_usd == 6 * 3.0 / 8


def test_estimate_needs_the_cost_of_every_agent() -> None:
    unknown = {"name": "codex", "model_name": "another", "asks_models": True}
    assert with_costs(plan(CODEX, unknown), [past("bmj_1", 2.0, 4)]).estimated_cost_usd is None
    assert with_costs(plan({"name": "nop"}), []).estimated_cost_usd is None


def test_counts_are_told_in_one_line() -> None:
    assert count_line(12, 3, 4) == "12 scenarios x 3 agents x 4 attempts = 144 trials"
    assert count_line(1, 1, 1) == "1 scenario x 1 agent x 1 attempt = 1 trial"


def test_a_job_whose_trials_all_broke_off_tells_no_cost() -> None:
    def counted(job: BenchmarkJobView, **counts: int) -> BenchmarkJobView:
        outcome = job.benchmark_outcomes[0].model_copy(update={"attempts": AttemptCounts(**counts)})
        return job.model_copy(update={"benchmark_outcomes": [outcome]})

    broken = counted(past("bmj_1", 0.0, 4), crashed=3, unscored=1)
    good = counted(past("bmj_2", 2.0, 4), crashed=3, passed=1)
    (codex,) = with_costs(plan(CODEX), [broken, good]).agents
    assert codex.past_cost is not None
    assert (codex.past_cost.usd_per_trial, codex.past_cost.job_ids) == (0.5, ["bmj_2"])
