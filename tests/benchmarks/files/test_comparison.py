"""What pushing would change: nothing where nothing differs, and each field by its name."""

from typing import Any

import pytest

from benchyard.benchmarks.files import comparison
from benchyard.models.benchmarks import BenchmarkRequest, BenchmarkView
from benchyard.models.scenarios import ScenarioRequest
from tests.models.scoring.test_references import scenario

COMMAND = {"type": "command_scorer", "command": "true"}


def request(**fields: Any) -> ScenarioRequest:
    return ScenarioRequest.model_validate(
        {
            "name": "x",
            "input_context": {"problem_statement": "x"},
            "scoring_contract": {
                "scoring_function_parameters": [{"name": "a", "weight": 1, "scorer": COMMAND}]
            },
            "reference_output": "true",
            **fields,
        }
    )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"scoring_isolation": "auto", "nop_score": 0.0, "scoring_network": "none", "answer_paths": []},
        {"scorer_timeout_sec": 1800, "validation_type": "UNSPECIFIED", "metadata": {}},
        {"required_environment_variables": [], "required_secret_names": [], "scoring_secrets": {}},
        {"environment_parameters": {}},
        {"input_context": {"problem_statement": "x", "additional_context": None}},
    ],
)
def test_stating_a_default_is_not_a_difference(fields: dict[str, Any]) -> None:
    assert comparison.scenario_differences(scenario("true"), request(**fields)) == []


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"scoring_isolation": "live"}, "scoring_isolation"),
        ({"nop_score": 0.5}, "nop_score"),
        ({"metadata": {"a": "b"}}, "metadata.a"),
        ({"reference_output": None}, "reference_output"),
        ({"input_context": {"problem_statement": "y"}}, "input_context.problem_statement"),
        (
            {"input_context": {"problem_statement": "x", "additional_context": 0}},
            "input_context.additional_context",
        ),
        ({"environment_parameters": {"working_directory": "/a"}}, "environment.working_directory"),
        (
            {"environment_parameters": {"launch_parameters": {"launch_commands": ["x"]}}},
            "environment.launch_parameters",
        ),
        ({"scorer_timeout_sec": 3}, "scorer_timeout_sec"),
    ],
)
def test_a_difference_names_its_field_and_can_be_sent(fields: dict[str, Any], place: str) -> None:
    wanted = request(**fields)
    differences = comparison.scenario_differences(scenario("true"), wanted)
    assert [each for each, _, _ in differences] == [place]
    sent = comparison.scenario_change(wanted, differences).model_dump(exclude_none=True)
    assert len(sent) == 1


def test_scorers_differ_by_name_and_by_order() -> None:
    two = [
        {"name": "a", "weight": 0.5, "scorer": COMMAND},
        {"name": "b", "weight": 0.5, "scorer": {**COMMAND, "command": "false"}},
    ]
    old = scenario("true", scoring_contract={"scoring_function_parameters": two})
    swapped = request(scoring_contract={"scoring_function_parameters": two[::-1]})
    assert [place for place, _, _ in comparison.scenario_differences(old, swapped)] == ["scorers"]
    gone = comparison.scenario_differences(old, request())
    assert [place for place, _, _ in gone] == ["scorers.a", "scorers.b"]


def test_rules_in_metadata_are_the_fields_they_stand_for() -> None:
    view = scenario("true", metadata={"benchyard.scoring": "live", "a": "b"}, scoring_isolation="live")
    assert comparison.scenario_differences(view, request(scoring_isolation="live", metadata={"a": "b"})) == []


def test_dropped_fields_are_cleared() -> None:
    view = scenario(
        "true",
        metadata={"a": "b"},
        nop_score=0.5,
        answer_paths=["a"],
        required_secret_names=["S"],
        scorer_timeout_sec=5,
    )
    wanted = request(reference_output=None)
    differences = comparison.scenario_differences(view, wanted)
    assert comparison.scenario_change(wanted, differences).model_dump(exclude_none=True) == {
        "answer_paths": [],
        "nop_score": 0.0,
        "required_secret_names": [],
        "scorer_timeout_sec": 1800,
        "reference_output": "",
        "metadata": {},
    }


def test_benchmarks_are_compared_too() -> None:
    view = BenchmarkView(
        id="bmd_1",
        name="x",
        status="active",
        metadata={},
        scenarioIds=["a"],
        scenario_ids=["a"],
        create_time_ms=0,
    )
    assert comparison.benchmark_differences(view, BenchmarkRequest(name="x", scenario_ids=["a"])) == []
    changed = BenchmarkRequest(name="x", scenario_ids=["a", "b"], description="d")
    assert [place for place, _, _ in comparison.benchmark_differences(view, changed)] == [
        "description",
        "scenario_ids",
    ]
