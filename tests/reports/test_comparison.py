"""Agents side by side."""

from typing import Any

from benchyard.models.jobs import BenchmarkOutcome, JobState
from benchyard.reports.comparison import agent_labels, brief, compare_agents, differences_to_first, suspects
from benchyard.reports.outcomes import outcomes
from tests.reports.scenes import job, trial


def outcome(name: str, **fields: Any) -> BenchmarkOutcome:
    return BenchmarkOutcome(
        agent_name=name, benchmark_run_id="bmr_1", n_completed=0, n_failed=0, n_timeout=0, **fields
    )


def test_scenarios_that_tell_agents_apart_are_known() -> None:
    trials = [
        trial(1.0, agent=0, scenario=0),
        trial(0.5, agent=0, scenario=1),
        trial(failure="scorer", agent=0, scenario=2),
        trial(1.0, agent=1, scenario=0),
        trial(failure="agent", agent=1, scenario=1),
        trial(0.0, agent=1, scenario=2),
    ]
    rows = compare_agents(outcomes(job(agents=2, scenarios=3), trials, with_scenarios=True))
    assert [row.scores for row in rows] == [(1.0, 1.0), (0.5, 0.0), (None, 0.0)]
    assert [row.differs for row in rows] == [False, True, False]
    assert rows[2].states == ("FAILED", "COMPLETED")
    assert rows[2].scenario_name == "scenario 2"


def test_an_agent_without_a_scenario_has_nothing_there() -> None:
    first = outcomes(job(scenarios=1), [trial(1.0)], with_scenarios=True)
    assert [row.scores for row in compare_agents([*first, outcome("other")])] == [(1.0, None)]


def test_suspect_scores_are_marked_beside_each_other() -> None:
    trials = [
        trial(1.0, suspicions=["opened /bin/sh", "left a process"]),
        trial(1.0, attempt=2),
        trial(1.0, agent=1),
    ]
    found = outcomes(job(agents=2, attempts=2, state=JobState.CANCELLED), trials, with_scenarios=True)
    (row,) = compare_agents(found)
    assert row.suspect == (True, False)
    (suspect,) = suspects(found)
    assert (suspect.label, suspect.scenario_name) == ("agent-0", "scenario 0")
    assert suspect.why == "opened /bin/sh (and 1 more) (1 of 2 attempts)"


def test_labels_are_unique() -> None:
    assert agent_labels([outcome("a"), outcome("a"), outcome("a", model_name="m", version="1")]) == [
        "a",
        "a#2",
        "a@1:m",
    ]


def test_a_version_is_left_out_only_where_names_stay_apart() -> None:
    assert brief(["claude-code@2.1:sonnet", "codex@0.1:gpt", "nop"]) == {
        "claude-code@2.1:sonnet": "claude-code:sonnet",
        "codex@0.1:gpt": "codex:gpt",
    }
    assert brief(["mine@1", "mine@2", "@team/mine@3:m"]) == {"@team/mine@3:m": "@team/mine:m"}
    assert brief(["mine@1", "mine"]) == {}


def _tested(scores: list[list[float]], attempts: int = 1) -> list[tuple[str, float, float]]:
    """Return what is told of agents with these scores of each attempt at each scenario."""
    trials = [
        trial(score, agent=agent, scenario=index // attempts, attempt=index % attempts + 1)
        for agent, row in enumerate(scores)
        for index, score in enumerate(row)
    ]
    made = job(len(scores), len(scores[0]) // attempts, attempts, JobState.COMPLETED)
    found = differences_to_first(outcomes(made, trials, with_scenarios=True))
    return [(each.label, each.mean, round(each.p, 6)) for each in found]


def test_agents_are_tested_against_the_first_with_all_their_attempts() -> None:
    good, bad = [1.0] * 12, [0.0] * 12
    assert _tested([good, bad]) == [("agent-1", -1.0, round(2 / 2**12, 6))]
    assert _tested([good, good]) == [("agent-1", 0.0, 1.0)]
    # With Holm's correction, and two agents against the first.
    assert _tested([good, bad, good]) == [("agent-1", -1.0, round(4 / 2**12, 6)), ("agent-2", 0.0, 1.0)]
    several = _tested([[1.0, 0.0] * 6, bad], attempts=2)
    assert several == [("agent-1", -0.5, round(2 / 2**6, 6))]


def test_graded_scores_are_tested_by_their_differences() -> None:
    ((_, mean, p),) = _tested([[0.2, 0.4, 0.3, 0.5], [0.5, 0.6, 0.6, 0.9]])
    assert mean == 0.3
    assert 0.005 < p < 0.02
    assert _tested([[0.0] * 8, [0.5] * 8]) == [("agent-1", 0.5, round(2 / 2**8, 6))]


def test_scenarios_that_only_one_has_scored_are_left_out() -> None:
    found = outcomes(
        job(agents=2, scenarios=2, state=JobState.COMPLETED),
        [
            trial(1.0),
            trial(1.0, scenario=1),
            trial(0.0, agent=1),
            trial(failure="scorer", agent=1, scenario=1),
        ],
        with_scenarios=True,
    )
    (difference,) = differences_to_first(found)
    assert (difference.n, difference.is_real) == (1, False)
    assert differences_to_first([*found[:1], outcome("other")]) == []


def test_scores_outside_of_0_and_1_that_do_not_vary_have_no_interval() -> None:
    trials = [trial(5.0 * agent, agent=agent, scenario=index) for agent in (0, 1) for index in range(5)]
    made = job(2, 5, 1, JobState.COMPLETED)
    (found,) = differences_to_first(outcomes(made, trials, with_scenarios=True))
    assert (found.mean, found.low, found.high, found.text) == (5.0, None, None, "+5.000")
