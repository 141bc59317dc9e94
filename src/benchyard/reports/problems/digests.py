"""Findings of the signals that need only the trial itself, made in a worker of what is kept of trials."""

import gc
import hashlib
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, BinaryIO

from pydantic import ValidationError

from benchyard.errors import BenchyardError, NotSupported, UsageError
from benchyard.gateway.records.call_summaries import call_summaries
from benchyard.models.reports.problems import ProblemFinding, TrialFindings, TrialMeasures
from benchyard.models.runs import ContractResult, TamperReport
from benchyard.models.trials import AGENTS_OWN, NEARLY_PASSED, Trial
from benchyard.registry import SIGNALS, load, names
from benchyard.reports.problems.base import MOST_DETAIL, MOST_STEPS, ProblemSignal, brief
from benchyard.reports.problems.facts import TrialFacts
from benchyard.reports.problems.failed_tests import MOST_TESTS, failed_tests
from benchyard.reports.problems.trajectories import turns_of
from benchyard.reports.trajectory_steps import iterate_steps

MOST_FINDINGS = 20
"""Most findings of one signal that are kept for a trial."""
_OWN = re.compile(r"/(?:logs|tmp|run|var)(?:/|$)|/(?:root|home/[^/]{1,100})/\.")
"""Places of logs, caches and settings of agents."""
_REVISION = 1
"""Number of how facts are read; findings of another one are made again."""


@cache
def signals() -> Mapping[str, ProblemSignal]:
    """Return every signal that can be loaded, by name."""
    return {name: load(SIGNALS, name)() for name in names(SIGNALS) if name not in unloadable_signals()}


@cache
def unloadable_signals() -> Mapping[str, str]:
    """Return the signals of others that cannot be loaded, with the reason."""
    found = {}
    for name in names(SIGNALS):
        try:
            load(SIGNALS, name)
        except NotSupported as error:
            found[name] = error.message
    return found


def version_of(trial: Trial) -> str:
    """Return a digest of what a trial's findings are made of: the signals, its end and its last scoring."""
    parts = (_REVISION, *signals(), trial.end_time_ms, trial.rescorings, trial.score, trial.state.value)
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()


def unread_trials(content: BinaryIO, size: int, most: int | None = None) -> bytes:
    """Return the trials without findings as JSON, the first of many: id and run of each.

    The content has the trials, of this size, and then the findings that are stored; each is a line of JSON.
    """
    gc.disable()
    trials = ended_trials(content.read(size).splitlines())
    known = {each.trial_id: each.version for each in stored_findings(content)}
    missing = [
        (each.id, each.scenario_run_id)
        for each in sorted(trials, key=lambda trial: trial.end_time_ms or 0)
        if known.get(each.id) != version_of(each)
    ]
    return json.dumps(missing[:most]).encode()


def ended_trials(lines: Iterable[bytes]) -> list[Trial]:
    """Return the trials that have ended and count; broken records are left out."""
    found = []
    for line in lines:
        try:
            trial = Trial.model_validate_json(line)
        except ValidationError:
            continue
        if trial.has_ended and not trial.is_superseded:
            found.append(trial)
    return found


def stored_findings(lines: Iterable[bytes]) -> Iterator[TrialFindings]:
    """Yield the findings in a file; a line that breaks off is left out."""
    for line in lines:
        try:
            yield TrialFindings.model_validate_json(line)
        except ValidationError:
            continue


