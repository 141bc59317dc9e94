"""Agents side by side."""

from typing import Any

from benchyard.models.jobs import BenchmarkOutcome, JobState
from benchyard.reports.comparison import agent_labels, brief, compare_agents, suspects
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
