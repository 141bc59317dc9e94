"""Series of jobs: a planted change is found at its job and nothing else; histories and scorers' noise."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from benchyard.models.reports.past_rows import GROUP_PATHS, JOB_PATHS, RUN_PATHS, TRIAL_PATHS
from benchyard.reports.past_attempts import (
    PastAttempt,
    Source,
    of_runs,
    of_trials,
    sources_of_groups,
    sources_of_jobs,
    sources_of_runs,
)
from benchyard.reports.trends import noise_of_scores, scenario_history, trend_series


def source(number: int, version: str | None = None) -> Source:
    return Source(f"bmj_{number}", 0, "job", f"job {number}", number, "codex:m", "codex:m", version)


def attempt(number: int, scenario: int, score: float | None, **changes: Any) -> PastAttempt:
    made = PastAttempt(
        source=(f"bmj_{number}", 0),
        scenario_id=f"scn_{scenario}",
        scenario_name=f"scenario {scenario}",
        score=score,
        cost=0.5,
        has_cost=True,
        working_ms=1000.0,
        revision=1,
        end_time_ms=number,
    )
    return PastAttempt(**{**{each: getattr(made, each) for each in made.__slots__}, **changes})


def jobs(chance: random.Random, shares: Sequence[float], scenarios: int = 40) -> list[PastAttempt]:
    """Return a job for each share of attempts that pass, of three attempts at each scenario."""
    return [
        attempt(number, scenario, float(chance.random() < share))
        for number, share in enumerate(shares)
        for scenario in range(scenarios)
        for _ in range(3)
    ]


def test_a_planted_loss_is_found_at_its_job_only() -> None:
    found = jobs(random.Random(1), [0.8, 0.8, 0.8, 0.4, 0.4])
    (series,) = trend_series([source(number) for number in range(5)], found)
    changes = [point.score_change for point in series.points]
    assert changes[0] is None
    assert [bool(each and each.is_change) for each in changes] == [False, False, False, True, False]
    assert changes[3] is not None
    assert changes[3].difference == pytest.approx(-0.4, abs=0.15)
    assert (changes[3].n, changes[3].p_adjusted >= changes[3].p) == (40, True)
    assert all(point.cost_change and not point.cost_change.is_change for point in series.points[1:])


def test_series_without_a_change_seldom_claim_one() -> None:
    chance = random.Random(2)
    claimed = 0
    for _ in range(100):
        (series,) = trend_series([source(number) for number in range(6)], jobs(chance, [0.6] * 6, 12))
        claimed += any(point.score_change and point.score_change.is_change for point in series.points)
    assert claimed <= 100 * (0.05 + 3 * (0.05 * 0.95 / 100) ** 0.5)


def test_costs_and_times_are_tested_alike_and_unknown_costs_are_left_out() -> None:
    rows = [
        attempt(
            number, scenario, 1.0, working_ms=1000.0 + scenario + 500 * number, cost=0.1 + 0.3 * (number == 2)
        )
        for number in range(3)
        for scenario in range(10)
    ]
    (series,) = trend_series([source(number) for number in range(3)], rows)
    last = series.points[2]
    assert last.time_change is not None
    assert (last.time_change.is_change, round(last.time_change.difference)) == (False, 750)
    assert series.points[1].time_change is not None
    assert series.points[1].time_change.is_change
    assert last.cost_change is not None
    assert last.cost_change.is_change
    unknown = [attempt(0, 0, 1.0), attempt(0, 1, 1.0, cost=None, has_cost=False)]
    (other,) = trend_series([source(0)], unknown)
    assert other.points[0].cost_usd is None


def test_another_revision_or_version_is_told_and_not_compared() -> None:
    rows = [attempt(0, scenario, 1.0) for scenario in range(20)]
    rows += [attempt(1, scenario, 0.0, revision=2) for scenario in range(21)]
    (series,) = trend_series([source(0, "1.0"), source(1, "1.1")], rows)
    assert series.points[1].score_change is None
    assert series.points[1].notes == [
        "version 1.0 became 1.1",
        "other scenarios: 1 more, 0 fewer",
        "20 scenarios have another revision",
    ]


def test_one_scenario_nothing_scored_and_scores_above_1_are_no_error() -> None:
    rows = [attempt(0, 0, 7.0), attempt(1, 0, None), attempt(2, 0, 9.0)]
    (series,) = trend_series([source(number) for number in range(3)], rows)
    assert [point.score and point.score.mean for point in series.points] == [7.0, None, 9.0]
    assert series.points[2].score_change is not None
    assert not series.points[2].score_change.is_change
    assert trend_series([], []) == []


def test_a_history_has_each_agent_by_revision_and_the_flaky_jobs() -> None:
    rows = [
        attempt(0, 3, 1.0),
        attempt(0, 3, 0.0),
        attempt(1, 3, 1.0, revision=2),
        attempt(1, 3, None, revision=None),
    ]
    view = scenario_history(("scn_3", "third", 2), [source(0), source(1)], [*rows, attempt(0, 4, 1.0)])
    assert [(each.revision, each.passed, each.n_attempts, each.n_flaky) for each in view.agents] == [
        (2, 1, 1, 0),
        (1, 1, 2, 1),
    ]
    assert [(point.is_flaky, point.unscored) for point in view.points] == [(True, 0), (False, 1)]
    assert view.scorer_noise is None


def test_noise_counts_the_scores_that_are_not_the_first() -> None:
    noise = noise_of_scores([[1.0, 1.0, 0.0, 1.0], [0.5, 0.5]])
    assert (noise.n_states, noise.n_scorings, noise.n_changed, noise.share) == (2, 4, 1, 0.25)
    assert noise.low is not None
    assert noise.low < 0.25 < (noise.high or 0.0)
    again = attempt(0, 3, 1.0, earlier=(1.0, 0.0))
    view = scenario_history(("scn_3", "third", 1), [source(0)], [again])
    assert view.scorer_noise is not None
    assert view.scorer_noise.scores == [1.0, 0.0, 1.0]


def test_rows_of_records_become_attempts_that_count_as_trials_do() -> None:
    def row(state: str, score: float | None, kind: str | None = None) -> list[Any]:
        values: dict[Any, Any] = {
            ("job_id",): "bmj_0",
            ("agent",): 0,
            ("scenario_id",): "scn_1",
            ("state",): state,
            ("score",): score,
            ("failure", "kind"): kind,
            ("start_time_ms",): 10,
            ("end_time_ms",): 40,
            ("preparing_ms",): 20,
            ("scored_revision",): 2,
        }
        return [values.get(path) for path in TRIAL_PATHS]

    noisy = [{"score": 0.0, "scenario_revision": 2}, {"score": 1.0, "scenario_revision": 1}, "odd"]
    found = of_trials(
        [
            row("completed", 1.0),
            row("failed", None, "agent"),
            row("failed", None, "infrastructure"),
            row("running", None),
            [*row("completed", 0.5)[:7], 1, *row("completed", 0.5)[8:]],
            [*row("completed", 1.0)[:8], "a forged file", *row("completed", 1.0)[9:]],
            [*row("completed", 1.0)[:15], noisy, "trl_9"],
        ],
        {"bmj_0": "zero"},
    )
    assert [each.score for each in found] == [1.0, 0.0, None, 0.0, 1.0]
    assert found[0].working_ms == 10.0
    assert found[4].earlier == (0.0,)
    assert [each.is_suspect for each in found] == [False, False, False, True, False]


def test_rows_of_jobs_and_runs_become_sources() -> None:
    config = {"name": "codex", "model_name": "m"}
    job = ["bmj_0", "first", 5, 9, [config], [{"version": "1.2"}], None]
    assert len(job) == len(JOB_PATHS)
    (one,) = sources_of_jobs([job])
    assert (one.agent_name, one.label, one.version, one.time_ms) == ("codex:m", "codex@1.2:m", "1.2", 9)
    groups: list[list[Any]] = [
        ["bmr_1", "of a job", 1, 2, {"benchyard.job": "bmj_0"}],
        ["bmr_2", None, 1, None, {"agent": "mine", "model": "m"}],
        ["bmr_3", "x", 1, 2, None],
    ]
    assert [(each.id, each.agent_name) for each in sources_of_groups(groups)] == [
        ("bmr_2", "mine:m"),
        ("bmr_3", "sdk"),
    ]
    assert len(groups[0]) == len(GROUP_PATHS)
    runs: list[list[Any]] = [
        ["bmr_3", "scn_1", "completed", 0.5, "a forged file", None, 1, 2, 1, "scr_1", None, False],
        [None, "scn_1", "scored", 1.0, None, 0.25, 1, 5, 1, "scr_2", "alone", False],
        [None, "scn_1", "completed", 1.0, None, None, 1, 2, 1, "scr_3", None, True],
        ["bmr_3", "scn_1", "running", None, None, None, 1, None, 1, "scr_4", None, False],
    ]
    assert all(len(each) == len(RUN_PATHS) for each in runs)
    assert [each.id for each in sources_of_runs(runs)] == ["scr_2"]
    attempts = of_runs(runs, {"scn_1": "one"})
    assert [(each.source, each.score, each.working_ms) for each in attempts] == [
        (("bmr_3", 0), 0.5, 1.0),
        (("scr_2", 0), 1.0, 4.0),
    ]
    assert [each.is_suspect for each in attempts] == [True, False]


def test_a_run_of_code_that_timed_out_counts_0_as_in_its_report() -> None:
    row = ["bmr_1", "scn_1", "timeout", None, None, None, 1, 2, 1, "scr_1", None, False]
    (found,) = of_runs([row], {})
    assert found.score == 0.0
    (canceled,) = of_runs([[*row[:2], "canceled", *row[3:]]], {})
    assert canceled.score is None


def test_changes_are_corrected_for_all_series() -> None:
    lost = jobs(random.Random(1), [0.8, 0.5])
    sources = [source(0), source(1)]
    (alone,) = trend_series(sources, lost)
    others = []
    for number in range(1, 10):
        steady = jobs(random.Random(number), [0.8, 0.8])
        name = f"agent-{number}"
        for place in (0, 1):
            sources.append(Source(f"bmj_{number}_{place}", 0, "job", name, place, name, name, None))
        others += [
            PastAttempt(
                **{
                    **{key: getattr(each, key) for key in each.__slots__},
                    "source": (each.source[0].replace("bmj_", f"bmj_{number}_"), 0),
                }
            )
            for each in steady
        ]
    among = {series.agent_name: series for series in trend_series(sources, [*lost, *others])}
    first, second = alone.points[1].score_change, among["codex:m"].points[1].score_change
    assert first is not None
    assert second is not None
    assert first.p_adjusted == first.p == second.p
    assert second.p_adjusted == pytest.approx(10 * second.p)
