"""Outcomes of a job's agents, and their progress: counted from its trials."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from benchyard.models.jobs import (
    ENDED_JOBS,
    AgentProgress,
    AttemptCounts,
    AttemptOutcome,
    BenchmarkJobView,
    BenchmarkOutcome,
    InProgressRun,
    Job,
    JobState,
    ScenarioOutcome,
)
from benchyard.models.trials import NEARLY_PASSED, OutcomeState, SuspectRule, Trial, TrialState
from benchyard.reports.statistics.attempts import pass_all_k, pass_at_k, pass_scenarios
from benchyard.reports.statistics.means import estimate
from benchyard.reports.times import job_times, working_ms

_WORDS: dict[TrialState, OutcomeState] = {
    TrialState.COMPLETED: "COMPLETED",
    TrialState.FAILED: "FAILED",
    TrialState.TIMEOUT: "TIMEOUT",
    TrialState.CANCELED: "CANCELED",
}


def outcomes(
    job: Job, trials: list[Trial], *, with_scenarios: bool, rule: SuspectRule = "keep"
) -> list[BenchmarkOutcome]:
    """Return the outcome of each agent that is done: its plan is complete, and all trials have ended."""
    by_agent = _groups(trials, lambda trial: trial.agent)
    return [
        _outcome(job, agent, by_agent[agent], with_scenarios=with_scenarios, rule=rule)
        for agent in range(len(job.spec.agent_configs))
        if _is_done(job, by_agent.get(agent, ()))
    ]


def progress(job: Job, trials: list[Trial], *, rule: SuspectRule = "keep") -> list[AgentProgress]:
    """Return the progress of each agent; superseded trials count only as its `retries`."""
    by_agent = _groups(trials, lambda trial: trial.agent)
    agents = range(len(job.spec.agent_configs))
    return [_progress(job, agent, by_agent.get(agent, []), rule) for agent in agents]


class _Row:
    """Trials of one scenario: those that count, and those that they superseded."""

    def __init__(self, trials: list[Trial], rule: SuspectRule) -> None:
        self.rule = rule
        self.trials = trials if len(trials) == 1 else sorted(trials, key=_place)
        self.counting = [trial for trial in self.trials if not trial.is_superseded]
        done = [trial for trial in self.counting if trial.state is TrialState.COMPLETED]
        self.completed = [score for trial in done if (score := trial.counts(rule)) is not None]
        self.scores = [score for trial in self.counting if (score := trial.counts(rule)) is not None]
        self.suspect = [trial for trial in self.counting if trial.is_suspect]
        self.score = fmean(self.scores) if self.scores else None
        self.unscored = sum(trial.is_unscored for trial in self.counting)
        self._speakers = done or self.counting

    @property
    def speaker(self) -> Trial:
        """Return the attempt that represents the row: the last completed one, else the last."""
        return self._speakers[-1]

    @property
    def n_passed(self) -> int:
        """Return the number of its attempts that passed."""
        return sum(score >= NEARLY_PASSED for score in self.scores)


def _outcome(
    job: Job, agent: int, trials: list[Trial], *, with_scenarios: bool, rule: SuspectRule
) -> BenchmarkOutcome:
    config = job.spec.agent_configs[agent]
    rows = [row for row in _rows(trials, rule) if row.counting]
    states = Counter(row.speaker.state for row in rows)
    scores = [row.score for row in rows if row.score is not None]
    mean = estimate(scores)
    counts = [(len(row.scores), row.n_passed) for row in rows]
    return BenchmarkOutcome(
        agent_name=config.name,
        model_name=config.model_name,
        version=config.version,
        benchmark_run_id=_run_id(job, agent),
        n_completed=states[TrialState.COMPLETED],
        n_failed=states[TrialState.FAILED],
        n_timeout=states[TrialState.TIMEOUT],
        n_canceled=states[TrialState.CANCELED],
        n_trials=sum(len(row.counting) for row in rows),
        n_passed=sum(score >= NEARLY_PASSED for score in scores),
        n_errors=len(rows) - states[TrialState.COMPLETED],
        average_score=_mean(fmean(row.completed) for row in rows if row.completed),
        mean_score=mean.mean if mean else None,
        # Scores outside of 0 and 1 that do not vary have no ends, and JSON no infinity.
        mean_low=mean.low if mean and math.isfinite(mean.low) else None,
        mean_high=mean.high if mean and math.isfinite(mean.high) else None,
        pass_at_k=pass_at_k(counts, job.orchestrator.attempts),
        pass_all_k=pass_all_k(counts, job.orchestrator.attempts),
        pass_scenarios=pass_scenarios(counts, job.orchestrator.attempts),
        score_bounds=_score_bounds(rows),
        unscored=sum(row.unscored for row in rows),
        attempts=_attempts([trial for row in rows for trial in row.counting], rule),
        n_suspect=sum(len(row.suspect) for row in rows),
        suspect=rule,
        usage=_usage(trials),
        rewards=_rewards(rows),
        duration_ms=working_ms(trials),
        scenario_outcomes=[_scenario(row) for row in rows] if with_scenarios else [],
    )


def _score_bounds(rows: Sequence[_Row]) -> tuple[float, float] | None:
    """Return the mean with all unscored attempts as 0, and as 1; None without any."""
    if not any(row.unscored for row in rows):
        return None
    known = [row for row in rows if row.scores or row.unscored]
    low = fmean(sum(row.scores) / (len(row.scores) + row.unscored) for row in known)
    share = fmean(row.unscored / (len(row.scores) + row.unscored) for row in known)
    return round(low, 9), round(low + share, 9)


def _scenario(row: _Row) -> ScenarioOutcome:
    speaker = row.speaker
    # Clients of the wire take a score as that of a completed run.
    score = row.score if speaker.state is TrialState.COMPLETED else None
    durations = [length for trial in row.counting if (length := trial.duration_ms) is not None]
    working = [length for trial in row.counting if (length := trial.working_ms) is not None]
    return ScenarioOutcome(
        scenario_definition_id=speaker.scenario_id,
        scenario_name=speaker.scenario_name,
        state=_WORDS[speaker.state],
        scenario_run_id=speaker.scenario_run_id,
        score=None if score is None else round(score, 9),
        duration_ms=sum(durations) if durations else None,
        working_ms=sum(working) if working else None,
        failure_reason=speaker.failure,
        attempts=[_attempt(trial, row.rule) for trial in row.trials if trial.has_ended],
        unscored=row.unscored,
        n_suspect=len(row.suspect),
        suspicions=list(dict.fromkeys(line for trial in row.suspect for line in trial.suspicions)),
    )


def _attempts(counting: Iterable[Trial], rule: SuspectRule) -> AttemptCounts:
    counts = Counter(trial.outcome(rule) for trial in counting)
    return AttemptCounts.model_validate(counts)


def _attempt(trial: Trial, rule: SuspectRule) -> AttemptOutcome:
    return AttemptOutcome(
        trial_id=trial.id,
        attempt=trial.attempt,
        retry=trial.retry,
        is_superseded=trial.is_superseded,
        state=_WORDS[trial.state],
        score=trial.score,
        ended_by=trial.ended_by,
        scenario_run_id=trial.scenario_run_id,
        duration_ms=trial.duration_ms,
        preparing_ms=trial.preparing_ms,
        failure_reason=trial.failure,
        answer_failure=trial.answer_failure,
        scorer_note=trial.scorer_note,
        outcome=trial.outcome(rule),
        usage=trial.usage,
        rewards=trial.rewards,
        conditions=trial.conditions,
        rounds=trial.rounds,
        suspicions=trial.suspicions,
    )


def _progress(job: Job, agent: int, trials: list[Trial], rule: SuspectRule) -> AgentProgress:
    config = job.spec.agent_configs[agent]
    rows = _rows(trials, rule)
    counting = [trial for row in rows for trial in row.counting]
    return AgentProgress(
        agent_name=config.name,
        model_name=config.model_name,
        benchmark_run_id=_run_id(job, agent),
        n_trials=len(job.spec.scenario_ids) * job.orchestrator.attempts,
        by_state=dict(Counter(trial.state for trial in counting)),
        unscored=sum(row.unscored for row in rows),
        retries=len(trials) - len(counting),
        n_suspect=sum(len(row.suspect) for row in rows),
        mean_score=_mean(row.score for row in rows if row.score is not None),
    )


def _is_done(job: Job, trials: Sequence[Trial]) -> bool:
    """Tell whether all trials of an agent have ended; an ended job may leave places without a trial."""
    counting = [trial for trial in trials if not trial.is_superseded]
    planned = len(job.spec.scenario_ids) * job.orchestrator.attempts
    is_whole = len(counting) >= planned or job.state in ENDED_JOBS
    return bool(counting) and is_whole and all(trial.has_ended for trial in counting)


def _rows(trials: Iterable[Trial], rule: SuspectRule) -> list[_Row]:
    """Return a row for each scenario, in the order of the job's plan."""
    by_scenario = _groups(trials, lambda trial: trial.scenario)
    return [_Row(by_scenario[scenario], rule) for scenario in sorted(by_scenario)]


