"""Problems of a job: prevalence, new ones first, groups of failures, and what was not read."""

import io
from typing import Any

import pytest

from benchyard.errors import UsageError
from benchyard.models.reports.problems import ProblemFinding, ProblemsView, TrialFindings, TrialMeasures
from benchyard.models.trials import FailureReason, Trial
from benchyard.reports.problems.digests import make_findings, unread_trials, version_of
from benchyard.reports.problems.job_problems import MOST_GROUPS, job_problems
from benchyard.reports.problems.selection import selected_problems
from tests.reports import scenes
from tests.reports.problems.planted import ran, said, trajectory


def findings_of(trial: Trial, *signals: str, unknown: tuple[str, ...] = (), **measures: Any) -> TrialFindings:
    return TrialFindings(
        trial_id=trial.id,
        version=version_of(trial),
        findings=[ProblemFinding(signal=each, detail="ls", steps=[3]) for each in signals],
        unknown=list(unknown),
        measures=TrialMeasures(**measures),
    )


def trials(scores: list[float], **fields: Any) -> list[Trial]:
    """Attempts of one agent at one scenario."""
    return [
        scenes.trial(score, attempt=number, end_time_ms=number, **fields)
        for number, score in enumerate(scores, start=1)
    ]


def test_prevalence_counts_what_is_known_and_new_ones_come_first() -> None:
    job = scenes.job(attempts=4)
    every = trials([0.0, 0.0, 1.0, 1.0])
    found = {each.id: findings_of(each, "failed-command") for each in every}
    found[every[0].id] = findings_of(every[0], "failed-command", "repeated-call")
    found[every[3].id] = findings_of(every[3], unknown=("repeated-call", "failed-command"))
    before = ProblemsView(
        job_id="bmj_0",
        job_name="old",
        create_time_ms=0,
        n_trials=1,
        n_read=1,
        n_with_trajectory=1,
        problems=job_problems(job, every[:3], {every[1].id: found[every[1].id]}).problems,
        known={"repeated-call": 1, "failed-command": 1},
    )
    view = job_problems(job, every, found, before)
    assert [(each.signal, each.is_new, each.n_found, each.n_known) for each in view.problems] == [
        ("repeated-call", True, 1, 3),
        ("failed-command", False, 3, 3),
    ]
    repeated = view.problems[0]
    assert repeated.association is not None
    assert (repeated.association.failed_with, repeated.association.failed_without) == (1.0, 0.5)
    assert repeated.association.goes_with is None
    assert [(row.n_found, row.n_known) for row in repeated.agents] == [(1, 3)]
    assert (repeated.examples[0].trial_id, repeated.examples[0].steps) == (every[0].id, [3])
    assert (view.n_trials, view.n_read, view.is_complete) == (4, 4, True)


def test_what_was_not_known_of_the_last_job_is_not_called_new() -> None:
    job = scenes.job(attempts=2)
    every = trials([0.0, 0.0])
    blind = {each.id: findings_of(each, unknown=("repeated-call",)) for each in every}
    before = job_problems(job, every, blind)
    assert "repeated-call" not in before.known
    found = {each.id: findings_of(each, "repeated-call", "failed-command") for each in every}
    view = job_problems(job, every, found, before)
    assert {each.signal: each.is_new for each in view.problems} == {
        "failed-command": True,
        "repeated-call": None,
    } | {each.signal: False for each in before.problems}


def test_groups_beyond_those_that_are_shown_are_not_new_next_time() -> None:
    count = MOST_GROUPS + 50
    job = scenes.job(scenarios=count)
    every = [scenes.trial(0.0, scenario=number, end_time_ms=1) for number in range(count)]
    found = {each.id: findings_of(each, failed_tests=[f"test_{each.scenario}"]) for each in every}
    first = job_problems(job, every, found)
    assert (len(first.groups), len(first.left_out_groups), first.n_groups) == (MOST_GROUPS, 50, count)
    again = job_problems(job, every, found, first)
    assert {each.is_new for each in again.groups} == {False}
    found[every[7].id] = findings_of(every[7], failed_tests=["test_other"])
    changed = job_problems(job, every, found, first)
    assert [each.failed_tests for each in changed.groups if each.is_new] == [["test_other"]]
    # Of a job with still more groups, nobody knows whether it had this one.
    cut = first.model_copy(update={"left_out_groups": first.left_out_groups[:20]})
    assert not any(each.is_new for each in job_problems(job, every, found, cut).groups)


