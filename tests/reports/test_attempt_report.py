"""Reports of jobs: the same counts as their views, and a clear answer where there is little to go by."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from benchyard.models.jobs import Job, JobState
from benchyard.models.reports.job_report import ReportView
from benchyard.models.trials import SuspectRule, Trial, TrialState
from benchyard.reports.attempt_cells import STAGE_PATHS, TRIAL_PATHS, read_cells, stage_lengths
from benchyard.reports.attempt_report import make_report
from benchyard.reports.outcomes import job_view
from benchyard.reports.report_subjects import job_subject
from benchyard.reports.report_texts import against_texts
from benchyard.reports.trial_table import columns_of, make_table, paths_of
from benchyard.store.body_values import BodyPath, rows_of
from tests.reports.scenes import job, trial


def rows(trials: Sequence[Trial], paths: Sequence[BodyPath]) -> list[list[Any]]:
    """The values of stored trials as the database gives them."""
    return list(rows_of((each.model_dump_json() for each in trials), paths))


def report(
    made: Job,
    trials: Sequence[Trial],
    rule: SuspectRule | None = None,
    clusters: dict[str, str] | None = None,
) -> ReportView:
    """The report of a job."""
    subject = job_subject(made, rule, clusters, "repo" if clusters else None)
    found = read_cells(
        rows(trials, list(TRIAL_PATHS.values())),
        len(subject.agents),
        len(subject.scenario_ids),
        subject.rule,
        is_over=subject.is_over,
    )
    stages = rows(trials, list(STAGE_PATHS.values()))
    return make_report(subject, found, stage_lengths(stages, len(subject.agents)))


def _mixed(seed: int) -> list[Trial]:
    """Trials of two agents, of every kind of end, some with suspicions and some superseded."""
    chance = random.Random(seed)
    made = []
    for agent in range(2):
        for scenario in range(12):
            for attempt in range(1, 4):
                place = {"agent": agent, "scenario": scenario, "attempt": attempt}
                kind = chance.choice(["score", "score", "score", "agent", "infrastructure", "cancelled"])
                if kind != "score":
                    made.append(trial(failure=kind, **place))  # type: ignore[arg-type]
                    continue
                suspicions = ["copied"] if chance.random() < 0.2 else []
                superseded = chance.random() < 0.1
                fields: dict[str, Any] = {"suspicions": suspicions, "is_superseded": superseded, **place}
                made.append(trial(chance.choice([0.0, 0.5, 1.0]), start_time_ms=5, end_time_ms=25, **fields))
    return made


@pytest.mark.parametrize("rule", ["keep", "zero"])
def test_a_report_counts_as_the_view_of_the_job_does(rule: SuspectRule) -> None:
    made, trials = job(agents=2, scenarios=12, attempts=3, state=JobState.COMPLETED), _mixed(3)
    view = job_view(made, trials, with_scenarios=False, suspect=rule)
    found = report(made, trials, rule)
    for agent, outcome in zip(found.agents, view.benchmark_outcomes, strict=True):
        assert agent.score is not None
        interval = (agent.score.mean, agent.score.low, agent.score.high)
        assert interval == pytest.approx((outcome.mean_score, outcome.mean_low, outcome.mean_high))
        assert agent.attempts == outcome.attempts
        assert agent.n_suspect == outcome.n_suspect
        means = {str(point.k): point.any_passes.mean for point in agent.pass_curve}
        assert {k: means[k] for k in outcome.pass_at_k if k in means} == pytest.approx(outcome.pass_at_k)
        assert agent.bounds is not None
        assert agent.bounds[0] < agent.score.mean < agent.bounds[1]


@pytest.mark.parametrize("rule", ["keep", "zero"])
def test_a_table_says_of_each_trial_what_the_trial_itself_says(rule: SuspectRule) -> None:
    made, trials = job(agents=2, scenarios=12, attempts=3, state=JobState.COMPLETED), _mixed(5)
    columns = columns_of("trial_id,outcome,counted_score,working_ms")
    table = make_table(made, rows(trials, paths_of(columns)), columns, rule)
    outcomes = table.columns["outcome"]
    assert outcomes.dictionary is not None
    told = dict(
        zip(
            table.columns["trial_id"].values or [],
            zip(
                [outcomes.dictionary[code] for code in outcomes.codes or []],
                table.columns["counted_score"].values or [],
                table.columns["working_ms"].values or [],
                strict=True,
            ),
            strict=True,
        )
    )
    assert told == {each.id: (each.outcome(rule), each.counts(rule), each.working_ms) for each in trials}


def test_a_single_attempt_at_a_single_scenario_has_a_wide_interval_and_no_more() -> None:
    found = report(job(state=JobState.COMPLETED), [trial(1.0)])
    (agent,) = found.agents
    assert agent.score is not None
    assert (agent.score.low or 0) < 0.3
    assert agent.posterior == pytest.approx((0.158, 0.987), abs=1e-3)
    assert (agent.variance, agent.cost_usd, agent.usd_per_success, agent.working_ms) == (None,) * 4
    assert found.power is None
    assert found.scenarios.n_saturated == 0, "one attempt of one agent is no more than its result"
    assert any("only 1 scenario:" in note for note in found.notes)


def test_equal_scores_everywhere_make_nothing_certain() -> None:
    made = job(agents=2, scenarios=6, attempts=2, state=JobState.COMPLETED)
    places = [(agent, scenario, attempt) for agent in (0, 1) for scenario in range(6) for attempt in (1, 2)]
    found = report(made, [trial(1.0, agent=a, scenario=s, attempt=k) for a, s, k in places])
    assert found.agents[0].score is not None
    assert (found.agents[0].score.low or 1) < 0.7
    against = found.agents[1].against_first
    assert against is not None
    assert (against.p, against.odds_ratio) == (1.0, None)
    assert against.difference.low is not None
    assert against.difference.high is not None
    assert against.difference.low < 0 < against.difference.high
    assert found.groups == [[0, 1]]
    assert found.scenarios.n_saturated == 6


def test_nothing_scored_is_said() -> None:
    made = job(agents=2, scenarios=2, state=JobState.FAILED)
    found = report(made, [trial(failure="infrastructure", agent=0), trial(agent=1)])
    assert found.notes == ["nothing was scored"]
    assert [agent.score for agent in found.agents] == [None, None]
    # What never began is unscored once the job is over.
    assert [agent.attempts.unscored for agent in found.agents] == [1, 1]
    assert found.agents[1].bounds == (0.0, 1.0)
    assert report(made, []).groups == []


def test_scores_outside_of_0_and_1_have_intervals_that_leave_it() -> None:
    made = job(scenarios=3, state=JobState.COMPLETED)
    found = report(made, [trial(score, scenario=index) for index, score in enumerate((-1.0, 2.0, 5.0))])
    assert found.agents[0].score is not None
    assert (found.agents[0].score.low or 0) < -1
    assert any("only their spread bounds" in note for note in found.notes)
    single = report(job(state=JobState.COMPLETED), [trial(7.0)])
    assert single.agents[0].score is not None
    assert (single.agents[0].score.low, single.agents[0].score.high) == (None, None)
    assert ReportView.model_validate_json(single.model_dump_json(exclude_none=True)) == single


def test_costs_have_intervals_where_all_of_them_are_known() -> None:
    made = job(scenarios=4, state=JobState.COMPLETED)

    def trials(last: dict[str, float]) -> list[Trial]:
        usage = [{"cost_usd": cost, "model_calls": 1.0, "input_tokens": 10.0} for cost in (0.1, 0.2, 0.3)]
        return [
            trial(float(index % 2), scenario=index, usage=each, start_time_ms=0, end_time_ms=1000 * index)
            for index, each in enumerate([*usage, last])
        ]

    agent = report(made, trials({"cost_usd": 0.4, "model_calls": 1.0})).agents[0]
    assert agent.cost_usd is not None
    assert agent.usd_per_success is not None
    assert (agent.cost_usd.mean, agent.cost_usd.total) == pytest.approx((0.25, 1.0))
    assert agent.usd_per_success.mean == pytest.approx(0.5)
    assert agent.total_usd == pytest.approx(1.0)
    assert agent.working_ms is not None
    assert agent.working_ms.mean == 1500
    unknown = report(made, trials({"model_calls": 1.0})).agents[0]
    assert (unknown.cost_usd, unknown.usd_per_success, unknown.total_usd) == (None, None, None)


def test_a_running_job_is_reported_as_far_as_it_is() -> None:
    made = job(scenarios=3, state=JobState.RUNNING)
    found = report(made, [trial(1.0), trial(scenario=1, state=TrialState.RUNNING), trial(scenario=2)])
    assert (found.n_ended, found.agents[0].attempts.unscored) == (1, 0)
    assert found.notes[0] == "still running: 1 of 3 attempts have ended"


def test_flaky_scenarios_and_parts_of_the_variance_need_several_attempts() -> None:
    made = job(scenarios=3, attempts=4, state=JobState.COMPLETED)
    passes = {0: 4, 1: 2, 2: 1}
    trials = [
        trial(float(attempt <= passed), scenario=scenario, attempt=attempt)
        for scenario, passed in passes.items()
        for attempt in range(1, 5)
    ]
    found = report(made, trials)
    agent = found.agents[0]
    assert [each.scenario_id for each in found.scenarios.flaky] == ["scn_1", "scn_2"]
    assert found.scenarios.flaky[0].chance_to_see == pytest.approx(1 - 2 * 0.5**4)
    assert agent.n_flaky == 2
    assert agent.consistency == pytest.approx((1 + 0 + 0.25) / 3)
    assert agent.variance is not None
    assert agent.variance.n == 3
    assert [point.all_pass.mean for point in agent.pass_curve][-1] == pytest.approx(1 / 3)


def test_scenarios_of_one_repository_count_as_one() -> None:
    made = job(scenarios=8, state=JobState.COMPLETED)
    trials = [trial(float(index < 4), scenario=index) for index in range(8)]
    alone = report(made, trials).agents[0].score
    together = report(made, trials, clusters={f"scn_{index}": str(index // 4) for index in range(8)})
    grouped = together.agents[0].score
    assert alone is not None
    assert grouped is not None
    assert grouped.n_clusters == 2
    assert (grouped.low or 0) < (alone.low or 0)
    assert (grouped.high or 1) > (alone.high or 1)


def test_stages_are_timed_and_rows_that_make_no_sense_left_out() -> None:
    made = job(state=JobState.COMPLETED)
    stages = [{"name": "agent", "start_ms": 10, "end_ms": 40}]
    found = report(made, [trial(1.0, stages=stages), trial(1.0, agent=7), trial(1.0, scenario=9)])
    assert [(stage.name, stage.mean, stage.n) for stage in found.agents[0].stages] == [("agent", 30.0, 1)]
    assert found.n_ended == 1
    assert stage_lengths([[0, "nonsense"], [0, [{}, 3]], [None, []]], 1) == [{}]


def test_a_lost_family_is_one_result() -> None:
    made = job(agents=2, scenarios=40, state=JobState.COMPLETED)
    trials = [
        trial(float(agent == 0 or index >= 10), agent=agent, scenario=index)
        for agent in (0, 1)
        for index in range(40)
    ]
    families = {f"scn_{index}": str(index // 10) for index in range(40)}
    alone, grouped = report(made, trials), report(made, trials, clusters=families)
    first, second = alone.agents[1].against_first, grouped.agents[1].against_first
    assert first is not None
    assert second is not None
    assert first.p < 0.01 < 0.3 < second.p
    assert "groups" in second.p_method
    assert (second.odds_ratio, second.chance_better) == (None, None)
    assert alone.power is not None
    assert grouped.power is not None
    assert grouped.power.detectable > 2 * alone.power.detectable


def test_few_clustered_scenarios_have_no_second_opinion_that_takes_them_for_independent() -> None:
    made = job(scenarios=8, state=JobState.COMPLETED)
    trials = [trial(float(index < 4), scenario=index) for index in range(8)]
    assert report(made, trials).agents[0].posterior is not None
    families = {f"scn_{index}": str(index // 4) for index in range(8)}
    assert report(made, trials, clusters=families).agents[0].posterior is None


def test_agents_that_share_no_scenario_are_said_to() -> None:
    made = job(agents=2, scenarios=2, state=JobState.COMPLETED)
    found = report(made, [trial(1.0, agent=0, scenario=0), trial(1.0, agent=1, scenario=1)])
    assert found.agents[1].against_first is None
    assert any("no scenario has a score of every agent" in note for note in found.notes)


def test_scores_without_ends_have_no_bounds_against_the_first() -> None:
    made = job(agents=2, scenarios=5, state=JobState.COMPLETED)
    trials = [trial(5.0 * agent, agent=agent, scenario=index) for agent in (0, 1) for index in range(5)]
    against = report(made, trials).agents[1].against_first
    assert against is not None
    assert (against.difference.mean, against.difference.low, against.difference.high) == (5.0, None, None)


def test_costs_and_times_are_held_against_the_first() -> None:
    made = job(agents=2, scenarios=4, state=JobState.COMPLETED)
    trials = [
        trial(
            1.0,
            agent=agent,
            scenario=index,
            usage={"cost_usd": 0.1 * (index + 1) * (agent + 1), "model_calls": 1.0},
            start_time_ms=0,
            end_time_ms=1000 * (index + agent),
        )
        for agent in (0, 1)
        for index in range(4)
    ]
    found = report(made, trials)
    against = found.agents[1].against_first
    assert against is not None
    assert against.cost_usd is not None
    assert against.cost_usd.mean == pytest.approx(0.25)
    assert against.cost_usd.low is not None
    assert against.working_ms is not None
    assert (against.working_ms.mean, against.working_ms.low) == (1000.0, None)
    (text,) = against_texts(found, str)
    assert "cost +$0.2500 (" in text
    assert text.endswith("time +1.0s")
