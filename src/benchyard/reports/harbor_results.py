"""Jobs and trials in Harbor's formats: the content of its result, config and lock files."""

import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from benchyard.models.jobs import AgentConfig, BenchmarkJobView, BenchmarkOutcome
from benchyard.models.trials import Stage, TrialRound, TrialState, TrialView

LONGEST_TASK = 32
_TAIL = 7
_LETTERS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_SENSITIVE = re.compile(r"key|token|secret|password|credential|auth", re.IGNORECASE)
_USER_INFO = re.compile(r"//[^/@]*@")
_HIDDEN = "***"
_ADHOC = "adhoc"
_PHASES = {
    "environment_setup": "provision",
    "agent_setup": "setup",
    "agent_execution": "agent",
    "verifier": "scoring",
}
"""Names of phases here, by Harbor's names."""
_ENDED_BY = {"timeout": "AgentTimeoutError", "budget": "AgentBudgetExceededError"}
_WAITING = frozenset({TrialState.QUEUED})
_ENDED = frozenset({TrialState.COMPLETED, TrialState.FAILED, TrialState.TIMEOUT, TrialState.CANCELED})


def trial_names(trials: Sequence[TrialView]) -> dict[str, str]:
    """Return the name of each trial's folder, `TASK__XXXXXXX`, by trial id: safe, stable and unique."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for trial in trials:
        task = safe(trial.scenario_name.rpartition("/")[2])[:LONGEST_TASK].rstrip("_-.") or "task"
        count = 0
        # A file system may not distinguish upper and lower case.
        while (name := f"{task}__{_tail(trial.id, count)}").lower() in taken:
            count += 1
        taken.add(name.lower())
        names[trial.id] = name
    return names


def safe(name: str) -> str:
    """Return a name that is safe as a part of a path, from any text."""
    return _UNSAFE.sub("-", name).strip("-._")[:200] or "unnamed"


def _tail(id: str, count: int) -> str:
    number = int.from_bytes(hashlib.sha256(f"{id} {count}".encode()).digest())
    letters = []
    for _ in range(_TAIL):
        number, at = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[at])
    return "".join(letters)


def trial_config(job: BenchmarkJobView, trial: TrialView, name: str) -> dict[str, Any]:
    """Return the content of a trial's `config.json`."""
    return {
        "task": _task(job, trial),
        "trial_name": name,
        "trials_dir": f"jobs/{safe(job.name)}",
        "timeout_multiplier": 1.0,
        "agent": _agent(job, trial.agent),
        "environment": {},
        "verifier": {},
        "artifacts": [],
        "job_id": _uuid(job.id),
    }


def trial_result(job: BenchmarkJobView, trial: TrialView, name: str) -> dict[str, Any]:
    """Return the content of a trial's `result.json`."""
    return {
        "id": _uuid(trial.id),
        "task_name": trial.scenario_name,
        "trial_name": name,
        "trial_uri": f"benchyard:{trial.id}",
        "task_id": {"path": _task(job, trial)["path"]},
        "source": _source(job),
        "task_checksum": _digest(trial),
        "config": trial_config(job, trial, name),
        "agent_info": _agent_info(job, trial.agent),
        "agent_result": _spent(trial.usage),
        "verifier_result": _verifier_result(trial.score, trial.rewards),
        "exception_info": _exception(trial),
        "started_at": _time(trial.start_time_ms),
        "finished_at": _time(trial.end_time_ms),
        **{theirs: _timing(trial.stages, ours) for theirs, ours in _PHASES.items()},
        "step_results": [_step(round) for round in trial.rounds] or None,
        # Harbor has no field for suspicions, and ignores unknown ones.
        "suspicions": trial.suspicions,
    }


def rewards_of(score: float | None, rewards: Mapping[str, float]) -> dict[str, float] | None:
    """Return the rewards of a trial by name, its score as `reward`; None without a score."""
    return None if score is None else {**rewards, "reward": score}


def job_config(job: BenchmarkJobView) -> dict[str, Any]:
    """Return the content of a job's `config.json`."""
    orchestrator = job.job_spec.orchestrator_config
    return {
        "job_name": safe(job.name),
        "jobs_dir": "jobs",
        "n_attempts": orchestrator.attempts if orchestrator else 1,
        "n_concurrent_trials": _concurrent(job),
        "timeout_multiplier": 1.0,
        "agents": [_agent(job, number) for number in range(len(job.job_spec.agent_configs))],
        "datasets": [],
        "tasks": [],
    }


