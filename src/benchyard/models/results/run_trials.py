"""Benchmark runs of the SDK as jobs with one agent, and their scenario runs as trials, for reports."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from benchyard.models.jobs import AgentConfig, Job, JobSource, JobSpec, JobState
from benchyard.models.runs import BenchmarkRun, ContractResult, RunState, ScenarioRun
from benchyard.models.trials import FailureKind, FailureReason, Trial, TrialState

SDK_AGENT = "sdk"
"""Name of the agent of runs that do not say it."""
TRIAL_STATES: Mapping[RunState, TrialState] = {
    RunState.RUNNING: TrialState.RUNNING,
    RunState.SCORING: TrialState.SCORING,
    RunState.SCORED: TrialState.COMPLETED,
    RunState.COMPLETED: TrialState.COMPLETED,
    RunState.CANCELED: TrialState.CANCELED,
    RunState.TIMEOUT: TrialState.TIMEOUT,
    RunState.FAILED: TrialState.FAILED,
}
_JOB_STATES: Mapping[str, JobState] = {
    "running": JobState.RUNNING,
    "completed": JobState.COMPLETED,
    "canceled": JobState.CANCELLED,
    "failed": JobState.FAILED,
}
_FAULTS: Mapping[RunState, FailureKind] = {
    RunState.CANCELED: "cancelled",
    RunState.TIMEOUT: "timeout",
    RunState.FAILED: "infrastructure",
}
_NOT_PRINTED = re.compile(r"[\x00-\x1f\x7f]+")
_LONGEST = 1024


def run_agent(metadata: Mapping[str, object]) -> AgentConfig:
    """Return the agent that the metadata of a benchmark run names: `agent`, `model` and `version`."""
    name, model, version = (_line(metadata.get(key)) for key in ("agent", "model", "version"))
    return AgentConfig(name=name or SDK_AGENT, model_name=model, version=version)


def _line(value: object) -> str | None:
    return _NOT_PRINTED.sub(" ", value)[:_LONGEST] or None if isinstance(value, str) else None


def job_of_run(run: BenchmarkRun, benchmark_name: str | None) -> Job:
    """Return a benchmark run as a job with one agent; it has ended once all its scenario runs have."""
    return Job(
        id=run.id,
        create_time_ms=run.create_time_ms,
        name=run.name or run.id,
        state=JobState.RUNNING if run.is_closing else _JOB_STATES[run.state],
        source=JobSource(
            type="benchmark", benchmark_id=run.benchmark_id or None, benchmark_name=benchmark_name
        ),
        spec=JobSpec(agent_configs=[run_agent(run.metadata)], scenario_ids=run.scenario_ids),
        start_time_ms=run.create_time_ms,
        end_time_ms=None if run.is_closing else run.end_time_ms,
    )


class RunTrials:
    """Makes trials of the scenario runs of a benchmark run."""

    def __init__(self, job: Job, names: Mapping[str, str]) -> None:
        self._job = job
        self._names = names
        self._places = {id: place for place, id in enumerate(job.spec.scenario_ids)}

    def trials(self, newest_first: Iterable[ScenarioRun]) -> list[Trial]:
        """Return the runs as trials, oldest first; several runs of a scenario are its attempts."""
        attempts: Counter[str] = Counter()
        found = []
        for run in reversed(list(newest_first)):
            trial = self.trial(run, attempts[run.scenario_id] + 1)
            if trial is not None:
                attempts[run.scenario_id] += 1
                found.append(trial)
        return found

    def trial(self, run: ScenarioRun, attempt: int = 1) -> Trial | None:
        """Return a run as a trial; None for a scenario that the benchmark did not have at the beginning.

        A run that timed out counts 0; one that was cancelled or failed is unscored.
        """
        place = self._places.get(run.scenario_id)
        if place is None or run.is_reference:
            return None
        agent, result = self._job.spec.agent_configs[0], run.result
        trial = Trial(
            id=run.id,
            create_time_ms=run.create_time_ms,
            job_id=self._job.id,
            scenario=place,
            scenario_id=run.scenario_id,
            scenario_name=self._names.get(run.scenario_id, run.scenario_id),
            agent_name=agent.name,
            agent_label=agent.label,
            benchmark_id=self._job.source.benchmark_id,
            attempt=attempt,
            state=TRIAL_STATES[run.state],
            scenario_run_id=run.id,
            devbox_id=run.devbox_id,
            failure=_failure(run),
            start_time_ms=run.create_time_ms,
            end_time_ms=run.end_time_ms,
            usage=run.usage,
            # Each scoring makes the findings anew.
            rescorings=run.scorings,
        )
        return trial if result is None else trial.model_copy(update=_scored(result))


def _scored(result: ContractResult) -> dict[str, object]:
    return {
        "score": result.score,
        "rewards": result.rewards,
        "conditions": result.conditions,
        "suspicions": result.suspicions,
        "scoring_network": result.network,
        "isolation": result.isolation,
        "isolation_reason": result.isolation_reason,
        "scored_revision": result.scenario_revision,
        "answer_failure": result.answer_failure,
        "scorer_note": result.scorer_note,
    }


def _failure(run: ScenarioRun) -> FailureReason | None:
    kind = _FAULTS.get(run.state)
    if kind is None:
        return None
    message = run.failure_reason or f"the run is {run.state.value}"
    return FailureReason(exception_type=f"Run{run.state.value.title()}", exception_message=message, kind=kind)
