"""Claims are made inside scenarios only, and seldom where there is nothing."""

import random

from benchyard.reports.problems.prevalence import JudgedTrial, associations

SCENARIOS, ATTEMPTS = 12, 5


def null_set(generator: random.Random) -> dict[str, list[JudgedTrial]]:
    """Signals that depend on the scenario and the agent, as passing does, but not on each other."""
    strata = [(agent, scenario) for agent in range(2) for scenario in range(SCENARIOS)]
    hardness = {each: generator.random() for each in strata}
    passed = [(each, generator.random() < hardness[each]) for each in strata for _ in range(ATTEMPTS)]
    return {
        f"signal-{number}": [
            JudgedTrial(each, generator.random() < share[each], is_passed) for each, is_passed in passed
        ]
        for number in range(10)
        if (share := {each: min(1.0, max(0.0, 1 - hardness[each] * generator.random())) for each in strata})
    }


def test_any_problem_is_claimed_in_at_most_a_twentieth_of_null_sets() -> None:
    generator = random.Random(19)
    claimed = sum(
        any(each.goes_with for each in associations(null_set(generator)).values()) for _ in range(500)
    )
    assert claimed <= 25


def test_a_problem_that_goes_with_failing_inside_scenarios_is_claimed() -> None:
    generator = random.Random(19)
    observed = null_set(generator)
    observed["real"] = [
        JudgedTrial(each.stratum, is_found, generator.random() < (0.2 if is_found else 0.8))
        for each in observed["signal-0"]
        for is_found in [generator.random() < 0.5]
    ]
    found = associations(observed)
    assert found["real"].goes_with == "failing"
    assert (found["real"].p_adjusted or 1) < 0.01
    assert (found["real"].failed_with or 0) > (found["real"].failed_without or 0)


def test_a_habit_of_a_weak_agent_at_hard_scenarios_is_not_claimed() -> None:
    """All in all it fails far more often; inside scenarios and agents there is nothing to compare."""
    observed = [
        JudgedTrial((agent, scenario), agent == 0, agent == 1)
        for agent in range(2)
        for scenario in range(50)
        for _ in range(4)
    ]
    (found,) = associations({"habit": observed}).values()
    assert (found.failed_with, found.failed_without) == (1.0, 0.0)
    assert (found.p, found.goes_with) == (None, None)


def test_a_single_attempt_each_says_nothing() -> None:
    observed = [JudgedTrial((0, scenario), scenario % 2 == 0, scenario % 2 == 1) for scenario in range(100)]
    assert associations({"one": observed})["one"].goes_with is None