def job_lock(job: BenchmarkJobView, trials: Sequence[TrialView]) -> dict[str, Any]:
    """Return the content of a job's `lock.json`: the inputs of each trial."""
    return {
        "schema_version": 3,
        "created_at": _time(job.create_time_ms),
        "harbor": {},
        "n_concurrent_trials": _concurrent(job),
        "retry": {},
        "trials": [trial_lock(job, trial) for trial in trials],
    }


def trial_lock(job: BenchmarkJobView, trial: TrialView) -> dict[str, Any]:
    """Return the content of a trial's `lock.json`; the digest is that of the scenario's id and revision."""
    task = {"name": trial.scenario_name, "type": "local", "digest": _digest(trial), "source": _source(job)}
    return {
        "schema_version": 2,
        "task": {**task, "path": _task(job, trial)["path"]},
        "timeout_multiplier": 1.0,
        "agent": _agent(job, trial.agent),
        "environment": {},
        "verifier": {},
    }


def job_result(
    job: BenchmarkJobView, trials: Sequence[TrialView], names: Mapping[str, str]
) -> dict[str, Any]:
    """Return the content of a job's `result.json`."""
    ended = [trial for trial in trials if trial.state in _ENDED]
    waiting = sum(trial.state in _WAITING for trial in trials)
    spent = [tokens for trial in ended if (tokens := _spent(trial.usage)) is not None]
    stats = {
        "n_completed_trials": len(ended),
        "n_errored_trials": sum(_exception(trial) is not None for trial in ended),
        "n_running_trials": len(trials) - len(ended) - waiting,
        "n_pending_trials": max(job.n_trials - (len(trials) - waiting), 0),
        "n_cancelled_trials": sum(trial.state is TrialState.CANCELED for trial in ended),
        "n_retries": sum(trial.retry for trial in trials),
        "evals": _evals(job, ended, names),
        **{key: _total([amount.get(key) for amount in spent]) for key in _SPENT},
    }
    return {
        "id": _uuid(job.id),
        "started_at": _time(job.start_time_ms or job.create_time_ms),
        "updated_at": _time(job.end_time_ms or job.start_time_ms or job.create_time_ms),
        "finished_at": _time(job.end_time_ms),
        "n_total_trials": max(job.n_trials, len(trials)),
        "stats": stats,
    }


_SPENT = {
    "n_input_tokens": "input_tokens",
    "n_cache_tokens": "cached_tokens",
    "n_output_tokens": "output_tokens",
    "cost_usd": "cost_usd",
}


