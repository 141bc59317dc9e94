"""Problems of a job, made in a worker of its trials and the stored findings."""

import gc
import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, BinaryIO

from benchyard.models.jobs import Job
from benchyard.models.reports.problems import (
    AgentPrevalence,
    FailureGroup,
    Problem,
    ProblemExample,
    ProblemFinding,
    ProblemsView,
    TrialFindings,
)
from benchyard.models.trials import NEARLY_PASSED, Trial
from benchyard.reports.problems.base import ProblemSignal, brief
from benchyard.reports.problems.digests import (
    ended_trials,
    facts_of,
    failed_by,
    run_signals,
    signals,
    stored_findings,
    unloadable_signals,
    version_of,
)
from benchyard.reports.problems.facts import PeerTrial, ScenarioPeers
from benchyard.reports.problems.prevalence import JudgedTrial, associations
from benchyard.reports.problems.templates import templates_of

MOST_GROUPS = 100
MOST_DIGESTS = 10_000
"""Groups that are left out and still known by the next job."""
_LEAST_EXAMPLES, _MOST_EXAMPLES = 3, 10
_MOST_TEMPLATE = 500


def make_problems(
    content: BinaryIO,
    size: int,
    job: Mapping[str, Any],
    previous: Mapping[str, Any] | None,
    *,
    is_complete: bool,
) -> bytes:
    """Return the problems of a job as compressed JSON.

    The content has the trials, of this size, and then the findings; each is a line of JSON. `previous` is the
    view of the last job of the same benchmark. `is_complete` tells whether all trials that had ended a moment
    ago were read, and those of the previous job.
    """
    gc.disable()
    whole = Job.model_validate(job)
    trials = ended_trials(content.read(size).splitlines())
    findings = {each.trial_id: each for each in stored_findings(content)}
    before = None if previous is None else ProblemsView.model_validate(previous)
    view = job_problems(whole, trials, findings, before).model_copy(update={"is_complete": is_complete})
    return gzip.compress(view.model_dump_json(exclude_none=True).encode(), 1, mtime=0)


def job_problems(
    job: Job,
    trials: Sequence[Trial],
    findings: Mapping[str, TrialFindings],
    previous: ProblemsView | None = None,
) -> ProblemsView:
    """Return the problems of a job; trials without findings of this version are left out."""
    read = [
        (trial, found)
        for trial in trials
        if (found := findings.get(trial.id)) is not None and found.version == version_of(trial)
    ]
    by_scenario: dict[int, list[tuple[Trial, TrialFindings]]] = defaultdict(list)
    for trial, found in read:
        by_scenario[trial.scenario].append((trial, found))
    table = _FindingTable(job)
    means = _scenario_means(by_scenario)
    for scenario, rows in by_scenario.items():
        peers = ScenarioPeers(tuple(_peer(*row) for row in rows), _means_elsewhere(means, scenario))
        for place, (trial, found) in enumerate(rows):
            table.add(trial, found.findings, found.unknown)
            facts = replace(facts_of(trial, None, None), peers=peers)
            table.add(trial, *run_signals(_of_subject("trial"), facts))
            if place == 0:
                table.add(trial, *run_signals(_of_subject("scenario"), facts))
    groups = _marked(_groups(job, read), previous)
    return ProblemsView(
        job_id=job.id,
        job_name=job.name,
        benchmark_id=job.source.benchmark_id,
        create_time_ms=job.create_time_ms,
        n_trials=len(trials),
        n_read=len(read),
        n_with_trajectory=sum(found.measures.n_actions is not None for _, found in read),
        previous_job_id=previous.job_id if previous else None,
        problems=table.problems(previous),
        groups=groups[:MOST_GROUPS],
        n_groups=len(groups),
        left_out_groups=[each.digest for each in groups[MOST_GROUPS : MOST_GROUPS + MOST_DIGESTS]],
        is_complete=len(read) == len(trials),
        known=table.known(),
        notes=_notes(found for _, found in read),
    )


def _marked(groups: Sequence[FailureGroup], previous: ProblemsView | None) -> list[FailureGroup]:
    """Return groups with what is new among them first, then by the number of trials."""
    if previous is None:
        return sorted(groups, key=lambda each: -each.n_trials)
    known = {*(each.digest for each in previous.groups), *previous.left_out_groups}
    # Of groups beyond those nobody knows whether they are new.
    is_whole = len(previous.groups) + len(previous.left_out_groups) >= previous.n_groups
    otherwise = True if is_whole else None
    marked = [
        each.model_copy(update={"is_new": False if each.digest in known else otherwise}) for each in groups
    ]
    return sorted(marked, key=lambda each: (not each.is_new, -each.n_trials))


