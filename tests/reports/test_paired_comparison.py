"""Two agents compared: differences, their certainty, fairness, and the verdict of a gate."""

import random
from collections.abc import Sequence

import pytest

from benchyard.models.comparisons import DifferenceView, GateView
from benchyard.models.jobs import AgentConfig, AgentEnvironment, Job, OrchestratorConfig
from benchyard.models.trials import Trial
from benchyard.reports.gate_reports import deciding_text
from benchyard.reports.paired_comparison import Side, compare, gate, setup_differences
from tests.reports.scenes import job, trial


def side(
    scores: Sequence[Sequence[float | None]], id: str = "bmj_1", first: int = 0, **changes: object
) -> Side:
    """Return an agent with these scores of attempts by scenario; None is an unscored attempt."""
    made: Job = job(scenarios=first + len(scores)).model_copy(
        update={"id": id, "scenario_revisions": [1] * (first + len(scores)), **changes}
    )
    trials = [
        _trial(first + number, attempt, score)
        for number, row in enumerate(scores)
        for attempt, score in enumerate(row, 1)
    ]
    return Side(made, 0, trials)


def ends(found: DifferenceView | None) -> tuple[float, float]:
    """Return the ends of a difference that has them."""
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def _trial(scenario: int, attempt: int, score: float | None) -> Trial:
    if score is None:
        return trial(failure="infrastructure", scenario=scenario, attempt=attempt)
    return trial(score, scenario=scenario, attempt=attempt)


def test_the_same_agent_of_the_same_job_is_equal_by_identity() -> None:
    same = side([[1.0], [0.0]])
    view = compare(same, same)
    assert view.is_same
    assert view.difference is not None
    assert view.difference.mean == 0.0
    assert view.p == 1.0
    assert gate(view, 0.0).verdict == "pass"


def test_a_clear_difference_is_told_with_its_scenarios() -> None:
    before = side([[1.0]] * 40)
    after = side([[1.0]] * 20 + [[0.0]] * 20, "bmj_2")
    view = compare(before, after)
    assert view.n_shared == 40
    assert view.difference is not None
    assert view.difference.mean == -0.5
    assert ends(view.difference)[1] < -0.3
    assert view.p is not None
    assert view.p < 1e-5
    assert view.flips is not None
    assert (view.flips.won, view.flips.lost, view.flips.both, view.flips.neither) == (0, 20, 20, 0)
    assert view.e_value is not None
    assert view.e_value > 1000
    assert {row.scenario_name for row in view.scenarios} == {f"scenario {number}" for number in range(20, 40)}
    result = gate(view, 0.02)
    assert result.verdict == "fail"
    assert "worse by more than 0.02" in result.reason


def test_noise_is_inconclusive_and_says_how_many_attempts_would_decide() -> None:
    chance = random.Random(3)
    before = side([[float(chance.random() < 0.5) for _ in range(2)] for _ in range(30)])
    after = side([[float(chance.random() < 0.5) for _ in range(2)] for _ in range(30)], "bmj_2")
    result = gate(compare(before, after), 0.02)
    assert result.verdict == "inconclusive"
    assert result.attempts_needed is None or result.attempts_needed > 2
    assert result.comparison.power is not None
    assert 0.05 < result.comparison.power.detectable < 0.5
    assert result.comparison.flips is not None
    assert result.comparison.flips.expected == pytest.approx(30 * 0.55, abs=6)


def test_jobs_without_a_shared_scenario_cannot_be_compared() -> None:
    view = compare(side([[1.0]]), side([[1.0]], "bmj_2", first=5))
    assert (view.n_shared, view.only_a, view.only_b) == (0, 1, 1)
    assert view.difference is None
    assert any("share no scored scenario" in note for note in view.notes)
    assert gate(view, 0.5).verdict == "inconclusive"


def test_nothing_scored_at_all() -> None:
    view = compare(side([[None]]), side([[None]], "bmj_2"))
    assert view.n_shared == 0
    assert gate(view, 0.1).verdict == "inconclusive"
    assert compare(side([]), side([], "bmj_2")).n_shared == 0


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_equal_scores_on_few_scenarios_decide_nothing(score: float) -> None:
    view = compare(side([[score]] * 10), side([[score]] * 10, "bmj_2"))
    low, high = ends(view.difference)
    assert low < 0 < high
    assert gate(view, 0.02).verdict == "inconclusive"
    assert gate(view, 0.5).verdict == "pass"