def _evals(
    job: BenchmarkJobView, ended: Sequence[TrialView], names: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    evaluations: dict[str, dict[str, Any]] = {}
    for number, config in enumerate(job.job_spec.agent_configs):
        own = [trial for trial in ended if trial.agent == number]
        model = f"{config.model_name}__" if config.model_name else ""
        key = f"{config.name}__{model}{_source(job) or _ADHOC}"
        if key in evaluations:
            key = f"{config.label}-{number}__{_source(job) or _ADHOC}"
        rewards: dict[str, dict[str, list[str]]] = {}
        exceptions: dict[str, list[str]] = {}
        for each in own:
            for name, value in (rewards_of(each.score, each.rewards) or {}).items():
                rewards.setdefault(name, {}).setdefault(repr(value), []).append(names[each.id])
            if (exception := _exception(each)) is not None:
                exceptions.setdefault(exception["exception_type"], []).append(names[each.id])
        outcome = _outcome(job, number)
        mean = outcome.mean_score if outcome else None
        evaluations[key] = {
            "n_trials": sum(trial.score is not None for trial in own),
            "n_errors": sum(_exception(trial) is not None for trial in own),
            "metrics": [] if mean is None else [{"mean": mean}],
            "pass_at_k": _at_k(outcome.pass_at_k if outcome else {}),
            "reward_stats": rewards,
            "exception_stats": exceptions,
            "n_suspect": sum(bool(trial.suspicions) for trial in own),
        }
    return evaluations


def _at_k(found: Mapping[str, float]) -> dict[str, float]:
    numbers = {key.removeprefix("pass@").removeprefix("pass_at_"): value for key, value in found.items()}
    return {key: value for key, value in numbers.items() if key.isdigit()}


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _task(job: BenchmarkJobView, trial: TrialView) -> dict[str, Any]:
    return {"path": f"tasks/{safe(trial.scenario_name.rpartition('/')[2])}", "source": _source(job)}


def _source(job: BenchmarkJobView) -> str | None:
    return job.job_source.benchmark_name or job.job_source.benchmark_id


def _concurrent(job: BenchmarkJobView) -> int:
    orchestrator = job.job_spec.orchestrator_config
    return orchestrator.concurrency if orchestrator else 1


def _config(job: BenchmarkJobView, number: int) -> AgentConfig:
    configs = job.job_spec.agent_configs
    return configs[number] if 0 <= number < len(configs) else AgentConfig(name=f"agent-{number}")


def _outcome(job: BenchmarkJobView, number: int) -> BenchmarkOutcome | None:
    """Return the outcome of an agent, if it is done."""
    run_id = job.progress[number].benchmark_run_id if number < len(job.progress) else None
    return next((outcome for outcome in job.benchmark_outcomes if outcome.benchmark_run_id == run_id), None)


def _agent(job: BenchmarkJobView, number: int) -> dict[str, Any]:
    """Return the agent of a trial; variables become templates, values that look like secrets are hidden."""
    config = _config(job, number)
    environment = config.agent_environment
    names = [*(environment.environment_variables or {}), *(environment.secrets or {})] if environment else []
    kwargs = {
        key: _HIDDEN if _SENSITIVE.search(key) else value for key, value in (config.kwargs or {}).items()
    }
    return {
        "name": config.name,
        "model_name": config.model_name or None,
        "base_url": _USER_INFO.sub("//", config.base_url) if config.base_url else None,
        "override_timeout_sec": config.timeout_seconds,
        "kwargs": kwargs,
        "env": {name: f"${{{name}}}" for name in names},
    }


def _agent_info(job: BenchmarkJobView, number: int) -> dict[str, Any]:
    config = _config(job, number)
    outcome = _outcome(job, number)
    version = config.version or (outcome.version if outcome else None) or "unknown"
    provider, _, model = (config.model_name or "").rpartition("/")
    info = {"name": model, "provider": provider or None} if model else None
    return {"name": config.name, "version": version, "model_info": info}


def _spent(usage: Mapping[str, float]) -> dict[str, Any] | None:
    found: dict[str, Any] = {theirs: usage[ours] for theirs, ours in _SPENT.items() if ours in usage}
    tokens = {key: int(value) for key, value in found.items() if key != "cost_usd"}
    return {**found, **tokens} or None


def _verifier_result(score: float | None, rewards: Mapping[str, float]) -> dict[str, Any] | None:
    values = rewards_of(score, rewards)
    return None if values is None else {"rewards": values}


def _exception(trial: TrialView) -> dict[str, Any] | None:
    if trial.failure is not None:
        is_cancelled = trial.failure.kind == "cancelled"
        type = "CancelledError" if is_cancelled else trial.failure.exception_type
        message = trial.failure.exception_message
    elif trial.ended_by is not None:
        type, message = _ENDED_BY[trial.ended_by], f"the agent was ended by its {trial.ended_by}"
    else:
        return None
    return {
        "exception_type": type,
        "exception_message": message,
        "exception_traceback": "",
        "occurred_at": _time(trial.end_time_ms or trial.create_time_ms),
    }


def _step(stage: TrialRound) -> dict[str, Any]:
    ended = _ENDED_BY.get(stage.ended_by or "")
    exception = {
        "exception_type": ended,
        "exception_message": f"the agent was ended by its {stage.ended_by}",
        "exception_traceback": "",
        "occurred_at": _time(stage.end_time_ms or 0),
    }
    return {
        "step_name": stage.name or f"try-{stage.number}",
        "verifier_result": _verifier_result(stage.score, stage.rewards),
        "exception_info": exception if ended else None,
        "agent_execution": {
            "started_at": _time(stage.start_time_ms),
            "finished_at": _time(stage.end_time_ms),
        },
    }


def _timing(stages: Sequence[Stage], name: str) -> dict[str, Any] | None:
    """Return the begin and end of a phase; with several rounds, from the first to the last."""
    own = [stage for stage in stages if stage.name == name or stage.name.startswith(f"{name}-")]
    if not own:
        return None
    started, finished = min(stage.start_ms for stage in own), max(stage.end_ms for stage in own)
    return {"started_at": _time(started), "finished_at": _time(finished)}


def _time(ms: int | None) -> str | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def _uuid(id: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"benchyard:{id}"))


def _digest(trial: TrialView) -> str:
    text = f"{trial.scenario_id}@{trial.scored_revision or 0}"
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