def test_a_scenario_is_counted_once_and_peers_are_compared() -> None:
    job = scenes.job(scenarios=2, attempts=6)
    every = [*trials([0.0] * 6), *trials([1.0] * 6, scenario=1)]
    found = {each.id: findings_of(each, n_actions=30) for each in every}
    found[every[0].id] = findings_of(every[0], n_actions=1)
    view = job_problems(job, every, found)
    told = {each.signal: (each.subject, each.n_found, each.n_known) for each in view.problems}
    assert told == {
        "unsolved-scenario": ("scenario", 1, 2),
        "solved-scenario": ("scenario", 1, 2),
        "early-end": ("trial", 1, 12),
    }


def test_failures_that_are_alike_are_one_group() -> None:
    job = scenes.job(agents=2, attempts=3)

    def failed(number: int, agent: int, message: str) -> Trial:
        reason = FailureReason(
            exception_type="AgentError", exception_message=message, kind="agent", stage="agent"
        )
        return scenes.trial(None, "agent", agent=agent, attempt=number, end_time_ms=number).model_copy(
            update={"failure": reason}
        )

    every = [
        failed(5, 0, "exit status 3 after 5s: 'oh no'"),
        failed(6, 1, "exit status 4 after 9s: 'help'"),
        *trials([0.0, 0.0], agent=1, scorer_note="2 of 5 tests failed"),
    ]
    found = {each.id: findings_of(each, last_step=7) for each in every}
    found[every[2].id] = findings_of(every[2], failed_tests=["test_a"])
    view = job_problems(job, every, found)
    assert [(each.kind, each.stage, each.n_trials, each.failed_tests) for each in view.groups] == [
        ("agent", "agent", 2, []),
        ("score", None, 1, ["test_a"]),
        ("score", None, 1, []),
    ]
    first = view.groups[0]
    assert first.template == "AgentError: exit status <*> after <*>: <*>"
    assert (first.agents, first.first_time_ms, first.last_time_ms) == (["agent-0", "agent-1"], 5, 6)
    assert first.examples[0].steps == [7]


def test_findings_are_made_once_and_again_after_a_rescoring() -> None:
    every = trials([0.0, 1.0])
    lines = "".join(f"{each.model_dump_json()}\n" for each in every).encode()
    known = findings_of(every[0]).model_dump_json().encode()
    old = findings_of(every[1].model_copy(update={"rescorings": 1})).model_dump_json().encode()
    content = io.BytesIO(lines + b"\n" + known + b"\n" + old + b"\n" + known[:20])
    assert unread_trials(content, len(lines)) == f'[["{every[1].id}", null]]'.encode()
    assert unread_trials(io.BytesIO(lines), len(lines), 1) == f'[["{every[0].id}", null]]'.encode()


def test_a_worker_makes_findings_of_what_is_kept() -> None:
    (trial, broken) = trials([0.0, 0.0])
    kept = trajectory(ran("ls"), ran("ls"), ran("ls"), said("I have fixed it."))
    items = [
        {"trial": each.model_dump(mode="json"), "result": None, "tamper": None, "calls": None, "unread": None}
        | {"trajectory": len(content)}
        for each, content in ((trial, kept), (broken, b"no JSON"))
    ]
    made = make_findings(io.BytesIO(kept + b"no JSON"), items)
    whole, partial = (TrialFindings.model_validate_json(line) for line in made.splitlines())
    assert [(each.signal, each.steps) for each in whole.findings] == [
        ("false-success", [5]),
        ("repeated-call", [2, 3, 4]),
    ]
    assert (whole.measures.n_actions, whole.measures.last_step, whole.unread) == (3, 5, None)
    assert partial.unread is not None
    assert "repeated-call" in partial.unknown


def test_problems_of_one_agent_or_signal_are_selected() -> None:
    job = scenes.job(agents=2, attempts=2)
    every = [*trials([0.0, 0.0]), *trials([0.0, 0.0], agent=1)]
    found = {each.id: findings_of(each, "failed-command") for each in every}
    found[every[0].id] = findings_of(every[0], "failed-command", "repeated-call")
    view = job_problems(job, every, found)
    assert [each.signal for each in selected_problems(view, "agent-1", None).problems] == ["failed-command"]
    assert {one.agent for one in selected_problems(view, "agent-1", None).problems[0].examples} == {1}
    assert [each.n_found for each in selected_problems(view, None, "repeated-call").problems] == [1]
    assert selected_problems(view, None, "call-alternation").problems == []
    with pytest.raises(UsageError, match="agent-0, agent-1"):
        selected_problems(view, "nobody", None)
    with pytest.raises(UsageError, match="repeated-call"):
        selected_problems(view, None, "no-such-signal")