def test_unscored_attempts_count_by_their_bounds_unless_they_are_allowed() -> None:
    before = side([[1.0, 1.0]] * 300)
    after = side([[1.0, 1.0]] * 250 + [[1.0, None]] * 50, "bmj_2")
    view = compare(before, after)
    assert view.b.unscored == 50
    assert view.b.bounds is not None
    assert list(view.b.bounds) == pytest.approx([275 / 300, 1.0])
    assert gate(view, 0.05).verdict == "inconclusive"
    assert gate(view, 0.05, allowed_unscored=50).verdict == "pass"
    wholly = compare(before, side([[1.0, 1.0]] * 150 + [[None, None]] * 150, "bmj_2"))
    assert gate(wholly, 0.05).verdict == "inconclusive"


def test_suspect_scores_fail_a_gate_that_asks_for_it() -> None:
    before = side([[1.0]] * 50)
    after = side([[1.0]] * 50, "bmj_2")
    marked = [each.model_copy(update={"suspicions": ["a program was replaced"]}) for each in after.trials]
    view = compare(before, Side(after.job, 0, marked))
    assert view.b.n_suspect == 50
    assert gate(view, 0.2, "fail").verdict == "fail"
    assert gate(view, 0.2, "keep").verdict == "pass"
    counted = compare(before, Side(after.job, 0, marked, "zero"))
    assert counted.difference is not None
    assert counted.difference.mean == -1.0


def test_graded_scores_and_scores_outside_of_0_and_1() -> None:
    chance = random.Random(1)
    before = side([[chance.random()] for _ in range(20)])
    after = side([[float(row[0]) + 0.3] for row in [[each.score or 0.0] for each in before.trials]], "bmj_2")
    view = compare(before, after)
    assert view.p is not None
    assert view.p < 0.01
    assert "shuffled" in view.p_method
    assert view.odds_ratio is None


def test_clusters_widen_the_interval() -> None:
    before = side([[1.0]] * 40)
    after = side([[0.0]] * 10 + [[1.0]] * 30, "bmj_2")
    clusters = {f"scn_{number}": f"family {number // 10}" for number in range(40)}
    alone, grouped = compare(before, after), compare(before, after, clusters, "family")
    assert grouped.difference is not None
    assert grouped.difference.n_clusters == 4
    (low, high), (low_alone, high_alone) = ends(grouped.difference), ends(alone.difference)
    assert high - low > 2 * (high_alone - low_alone)


def test_what_makes_a_comparison_unfair_is_named() -> None:
    before = side([[1.0]])
    config = OrchestratorConfig(timeout_multiplier=2.0, max_retries=0)
    after = side([[1.0]], "bmj_2", scenario_revisions=[2])
    spec = after.job.spec.model_copy(
        update={
            "orchestrator_config": config,
            "agent_configs": [AgentConfig(name="agent-0", version="2", model_name="m")],
        }
    )
    changed = Side(after.job.model_copy(update={"spec": spec}), 0, after.trials)
    found = {each.what: (each.a, each.b, each.weight) for each in setup_differences(before, changed)}
    assert found["version of the agent"] == ("-", "2", "subject")
    assert found["model"] == ("-", "m", "subject")
    assert found["factor of the time limits"] == ("1.0", "2.0", "doubt")
    assert found["retries after failures of the infrastructure"] == ("2", "0", "doubt")
    assert found["revisions of scenarios"] == ("1", "2", "doubt")
    assert any("revisions of scenarios" in note for note in compare(before, changed).notes)
    assert setup_differences(before, before) == []


def test_networks_and_isolations_are_compared_scenario_by_scenario() -> None:
    before, after = side([[1.0]] * 3), side([[1.0]] * 3, "bmj_2")
    open_trials = [each.model_copy(update={"network": "open"}) for each in after.trials]
    none_trials = [each.model_copy(update={"network": "none"}) for each in before.trials]
    found = setup_differences(Side(before.job, 0, none_trials), Side(after.job, 0, open_trials))
    assert [(each.what, each.a, each.b, each.n_scenarios) for each in found] == [
        ("network of the devbox", "none", "open", 3)
    ]


def test_costs_and_times_are_paired_too() -> None:
    before, after = side([[1.0]] * 5), side([[1.0]] * 5, "bmj_2")

    def spent(trials: Sequence[Trial], dollars: float) -> list[Trial]:
        return [
            each.model_copy(
                update={
                    "usage": {"cost_usd": dollars * (1 + number / 10), "model_calls": 1.0},
                    "start_time_ms": 0,
                    "end_time_ms": 1000 * (number + 1),
                }
            )
            for number, each in enumerate(trials)
        ]

    view = compare(
        Side(before.job, 0, spent(before.trials, 1.0)), Side(after.job, 0, spent(after.trials, 2.0))
    )
    assert view.cost_usd is not None
    assert view.cost_usd.mean == pytest.approx(1.2)
    assert view.working_ms is not None
    assert view.working_ms.mean == 0.0
    unknown = [each.model_copy(update={"usage": {"model_calls": 1.0}}) for each in after.trials]
    assert (
        compare(Side(before.job, 0, spent(before.trials, 1.0)), Side(after.job, 0, unknown)).cost_usd is None
    )


