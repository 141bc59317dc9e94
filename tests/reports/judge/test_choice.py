"""Choice of trials for a judge: failed ones that no signal explains, spread over scenarios and agents."""

import io
import json

from benchyard.models.reports.problems import ProblemFinding, TrialFindings
from benchyard.models.trials import Trial
from benchyard.reports.judge.choice import choose_trials, chosen_of
from benchyard.reports.problems.digests import version_of
from tests.reports import scenes


def found(trial: Trial, *signals: str) -> TrialFindings:
    listed = [ProblemFinding(signal=each, detail="ls", steps=[2]) for each in signals]
    return TrialFindings(trial_id=trial.id, version=version_of(trial), findings=listed)


def test_causes_explain_and_habits_do_not() -> None:
    job = scenes.job(attempts=5)
    plain = scenes.trial(0.0, attempt=1)
    habit = scenes.trial(0.0, attempt=2)
    broken = scenes.trial(failure="infrastructure", attempt=3)
    passed = scenes.trial(1.0, attempt=4)
    unread = scenes.trial(0.0, attempt=5)
    ended = [plain, habit, broken, passed, unread]
    findings = {
        plain.id: found(plain),
        habit.id: found(habit, "failed-command"),
        broken.id: found(broken, "failed-stage"),
        passed.id: found(passed),
    }
    choice = chosen_of(job, ended, findings, ended, "unexplained", 10)
    assert {id for id, _ in choice.chosen} == {plain.id, habit.id}
    assert (choice.n_matching, choice.n_explained, choice.n_unread) == (2, 1, 1)
    every = chosen_of(job, ended, findings, ended, "failed", 10)
    assert {id for id, _ in every.chosen} == {plain.id, habit.id, broken.id, unread.id}
    assert chosen_of(job, ended, findings, ended, "all", 10).n_matching == 5


def test_a_signal_that_goes_with_failing_explains() -> None:
    job = scenes.job(attempts=20)
    ended = [scenes.trial(0.0 if number <= 10 else 1.0, attempt=number) for number in range(1, 21)]
    findings = {each.id: found(each, *(["repeated-call"] if each.attempt <= 9 else [])) for each in ended}
    choice = chosen_of(job, ended, findings, ended, "unexplained", 10)
    assert [id for id, _ in choice.chosen] == [ended[9].id]
    assert choice.n_explained == 9


def test_a_limit_leaves_many_scenarios_and_agents() -> None:
    job = scenes.job(agents=2, scenarios=3, attempts=4)
    ended = [
        scenes.trial(0.0, agent=agent, scenario=scenario, attempt=attempt)
        for agent in range(2)
        for scenario in range(3)
        for attempt in range(1, 5)
    ]
    choice = chosen_of(job, ended, {}, ended, "failed", 6)
    places = {id.rsplit("-", 2)[0] for id, _ in choice.chosen}
    assert (len(choice.chosen), len(places), choice.n_matching) == (6, 6, 24)
    assert chosen_of(job, ended, {}, ended, "failed", 6) == choice


def test_cancelled_and_unscored_trials_are_not_judged() -> None:
    job = scenes.job(attempts=1)
    cancelled = scenes.trial(failure="cancelled")
    assert chosen_of(job, [cancelled], {}, [cancelled], "all", 5).chosen == []


def test_a_worker_chooses_by_agent_and_scenario() -> None:
    job = scenes.job(agents=2, scenarios=2)
    ended = [scenes.trial(0.0, agent=agent, scenario=scenario) for agent in (0, 1) for scenario in (0, 1)]
    lines = b"".join(each.model_dump_json().encode() + b"\n" for each in ended)
    content = io.BytesIO(lines + b"not a finding\n")
    given = job.model_dump(mode="json")
    made = choose_trials(content, len(lines), given, "failed", [1], "scenario 0", 10)
    assert json.loads(made)["chosen"] == [["trl_1-0-1-0", None]]
