"""Plans: pure, whole, and the same every time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.engine.jobs.plan import first_trials, places, retry_of, sample_scenarios, trial_id
from benchyard.models.jobs import AgentConfig, Job, JobSource, JobSpec, OrchestratorConfig, Selection
from benchyard.models.scenarios import InputContext, Scenario, ScoringContract, ScoringFunction
from benchyard.models.trials import FailureReason

SIZES = st.integers(1, 5)


def job(agents: int, scenarios: int, attempts: int) -> Job:
    return Job(
        id="bmj_1",
        create_time_ms=1,
        name="a job",
        source=JobSource(type="scenarios"),
        spec=JobSpec(
            agent_configs=[AgentConfig(name=f"a{number}") for number in range(agents)],
            scenario_ids=[f"scn_{number}" for number in range(scenarios)],
            orchestrator_config=OrchestratorConfig(n_attempts=attempts),
        ),
    )


@given(SIZES, SIZES, SIZES)
def test_every_place_once_and_always_the_same(agents: int, scenarios: int, attempts: int) -> None:
    of = job(agents, scenarios, attempts)
    names = [f"s{number}" for number in range(scenarios)]
    trials = first_trials(of, names, 5)
    assert len({each.id for each in trials}) == len(trials) == of.n_trials
    assert [each.place for each in trials] == list(places(of))
    assert trials == first_trials(of, names, 5)
    assert all(each.id == trial_id(of.id, each.place, 0) for each in trials)


@pytest.mark.parametrize(("kind", "lost"), [("infrastructure", 3), ("agent", 0)])
def test_a_retry_takes_the_same_place(kind: Any, lost: int) -> None:
    of = job(1, 1, 1)
    reason = FailureReason(exception_type="X", exception_message="x", kind=kind)
    (first,) = first_trials(of, ["s"], 5)
    second = retry_of(of, first.model_copy(update={"failure": reason, "n_lost": 2}), 6)
    assert (second.place, second.retry, second.n_lost) == (first.place, 1, lost)
    assert second.id != first.id


def scenario(number: int) -> Scenario:
    function = ScoringFunction(name="f", weight=1.0, scorer={"type": "command_scorer", "command": "true"})
    return Scenario(
        id=f"scn_{number}",
        create_time_ms=1,
        name=f"name-{number}",
        input_context=InputContext(problem_statement="x"),
        scoring_contract=ScoringContract(scoring_function_parameters=[function]),
        metadata={"parity": "even" if number % 2 == 0 else "odd"},
    )


@given(
    st.integers(1, 30),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(-5, 5),
)
def test_a_part_is_a_part_in_order(
    count: int, sample: int | None, limit: int | None, seed: int | None
) -> None:
    of = [scenario(number) for number in range(count)]
    chosen = sample_scenarios(of, Selection(sample=sample, limit=limit, seed=seed))
    assert [each for each in of if each in chosen] == chosen
    assert len(chosen) == min(count, sample or count, limit or count)
    assert sample_scenarios(of, Selection(sample=sample, limit=limit, seed=seed)) == chosen
