"""Insights of a benchmark: who can be told apart, which scenarios tell nothing, what a comparison shows."""

import random

from benchyard.reports.insights import insights
from benchyard.reports.past_attempts import PastAttempt, Source

BENCHMARK = ("bmk_1", "bench")
REVISIONS = {f"scn_{number}": (f"scenario {number}", 1) for number in range(40)}


def source(label: str, number: int = 0) -> Source:
    return Source(f"bmj_{label}_{number}", 0, "job", label, number, label, label)


def attempts(of: Source, scores: list[list[float]], revision: int = 1) -> list[PastAttempt]:
    return [
        PastAttempt((of.id, 0), f"scn_{place}", "", score, 0.1, True, 10.0, revision, 1)
        for place, row in enumerate(scores)
        for score in row
    ]


def test_a_leader_board_groups_agents_that_cannot_be_told_apart() -> None:
    chance = random.Random(3)
    shares = {"strong": 0.9, "same": 0.9, "weak": 0.2}
    known = [source(label) for label in shares]
    rows = [
        each
        for own in known
        for each in attempts(
            own, [[float(chance.random() < shares[own.label]) for _ in range(3)] for _ in REVISIONS]
        )
    ]
    view = insights(BENCHMARK, REVISIONS, known, rows)
    assert view.n_common == 40
    assert [row.label for row in view.leaders][2] == "weak"
    assert {(row.best, row.worst) for row in view.leaders if row.label != "weak"} == {(1, 2)}
    assert [set(group) for group in view.groups] == [{"strong", "same"}, {"weak"}]
    detectable = {(cell.scenarios, cell.attempts): cell.detectable for cell in view.power}
    assert detectable[40, 1] > detectable[40, 5] > 0.0
    assert detectable[10, 1] > detectable[40, 1]


def test_scenarios_that_tell_nothing_or_the_reverse_are_named() -> None:
    known = [source(f"agent {number}") for number in range(8)]
    rows = []
    for number, own in enumerate(known):
        graded = [[float(number > place % 8)] for place in range(36)]
        rows += attempts(own, [[1.0], [0.0], [float(number < 4)], *graded])
    view = insights(BENCHMARK, REVISIONS, known, rows)
    kinds = {row.scenario_name: row.kind for row in view.scenarios if row.kind}
    assert kinds["scenario 0"] == "saturated"
    assert kinds["scenario 1"] == "impossible"
    reversed_one = next(row for row in view.scenarios if row.scenario_name == "scenario 2")
    assert reversed_one.tau is not None
    assert reversed_one.tau < -0.5
    assert view.scenarios[0].mean == 0.0
    assert view.scenarios[-1].mean is None


def test_old_revisions_and_agents_with_few_scenarios_have_no_place() -> None:
    whole, part, old = source("whole"), source("part"), source("old")
    rows = attempts(whole, [[1.0]] * 40) + attempts(part, [[1.0]] * 5) + attempts(old, [[0.0]] * 40, 0)
    view = insights(BENCHMARK, REVISIONS, [whole, part, old], rows)
    assert [row.label for row in view.leaders] == ["whole"]
    assert view.left_out == ["part"]
    assert view.power == []


def test_a_benchmark_without_results_has_no_leaders() -> None:
    view = insights(BENCHMARK, REVISIONS, [], [])
    assert (view.leaders, view.groups, view.power, len(view.scenarios)) == ([], [], [], 40)


def test_one_attempt_is_no_more_than_its_result() -> None:
    known = [source("agent")]
    view = insights(BENCHMARK, REVISIONS, known, attempts(known[0], [[1.0], [0.0], [1.0, 1.0], [0.0, 0.0]]))
    kinds = {row.scenario_name: row.kind for row in view.scenarios}
    assert [kinds[f"scenario {number}"] for number in range(4)] == [None, None, "saturated", "impossible"]


def test_costs_and_times_of_leaders_have_intervals() -> None:
    known = [source("agent")]
    rows = [
        PastAttempt((known[0].id, 0), f"scn_{place}", "", 1.0, 0.1 * place, True, 10.0 * place, 1, 1)
        for place in range(1, 6)
    ]
    (leader,) = insights(BENCHMARK, REVISIONS, known, rows).leaders
    assert leader.cost_usd is not None
    assert leader.cost_interval is not None
    assert leader.cost_interval[0] < leader.cost_usd < leader.cost_interval[1]
    assert leader.working_interval is not None
    assert leader.working_interval[0] < 30.0 < leader.working_interval[1]
