"""Jobs and trials as the store has them, for tests that count."""

from typing import Any

from benchyard.models.jobs import AgentConfig, Job, JobSource, JobSpec, JobState, OrchestratorConfig
from benchyard.models.trials import FailureKind, FailureReason, Trial, TrialState


def job(agents: int = 1, scenarios: int = 1, attempts: int = 1, state: JobState = JobState.RUNNING) -> Job:
    """A job with agents `agent-0`, `agent-1`, ... over scenarios `scn_0`, `scn_1`, ..."""
    return Job(
        id="bmj_1",
        create_time_ms=1,
        name="test",
        state=state,
        source=JobSource(type="scenarios"),
        spec=JobSpec(
            agent_configs=[AgentConfig(name=f"agent-{number}") for number in range(agents)],
            scenario_ids=[f"scn_{number}" for number in range(scenarios)],
            orchestrator_config=OrchestratorConfig(n_attempts=attempts),
        ),
        benchmark_run_ids=[f"bmr_{number}" for number in range(agents)],
    )


def trial(score: float | None = None, failure: FailureKind | None = None, **fields: Any) -> Trial:
    """A trial with a score, or that failed by somebody's fault; else one in the queue."""
    made: dict[str, Any] = {"agent": 0, "scenario": 0, "attempt": 1, "retry": 0, **fields}
    if failure is not None:
        state = TrialState.CANCELED if failure == "cancelled" else TrialState.FAILED
        reason = FailureReason(exception_type="Oops", exception_message="it broke", kind=failure)
        made = {"state": state, "failure": reason, **made}
    elif score is not None:
        made = {"state": TrialState.COMPLETED, "score": score, **made}
    place = "-".join(str(made[name]) for name in ("agent", "scenario", "attempt", "retry"))
    return Trial(
        id=f"trl_{place}",
        create_time_ms=1,
        job_id="bmj_1",
        scenario_id=f"scn_{made['scenario']}",
        scenario_name=f"scenario {made['scenario']}",
        **made,
    )