def _of_subject(subject: str) -> dict[str, ProblemSignal]:
    return {name: each for name, each in signals().items() if each.needs_peers and each.subject == subject}


def _peer(trial: Trial, found: TrialFindings) -> PeerTrial:
    score = trial.counted_score
    return PeerTrial(
        trial_id=trial.id,
        agent=trial.agent,
        score=score,
        passed=None if score is None else score >= NEARLY_PASSED,
        n_actions=found.measures.n_actions,
        cost_usd=trial.usage.get("cost_usd"),
        working_ms=trial.working_ms,
        failure_kind=trial.failure.kind if trial.failure else None,
    )


Means = dict[int, dict[int, float]]
"""Agent -> scenario -> mean score."""


def _scenario_means(by_scenario: Mapping[int, Sequence[tuple[Trial, TrialFindings]]]) -> Means:
    means: Means = defaultdict(dict)
    for scenario, rows in by_scenario.items():
        scores: dict[int, list[float]] = defaultdict(list)
        for trial, _ in rows:
            if (score := trial.counted_score) is not None:
                scores[trial.agent].append(score)
        for agent, known in scores.items():
            means[agent][scenario] = fmean(known)
    return means


def _means_elsewhere(means: Means, scenario: int) -> dict[int, float]:
    found = {}
    for agent, known in means.items():
        count = len(known) - (scenario in known)
        if count:
            found[agent] = (sum(known.values()) - known.get(scenario, 0.0)) / count
    return found


class _FindingTable:
    """Findings of all trials by signal."""

    def __init__(self, job: Job) -> None:
        self._labels = [each.label for each in job.spec.agent_configs]
        self._found: dict[str, list[tuple[Trial, list[ProblemFinding]]]] = defaultdict(list)
        self._trials: list[Trial] = []
        self._unknown: dict[str, set[str]] = defaultdict(set)
        self._scenarios: set[int] = set()
        self._unknown_scenarios: dict[str, set[int]] = defaultdict(set)

    def add(self, trial: Trial, findings: Sequence[ProblemFinding], unknown: Sequence[str]) -> None:
        """Add findings of a trial; each signal is added once."""
        if not self._trials or self._trials[-1].id != trial.id:
            self._trials.append(trial)
        self._scenarios.add(trial.scenario)
        by_signal: dict[str, list[ProblemFinding]] = defaultdict(list)
        for each in findings:
            by_signal[each.signal].append(each)
        for name, found in by_signal.items():
            self._found[name].append((trial, found))
        for name in unknown:
            self._unknown[name].add(trial.id)
            self._unknown_scenarios[name].add(trial.scenario)

    def problems(self, previous: ProblemsView | None) -> list[Problem]:
        """Return each signal that was found: new ones first, then by the number of trials."""
        known_signals = signals()
        observed = {
            name: self._observations(name)
            for name in self._found
            if name in known_signals and not known_signals[name].depends_on_outcome
        }
        connected = associations(observed)
        made = []
        for name, rows in self._found.items():
            if name not in known_signals:
                continue
            signal = known_signals[name]
            is_scenario = signal.subject == "scenario"
            made.append(
                Problem(
                    signal=name,
                    summary=signal.summary,
                    helps=signal.helps,
                    subject=signal.subject,
                    is_new=None if previous is None else _is_new(name, previous),
                    n_found=len(rows),
                    n_known=self._n_known(name, signal),
                    n_scenarios=len({trial.scenario for trial, _ in rows}),
                    agents=[] if is_scenario else self._agents(name, rows),
                    association=connected.get(name),
                    examples=_examples(rows),
                )
            )
        return sorted(made, key=lambda each: (not each.is_new, -each.n_found, each.signal))

    def known(self) -> dict[str, int]:
        """Return the number of trials, or scenarios, of which a signal is known; without those of none."""
        counts = {name: self._n_known(name, signal) for name, signal in signals().items()}
        return {name: count for name, count in counts.items() if count}

    def _n_known(self, name: str, signal: ProblemSignal) -> int:
        if signal.subject == "scenario":
            return len(self._scenarios - self._unknown_scenarios[name])
        return len(self._trials) - len(self._unknown[name])

    def _observations(self, name: str) -> list[JudgedTrial]:
        having, unknown = {trial.id for trial, _ in self._found[name]}, self._unknown[name]
        return [
            JudgedTrial((trial.agent, trial.scenario), trial.id in having, score >= NEARLY_PASSED)
            for trial in self._trials
            if trial.id not in unknown and (score := trial.counted_score) is not None
        ]

    def _agents(self, name: str, rows: Sequence[tuple[Trial, list[ProblemFinding]]]) -> list[AgentPrevalence]:
        found, known = defaultdict[int, int](int), defaultdict[int, int](int)
        for trial, _ in rows:
            found[trial.agent] += 1
        for trial in self._trials:
            known[trial.agent] += trial.id not in self._unknown[name]
        return [
            AgentPrevalence(agent=agent, label=label, n_found=found[agent], n_known=known[agent])
            for agent, label in enumerate(self._labels)
            if known[agent]
        ]


