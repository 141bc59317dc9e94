"""Outcomes of jobs by the counting rules."""

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchyard.models.jobs import JobState
from benchyard.models.trials import AGENTS_OWN, Trial, TrialState, counted_mean
from benchyard.reports.comparison import counted_score
from benchyard.reports.outcomes import outcomes, progress
from tests.reports.scenes import job, trial

KINDS = ["agent", "scenario", "scorer", "infrastructure", "timeout", "budget", "cancelled"]


def test_agent_failures_count_nothing_and_other_failures_do_not_count() -> None:
    trials = [
        trial(1.0, scenario=0, start_time_ms=1000, end_time_ms=3000),
        trial(0.5, scenario=1, start_time_ms=2000, end_time_ms=7000),
        trial(failure="agent", scenario=2),
        trial(failure="scorer", scenario=3),
        trial(failure="cancelled", scenario=4),
        trial(failure="timeout", scenario=5, state=TrialState.TIMEOUT),
    ]
    (found,) = outcomes(job(scenarios=6), trials, with_scenarios=True)
    assert (found.n_completed, found.n_failed, found.n_timeout, found.n_canceled) == (2, 2, 1, 1)
    assert (found.n_passed, found.n_errors, found.unscored, found.n_trials) == (1, 4, 2, 6)
    assert (found.average_score, found.mean_score, found.duration_ms) == (0.75, 0.375, 6000)
    assert found.pass_at_k == {}
    rows = found.scenario_outcomes
    assert [row.score for row in rows] == [1.0, 0.5, None, None, None, None]
    assert [counted_score(row) for row in rows] == [1.0, 0.5, 0.0, None, None, 0.0]
    assert [row.state for row in rows] == ["COMPLETED"] * 2 + ["FAILED"] * 2 + ["CANCELED", "TIMEOUT"]
    assert rows[2].failure_reason is not None
    assert rows[2].failure_reason.kind == "agent"
    assert (rows[0].duration_ms, rows[2].duration_ms) == (2000, None)


def test_a_scenario_is_one_row_and_what_was_superseded_is_only_told() -> None:
    trials = [
        trial(failure="agent", attempt=2, scenario_run_id="run_2", usage={"cost_usd": 0.5}),
        trial(1.0, attempt=1, retry=1, scenario_run_id="run_1b", usage={"cost_usd": 0.25, "tokens": 9}),
        trial(failure="infrastructure", attempt=1, is_superseded=True, usage={"cost_usd": 0.125}),
        trial(failure="infrastructure", attempt=3),
    ]
    (found,) = outcomes(job(attempts=3), trials, with_scenarios=True)
    (row,) = found.scenario_outcomes
    assert (row.state, row.score, row.scenario_run_id, row.unscored) == ("COMPLETED", 0.5, "run_1b", 1)
    told = [(each.attempt, each.retry, each.is_superseded) for each in row.attempts]
    assert told == [(1, 0, True), (1, 1, False), (2, 0, False), (3, 0, False)]
    assert found.pass_at_k == {"1": 0.5, "2": 1.0}
    assert (found.pass_all_k, found.pass_scenarios) == ({"1": 0.5, "2": 0.0}, {"1": 1, "2": 1})
    assert found.score_bounds == pytest.approx((1 / 3, 2 / 3))
    assert found.usage == {"cost_usd": 0.875, "tokens": 9}
    assert (found.n_trials, found.unscored, found.n_passed, found.average_score) == (3, 1, 0, 1.0)


def test_without_a_completed_attempt_the_last_one_speaks() -> None:
    trials = [trial(failure="cancelled", attempt=1), trial(failure="agent", attempt=2)]
    (found,) = outcomes(job(attempts=2), trials, with_scenarios=True)
    assert found.scenario_outcomes[0].state == "FAILED"
    (found,) = outcomes(job(attempts=2), list(reversed(trials)), with_scenarios=False)
    assert (found.n_failed, found.n_canceled, found.scenario_outcomes) == (1, 0, [])


def test_only_agents_that_are_done_have_an_outcome() -> None:
    running = trial(agent=1, state=TrialState.RUNNING)
    trials = [trial(1.0, agent=0), running]
    assert [each.benchmark_run_id for each in outcomes(job(agents=3), trials, with_scenarios=True)] == [
        "bmr_0"
    ]
    half = [trial(1.0, scenario=0)]
    assert outcomes(job(scenarios=2), half, with_scenarios=True) == []
    assert len(outcomes(job(scenarios=2, state=JobState.CANCELLED), half, with_scenarios=True)) == 1
    assert outcomes(job(state=JobState.FAILED), [], with_scenarios=True) == []


def test_progress_counts_places_not_tries() -> None:
    trials = [
        trial(failure="infrastructure", scenario=0, is_superseded=True),
        trial(1.0, scenario=0, retry=1),
        trial(failure="agent", scenario=1),
        trial(failure="infrastructure", scenario=2),
        trial(scenario=3, state=TrialState.RUNNING),
    ]
    first, second = progress(job(agents=2, scenarios=5), trials)
    assert first.by_state == {TrialState.COMPLETED: 1, TrialState.FAILED: 2, TrialState.RUNNING: 1}
    assert (first.n_trials, first.retries, first.unscored, first.mean_score) == (5, 1, 1, 0.5)
    assert (second.n_trials, second.by_state, second.mean_score) == (5, {}, None)


def some_trial(place: tuple[int, int]) -> some.SearchStrategy[Trial]:
    scenario, attempt = place
    scored = some.floats(0, 1).map(lambda score: trial(score, scenario=scenario, attempt=attempt))
    kinds = some.sampled_from(KINDS)
    failed = kinds.map(lambda kind: trial(failure=kind, scenario=scenario, attempt=attempt))  # type: ignore[arg-type]
    return scored | failed