def make_findings(content: BinaryIO, items: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the findings of some trials, a line of JSON each.

    The content has what is kept of the trials, one after the other: a trajectory and the calls of its models,
    with the sizes that its item gives, or None.
    """
    gc.disable()
    lines = []
    for item in items:
        trajectory, calls = (
            None if item[name] is None else content.read(item[name]) for name in ("trajectory", "calls")
        )
        lines.append(_findings(item, trajectory, calls).model_dump_json(exclude_defaults=True))
    return "".join(f"{line}\n" for line in lines).encode()


def _findings(item: Mapping[str, Any], trajectory: bytes | None, calls: bytes | None) -> TrialFindings:
    trial = Trial.model_validate(item["trial"])
    result = None if item["result"] is None else ContractResult.model_validate(item["result"])
    tamper = None if item["tamper"] is None else TamperReport.model_validate(item["tamper"])
    facts, unread = facts_of(trial, result, tamper), item["unread"]
    if trajectory is not None:
        try:
            # A trajectory without a step of the agent tells nothing of what it did.
            facts = replace(facts, turns=turns_of(iterate_steps(trajectory)) or None)
        except (UsageError, RecursionError) as error:
            unread = brief(str(error))
    if calls is not None:
        try:
            facts = replace(facts, calls=tuple(call_summaries(calls)))
        except (sqlite3.Error, BenchyardError) as error:
            unread = unread or f"its calls cannot be read: {brief(str(error))}"
    own = {name: each for name, each in signals().items() if not each.needs_peers}
    found, unknown = run_signals(own, facts)
    steps = [turn.step for turn in facts.turns or ()]
    measures = TrialMeasures(
        n_actions=None if facts.actions is None else len(facts.actions),
        last_step=steps[-1] if steps else None,
        failed_tests=_failed_tests(result) if not facts.passed else [],
    )
    return TrialFindings(
        trial_id=trial.id,
        version=version_of(trial),
        findings=found,
        unknown=unknown,
        measures=measures,
        unread=unread,
    )


def run_signals(
    wanted: Mapping[str, ProblemSignal], facts: TrialFacts
) -> tuple[list[ProblemFinding], list[str]]:
    """Return the findings of signals, bounded, and the names of those that cannot tell."""
    found, unknown = [], []
    for name, signal in wanted.items():
        findings = signal.find(facts)
        if findings is None:
            unknown.append(name)
            continue
        for place, each in enumerate(findings):
            if place >= MOST_FINDINGS:
                break
            steps = list(dict.fromkeys(each.steps))[:MOST_STEPS]
            found.append(ProblemFinding(signal=name, detail=each.detail[:MOST_DETAIL], steps=steps))
    return found, unknown


def facts_of(trial: Trial, result: ContractResult | None, tamper: TamperReport | None) -> TrialFacts:
    """Return the facts of a trial that its records hold."""
    score, failure = trial.counted_score, trial.failure
    errors = [each for each in (result.scoring_function_results if result else ()) if each.state == "error"]
    return TrialFacts(
        trial_id=trial.id,
        agent=trial.agent,
        passed=None if score is None else score >= NEARLY_PASSED,
        score=score,
        ended_by=trial.ended_by,
        stage=failure.stage if failure else None,
        failure_kind=failure.kind if failure else None,
        failure_type=failure.exception_type if failure else None,
        failure=failure.exception_message if failure else None,
        exit_status=trial.exit_status,
        conditions=tuple(trial.conditions),
        suspicions=tuple(trial.suspicions),
        n_changed=_n_changed(tamper),
        scorer_errors=tuple(f"{each.scoring_function_name}: {each.reason}" for each in errors),
        working_ms=trial.working_ms,
        cost_usd=trial.usage.get("cost_usd"),
        rate_limited_ms=round(trial.usage.get("rate_limited_ms", 0)),
    )


def failed_by(trial: Trial) -> str | None:
    """Return the party at fault: `score` for work that did not pass, None for a trial that passed."""
    if trial.failure is not None:
        return trial.failure.kind
    score = trial.counted_score
    if score is None or score >= NEARLY_PASSED:
        return None
    return trial.ended_by if trial.ended_by in AGENTS_OWN else "score"


def _n_changed(tamper: TamperReport | None) -> int | None:
    """Return the number of files that were changed, without those that agents leave for themselves."""
    if tamper is None or tamper.changed_inside_total is None:
        return None
    if tamper.changed_outside is None or tamper.changed_outside_total is None:
        return tamper.changed_inside_total or None
    own = sum(bool(_OWN.match(each.path)) for each in tamper.changed_outside)
    return tamper.changed_inside_total + tamper.changed_outside_total - own


def _failed_tests(result: ContractResult | None) -> list[str]:
    outputs = [each.output for each in (result.scoring_function_results if result else ()) if each.score < 1]
    return sorted({name for output in outputs for name in failed_tests(output)})[:MOST_TESTS]