def test_swapping_the_sides_swaps_the_signs() -> None:
    chance = random.Random(9)
    before = side([[float(chance.random() < 0.4) for _ in range(3)] for _ in range(25)])
    after = side([[float(chance.random() < 0.7) for _ in range(3)] for _ in range(25)], "bmj_2")
    there, back = compare(before, after), compare(after, before)
    assert there.p == pytest.approx(back.p)
    assert there.difference is not None
    assert back.difference is not None
    assert there.difference.mean == pytest.approx(-back.difference.mean)
    low, high = ends(back.difference)
    assert ends(there.difference) == pytest.approx((-high, -low))


def running(scores: Sequence[Sequence[float]], waiting: int, id: str = "bmj_2") -> Side:
    """Return a side whose last scenarios still wait."""
    made = side([*scores, *([[]] * waiting)], id)
    late = [trial(scenario=len(scores) + number) for number in range(waiting)]
    return Side(made.job, 0, [*made.trials, *late])


def test_while_a_job_runs_only_evidence_against_the_margin_decides() -> None:
    before = side([[1.0]] * 100)
    lost = compare(before, running([[0.0]] * 20, 80), margin=0.02)
    assert lost.running is not None
    assert (lost.running.n, lost.running.n_planned) == (20, 100)
    assert gate(lost, 0.02).verdict == "fail"
    few = gate(compare(before, running([[0.0]] * 5, 95), margin=0.02), 0.02)
    # The interval of five lost scenarios would decide, but not at each of many looks.
    assert (few.verdict, few.attempts_needed) == ("inconclusive", None)
    assert "while a job runs" in few.reason
    assert gate(compare(before, running([[1.0]] * 90, 10), margin=0.3), 0.3).verdict == "pass"
    graded = compare(side([[5.0]] * 30), running([[1.0]] * 20, 10), margin=0.02)
    assert gate(graded, 0.02).verdict == "inconclusive"
    ended = compare(before, side([[0.0]] * 100, "bmj_2"), margin=0.02)
    assert ended.running is None


def test_a_gate_never_fails_by_one_lost_scenario() -> None:
    for count in (1, 2):
        lost = compare(side([[1.0]] * count), side([[0.0]] * count, "bmj_2"))
        assert gate(lost, 0.02).verdict == "inconclusive"
    assert gate(compare(side([[1.0]] * 8), side([[0.0]] * 8, "bmj_2")), 0.02).verdict == "fail"


def test_equal_results_say_how_many_scenarios_would_decide() -> None:
    found = gate(compare(side([[1.0]] * 10), side([[1.0]] * 10, "bmj_2")), 0.02)
    assert found.attempts_needed is None
    assert "scenarios like these" in deciding_text(found)
    needed = found.scenarios_needed
    assert needed is not None
    assert gate(compare(side([[1.0]] * needed), side([[1.0]] * needed, "bmj_2")), 0.02).verdict == "pass"
    fewer = needed - 10
    less = gate(compare(side([[1.0]] * fewer), side([[1.0]] * fewer, "bmj_2")), 0.02)
    assert less.verdict == "inconclusive"


def test_a_difference_from_scenario_to_scenario_asks_for_scenarios_and_not_for_attempts() -> None:
    before = side([[0.0] * 5, [1.0] * 5] * 10)
    after = side([[1.0] * 5, [0.0] * 5] * 10, "bmj_2")
    found = gate(compare(before, after), 0.02)
    assert (found.verdict, found.attempts_needed) == ("inconclusive", None)
    assert found.scenarios_needed is not None
    assert found.scenarios_needed > 20


def test_one_scenario_with_a_score_above_1_has_no_interval() -> None:
    view = compare(side([[3.0]]), side([[2.0]], "bmj_2"))
    assert view.a.score is not None
    assert (view.a.score.mean, view.a.score.low, view.a.score.high) == (3.0, None, None)
    assert gate(view, 0.02).verdict == "inconclusive"