def _groups(trials: Iterable[Trial], of: Callable[[Trial], int]) -> dict[int, list[Trial]]:
    groups: dict[int, list[Trial]] = defaultdict(list)
    for trial in trials:
        groups[of(trial)].append(trial)
    return groups


def _place(trial: Trial) -> tuple[int, int]:
    return trial.attempt, trial.retry


def _mean(scores: Iterable[float]) -> float | None:
    known = list(scores)
    return round(fmean(known), 9) if known else None


def _run_id(job: Job, agent: int) -> str:
    """Return the benchmark run of an agent; an unplanned job has none yet."""
    return job.benchmark_run_ids[agent] if agent < len(job.benchmark_run_ids) else ""


def _usage(trials: Iterable[Trial]) -> dict[str, float]:
    """Return the total usage, including that of superseded trials."""
    totals: dict[str, float] = defaultdict(float)
    is_whole = True
    for trial in trials:
        for name, amount in trial.usage.items():
            totals[name] += amount
        if trial.usage.get("model_calls") and "cost_usd" not in trial.usage:
            is_whole = False
    if not is_whole:
        # A partial sum would be taken for the whole.
        totals.pop("cost_usd", None)
    return dict(totals)


def _rewards(rows: Iterable[_Row]) -> dict[str, float]:
    """Return the mean of each reward over scenarios; a reward that only some scenarios have, over those."""
    counted = [[trial for trial in row.counting if trial.counted_score is not None] for row in rows]
    counted = [row for row in counted if row]
    names_by_row = [{name for trial in row for name in trial.rewards} for row in counted]
    shared = set.intersection(*(each for each in names_by_row if each)) if any(names_by_row) else set[str]()
    means = {}
    for name in dict.fromkeys(name for row in counted for trial in row for name in trial.rewards):
        having = [
            row for row, names in zip(counted, names_by_row, strict=True) if name in shared or name in names
        ]
        means[name] = round(fmean(fmean(trial.rewards.get(name, 0.0) for trial in row) for row in having), 9)
    return means