def _is_new(signal: str, previous: ProblemsView) -> bool | None:
    """Tell whether an earlier job did not have a problem; None if nothing was known of it there."""
    if any(each.signal == signal for each in previous.problems):
        return False
    return True if previous.known.get(signal) else None


def _examples(rows: Sequence[tuple[Trial, list[ProblemFinding]]]) -> list[ProblemExample]:
    """Return a few trials: one of each agent, then of other scenarios."""
    agents: dict[int, str] = {}
    places: dict[tuple[int, int], str] = {}
    for trial, _ in rows:
        agents.setdefault(trial.agent, trial.id)
        places.setdefault((trial.scenario, trial.agent), trial.id)
    firsts, others = set(agents.values()), set(places.values())
    several = sorted(rows, key=lambda row: (row[0].id not in firsts, row[0].id not in others))
    most = max(_LEAST_EXAMPLES, min(len(agents), _MOST_EXAMPLES))
    return [_example(trial, found[0].detail, found[0].steps) for trial, found in several[:most]]


def _example(trial: Trial, detail: str, steps: Sequence[int]) -> ProblemExample:
    return ProblemExample(
        trial_id=trial.id,
        scenario_name=trial.scenario_name,
        agent=trial.agent,
        attempt=trial.attempt,
        detail=detail,
        steps=list(steps),
    )


def _groups(job: Job, read: Sequence[tuple[Trial, TrialFindings]]) -> list[FailureGroup]:
    """Return the trials that failed, grouped by stage, party at fault, message and failed tests."""
    failed = [(trial, found, kind) for trial, found in read if (kind := failed_by(trial)) is not None]
    messages = [_message(trial) for trial, _, _ in failed]
    groups: dict[tuple[object, ...], list[tuple[Trial, TrialFindings]]] = defaultdict(list)
    for (trial, found, kind), template in zip(failed, templates_of(messages), strict=True):
        stage = trial.failure.stage if trial.failure else None
        groups[stage, kind, template, tuple(found.measures.failed_tests)].append((trial, found))
    return [_group(job, key, rows) for key, rows in groups.items()]


def _message(trial: Trial) -> str:
    if trial.failure is not None:
        return f"{trial.failure.exception_type}: {trial.failure.exception_message}"
    return trial.answer_failure or trial.scorer_note or "the scorers gave less than 1"


def _group(job: Job, key: tuple[Any, ...], rows: Sequence[tuple[Trial, TrialFindings]]) -> FailureGroup:
    stage, kind, template, tests = key
    times = [trial.end_time_ms for trial, _ in rows if trial.end_time_ms is not None]
    agents = sorted({trial.agent for trial, _ in rows})
    return FailureGroup(
        stage=stage,
        kind=kind,
        template=template[:_MOST_TEMPLATE],
        failed_tests=list(tests),
        digest=_digest(stage, kind, template[:_MOST_TEMPLATE], tests),
        n_trials=len(rows),
        agents=[job.spec.agent_configs[agent].label for agent in agents],
        n_scenarios=len({trial.scenario for trial, _ in rows}),
        first_time_ms=min(times, default=None),
        last_time_ms=max(times, default=None),
        examples=[
            _example(
                trial, brief(_message(trial)), [found.measures.last_step] if found.measures.last_step else []
            )
            for trial, found in rows[:_LEAST_EXAMPLES]
        ],
    )


def _digest(stage: str | None, kind: str, template: str, tests: Sequence[str]) -> str:
    parts = json.dumps([stage, kind, template, list(tests)])
    return hashlib.blake2b(parts.encode(), digest_size=8).hexdigest()


def _notes(read: Iterable[TrialFindings]) -> list[str]:
    reasons: dict[str, int] = defaultdict(int)
    for each in read:
        if each.unread is not None:
            reasons[each.unread] += 1
    notes = [f"{count} trials could not be read whole: {reason}" for reason, count in reasons.items()][:5]
    notes += [f"the signal {name} cannot be used: {reason}" for name, reason in unloadable_signals().items()]
    return notes