def test_rounding_is_no_loss() -> None:
    # Both scenarios pass once less of three: a third twice, as two different floats.
    before = side([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    view = compare(before, side([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]], "bmj_2"))
    assert view.difference is not None
    assert view.difference.p is None
    assert gate(view, 0.02).verdict == "inconclusive"


def test_an_unscored_attempt_never_makes_a_verdict_surer() -> None:
    chance = random.Random(2)
    lost = 0
    for _ in range(60):
        count = chance.randint(12, 40)
        rows = [[float(chance.random() < 0.8)] for _ in range(count)]
        worse: list[list[float | None]] = [[float(chance.random() < 0.5)] for _ in range(count)]
        alone = gate(compare(side(rows), side(worse, "bmj_2")), 0.02)
        lost += alone.verdict == "fail"
        more = [[*worse[0], None], *worse[1:]]
        beside = gate(compare(side(rows), side(more, "bmj_2")), 0.02)
        assert beside.verdict in (alone.verdict, "inconclusive")
    assert 0 < lost < 60


def test_bounds_of_a_gate_with_unscored_attempts_have_its_level() -> None:
    before, after = side([[1.0]] * 30), side([[0.0]] * 6 + [[1.0]] * 23 + [[1.0, None]], "bmj_2")
    view = compare(before, after)
    assert view.bounds is not None
    assert view.gate_unscored_bounds is not None
    assert view.gate_unscored_bounds[0] < view.bounds[0] < view.bounds[1] < view.gate_unscored_bounds[1]


def test_only_the_unscored_attempts_keep_a_gate_open() -> None:
    before = side([[1.0, 1.0]] * 300)
    after = side([[1.0, 1.0]] * 250 + [[1.0, None]] * 50, "bmj_2")
    found = gate(compare(before, after), 0.05)
    assert (found.verdict, found.unscored_decides) == ("inconclusive", True)
    assert (found.attempts_needed, found.scenarios_needed) == (None, None)
    assert "retry what is unscored" in deciding_text(found)
    assert not gate(compare(before, after), 0.05, allowed_unscored=50).unscored_decides


def test_what_shares_no_scenario_needs_one() -> None:
    found = gate(compare(side([[1.0]]), side([[1.0]], "bmj_2", first=5)), 0.5)
    assert deciding_text(found) == "Both need a score at the same scenarios first"
    unscored = gate(compare(side([[None]]), side([[None]], "bmj_2")), 0.1)
    assert deciding_text(unscored) == "Both need a score at the same scenarios first"


def test_scores_outside_of_0_and_1_that_do_not_vary_are_not_bounded() -> None:
    for low, high in ((0.0, 5.0), (5.0, 0.0), (5.0, 5.0)):
        view = compare(side([[low]] * 5), side([[high]] * 5, "bmj_2"))
        assert view.difference is not None
        assert (view.difference.mean, view.difference.low, view.difference.high) == (high - low, None, None)
        assert gate(view, 0.02).verdict == "inconclusive"
        assert deciding_text(gate(view, 0.02)).startswith("Scores between 0 and 1 would decide it")
        assert any("outside of 0 and 1" in note for note in view.notes)
    chance = random.Random(4)
    varying = side([[9.0 + chance.random()] for _ in range(30)])
    unscored = side([[1.0 + chance.random()] for _ in range(29)] + [[1.5, None]], "bmj_2")
    view = compare(varying, unscored)
    assert (view.bounds, view.gate_unscored_bounds, view.b.bounds) == (None, None, None)
    assert gate(view, 0.02).verdict == "inconclusive"
    assert gate(view, 0.02, allowed_unscored=1).verdict == "fail"


def test_the_sizes_that_a_gate_asks_for_decide_it() -> None:
    def judged(hundreds: int) -> GateView:
        before = side(([[1.0]] * 98 + [[0.0]] * 2) * hundreds)
        after = side(([[0.0]] + [[1.0]] * 98 + [[0.0]]) * hundreds, "bmj_2")
        return gate(compare(before, after), 0.03)

    found = judged(1)
    assert found.verdict == "inconclusive"
    assert found.scenarios_needed is not None
    enough = -(-found.scenarios_needed // 100)
    assert judged(enough).verdict == "pass"
    assert enough == 2 or judged(enough - 1).verdict == "inconclusive"


def test_a_lost_family_is_one_result() -> None:
    before = side([[1.0]] * 40)
    after = side([[0.0]] * 10 + [[1.0]] * 30, "bmj_2")
    clusters = {f"scn_{number}": f"family {number // 10}" for number in range(40)}
    alone, grouped = compare(before, after), compare(before, after, clusters, "family")
    assert alone.p is not None
    assert grouped.p is not None
    assert alone.p < 0.01 < 0.3 < grouped.p
    assert "groups" in grouped.p_method
    assert grouped.p_middle is None
    assert alone.e_value is not None
    assert grouped.e_value == 1.0, "one lost group of four tells nothing"
    assert alone.power is not None
    assert grouped.power is not None
    assert grouped.power.detectable > 2 * alone.power.detectable
    whole = compare(before, side([[0.0]] * 40, "bmj_2"), clusters, "family")
    assert whole.p == pytest.approx(2 / 2**4)
    assert whole.p_method == "sign test of the groups' mean differences"


def test_two_agents_of_one_job_have_set_ups_too() -> None:
    made = job(agents=2, scenarios=2)
    configs = [
        AgentConfig(name="agent", timeout_seconds=10),
        AgentConfig(
            name="agent",
            timeout_seconds=1000,
            agent_environment=AgentEnvironment(
                environment_variables={"THINK": "0"}, secrets={"KEY": "my-key"}
            ),
        ),
    ]
    made = made.model_copy(
        update={"scenario_revisions": [1, 1], "spec": made.spec.model_copy(update={"agent_configs": configs})}
    )
    sides = [
        Side(made, agent, [trial(1.0, agent=agent, scenario=0, network=network)])
        for agent, network in enumerate(("none", "open"))
    ]
    found = {each.what: (each.a, each.b, each.weight) for each in setup_differences(*sides)}
    assert found == {
        "environment of the agent": ("-", "THINK", "subject"),
        "secrets of the agent": ("-", "KEY", "subject"),
        "time limit of the agent": ("10.0", "1000.0", "doubt"),
        "network of the devbox": ("none", "open", "doubt"),
    }
    assert "0" not in found["environment of the agent"][1], "values may be secret"


def test_a_variable_with_another_value_is_told_by_its_name() -> None:
    def thinking(value: str, id: str) -> Side:
        made = side([[1.0]], id)
        config = AgentConfig(
            name="agent-0",
            agent_environment=AgentEnvironment(environment_variables={"THINK": value, "SAME": "1"}),
        )
        spec = made.job.spec.model_copy(update={"agent_configs": [config]})
        return Side(made.job.model_copy(update={"spec": spec}), 0, made.trials)

    (found,) = setup_differences(thinking("7", "bmj_1"), thinking("8", "bmj_2"))
    assert (found.a, found.b) == ("THINK", "THINK (another)")


@pytest.mark.parametrize(("scenarios", "is_graded"), [(2000, True), (4000, False)])
def test_large_comparisons_take_the_tests_that_are_quick(scenarios: int, is_graded: bool) -> None:
    chance = random.Random(5)
    # Made without the checks of their models, which take longer than what is measured.
    sample = trial(1.0)

    def large(id: str) -> Side:
        made = job(scenarios=scenarios).model_copy(update={"id": id, "scenario_revisions": [1] * scenarios})
        trials = [
            sample.model_copy(
                update={
                    "scenario_id": f"scn_{number}",
                    "attempt": attempt,
                    "score": chance.random() if is_graded else float(chance.random() < 0.5),
                }
            )
            for number in range(scenarios)
            for attempt in range(5)
        ]
        return Side(made, 0, trials)

    view = compare(large("bmj_1"), large("bmj_2"))
    assert ("normal limit" if is_graded else "chi squared") in view.p_method


def test_costs_and_times_of_each_side_have_intervals() -> None:
    made = side([[1.0]] * 4)
    spent = [
        each.model_copy(
            update={
                "usage": {"cost_usd": 0.1 * (number + 1), "model_calls": 1.0},
                "start_time_ms": 0,
                "end_time_ms": 1000 * (number + 1),
            }
        )
        for number, each in enumerate(made.trials)
    ]
    found = compare(Side(made.job, 0, spent), side([[1.0]] * 4, "bmj_2")).a
    assert found.cost_usd == pytest.approx(0.25)
    assert found.cost_interval is not None
    assert 0 <= found.cost_interval[0] < 0.25 < found.cost_interval[1]
    assert found.working_ms == pytest.approx(2500)
    assert found.working_interval is not None
    assert found.working_interval[0] < 2500 < found.working_interval[1]


def test_one_of_something_is_told_as_one() -> None:
    view = compare(side([[1.0]]), side([[1.0, None]], "bmj_2"))
    assert any(note.startswith("only 1 scenario:") for note in view.notes)
    assert any(note.startswith("1 attempt of the second is unscored") for note in view.notes)