_UNDER_WAY = (JobState.QUEUED, JobState.RUNNING)
"""States in which a job's benchmark runs exist and are not over."""


def job_view(
    job: Job, trials: list[Trial], *, with_scenarios: bool, suspect: SuspectRule | None = None
) -> BenchmarkJobView:
    """Return a job with its outcomes; lists omit their scenarios.

    Suspect scores are treated by the job's own rule, unless another is given.
    """
    rule = suspect or job.orchestrator.suspect_rule
    results = outcomes(job, trials, with_scenarios=with_scenarios, rule=rule)
    done = {outcome.benchmark_run_id for outcome in results}
    return BenchmarkJobView(
        id=job.id,
        name=job.name,
        state=job.state,
        create_time_ms=job.create_time_ms,
        job_source=job.source,
        job_spec=job.spec,
        in_progress_runs=_under_way(job, done) if job.state in _UNDER_WAY else [],
        benchmark_outcomes=results,
        failure_reason=job.failure_reason,
        metadata=job.metadata,
        start_time_ms=job.start_time_ms,
        end_time_ms=job.end_time_ms,
        deadline_ms=job.deadline_ms,
        n_trials=job.n_trials,
        progress=progress(job, trials, rule=rule),
        rescoring=job.rescoring,
        rescoring_state=job.rescoring_state,
        preparations=job.preparations,
        times=job_times(job, trials, round(time.time() * 1000)),
        resume_time_ms=job.pauses[-1].end_time_ms if job.pauses else None,
        pinned=job.is_pinned,
        tags=job.tags,
        note=job.note,
    )


def _under_way(job: Job, done: set[str]) -> list[InProgressRun]:
    return [
        InProgressRun(
            benchmark_run_id=run_id,
            state="running",
            start_time_ms=job.start_time_ms or job.create_time_ms,
            agent_config=config,
        )
        for run_id, config in zip(job.benchmark_run_ids, job.spec.agent_configs, strict=True)
        if run_id not in done
    ]