@given(some.data())
def test_numbers_agree_with_each_other_and_the_order_of_trials_does_not_matter(data: some.DataObject) -> None:
    scenarios, attempts = data.draw(some.integers(1, 5)), data.draw(some.integers(1, 4))
    places = [(scenario, attempt) for scenario in range(scenarios) for attempt in range(1, attempts + 1)]
    trials = [data.draw(some_trial(place)) for place in places]
    mixed = data.draw(some.permutations(trials))
    made = job(scenarios=scenarios, attempts=attempts)
    (found,) = outcomes(made, mixed, with_scenarios=True)
    assert [found] == outcomes(made, trials, with_scenarios=True)
    assert found.n_completed + found.n_failed + found.n_timeout + found.n_canceled == scenarios
    assert found.n_errors == scenarios - found.n_completed
    assert [row.scenario_definition_id for row in found.scenario_outcomes] == made.spec.scenario_ids
    left_out = [each for each in trials if each.failure and each.failure.kind not in AGENTS_OWN]
    assert found.unscored == len(left_out) == sum(row.unscored for row in found.scenario_outcomes)
    counted = [counted_score(row) for row in found.scenario_outcomes]
    scores = [score for score in counted if score is not None]
    assert found.mean_score == (pytest.approx(fmean(scores), abs=1e-8) if scores else None)
    assert (found.mean_low is None) == (found.mean_score is None)
    rates = list(found.pass_at_k.values())
    if len(left_out) == 0:
        assert rates == sorted(rates), "more attempts never pass less often"
    (far,) = progress(made, mixed)
    assert sum(far.by_state.values()) == far.n_trials == found.n_trials
    assert far.mean_score == found.mean_score


def test_ten_thousand_trials_are_counted() -> None:
    trials = [trial(scenario / 10_000, scenario=scenario) for scenario in range(10_000)]
    made = job(scenarios=10_000)
    (found,) = outcomes(made, trials, with_scenarios=True)
    progress(made, trials)
    assert len(found.scenario_outcomes) == 10_000


WHY = "scorers opened /usr/local/bin/python3, which was changed outside of the work"


def suspects() -> list[Trial]:
    """A suspect and an honest attempt; one whose suspect score is nothing, and one that failed."""
    return [
        trial(1.0, attempt=1, suspicions=[WHY]),
        trial(1.0, attempt=2),
        trial(0.0, scenario=1, attempt=1, suspicions=[WHY]),
        trial(failure="agent", scenario=1, attempt=2, suspicions=[WHY]),
        trial(1.0, scenario=1, attempt=2, retry=1, is_superseded=True, suspicions=[WHY]),
    ]


def test_suspect_scores_are_counted_and_told() -> None:
    made = job(scenarios=2, attempts=2)
    (found,) = outcomes(made, suspects(), with_scenarios=True)
    assert (found.n_suspect, found.suspect, found.mean_score) == (1, "keep", 0.5)
    first, second = found.scenario_outcomes
    assert (first.n_suspect, first.suspicions, second.n_suspect, second.suspicions) == (1, [WHY], 0, [])
    assert [each.suspicions for each in first.attempts] == [[WHY], []]
    (going,) = progress(made, suspects())
    assert (going.n_suspect, going.mean_score) == (1, 0.5)


def test_suspect_scores_may_count_nothing_and_stay_to_be_seen() -> None:
    made = job(scenarios=2, attempts=2)
    (found,) = outcomes(made, suspects(), with_scenarios=True, rule="zero")
    assert (found.n_suspect, found.suspect) == (1, "zero")
    assert (found.mean_score, found.average_score, found.n_passed) == (0.25, 0.25, 0)
    assert found.pass_at_k == {"1": 0.25, "2": 0.5}
    (first, _) = found.scenario_outcomes
    assert (first.score, [each.score for each in first.attempts]) == (0.5, [1.0, 1.0])
    assert progress(made, suspects(), rule="zero")[0].mean_score == 0.25
    assert counted_mean(suspects(), "zero") == 0.25
    assert counted_mean(suspects()) == 0.5


def test_a_reward_that_few_scenarios_have_is_a_mean_over_those() -> None:
    trials = [
        trial(1.0, scenario=0, rewards={"score": 1.0, "task.a": 1.0}),
        trial(1.0, scenario=1, rewards={"score": 1.0, "task.b": 0.5}),
        trial(failure="agent", scenario=2),
    ]
    (found,) = outcomes(job(scenarios=3), trials, with_scenarios=False)
    assert found.rewards["task.a"] == 1.0
    assert found.rewards["task.b"] == 0.5
    assert found.rewards["score"] == pytest.approx(2 / 3), "what all have counts 0 where an agent failed"


def test_conditions_of_the_machine_are_shown_with_an_attempt() -> None:
    line = "the egress proxy refused example.org:443 once while it was scored"
    (found,) = outcomes(job(), [trial(0.0, conditions=[line])], with_scenarios=True)
    assert found.scenario_outcomes[0].attempts[0].conditions == [line]


@pytest.mark.parametrize("count", [1, 4])
def test_scores_outside_of_0_and_1_that_do_not_vary_have_no_interval(count: int) -> None:
    made = job(scenarios=count, state=JobState.COMPLETED)
    (found,) = outcomes(made, [trial(7.0, scenario=index) for index in range(count)], with_scenarios=True)
    assert (found.mean_score, found.mean_low, found.mean_high) == (7.0, None, None)
