"""Every field of a scenario is known wherever scenarios are: on the wire, in folders and in Harbor tasks."""

import json
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from benchyard.benchmarks.files import comparison
from benchyard.benchmarks.files.scenario_file import ScenarioFile
from benchyard.benchmarks.harbor import export
from benchyard.benchmarks.harbor.unmapped_parts import BenchyardTable
from benchyard.client.request_fields import ScenarioChanges, ScenarioFields
from benchyard.engine.scenarios.scoring_rules import rules_from
from benchyard.models.scenarios import (
    NOTES,
    RULES,
    RULES_IN_METADATA,
    FolderOptions,
    Scenario,
    ScenarioChange,
    ScenarioOptions,
    ScenarioRequest,
    ScenarioView,
    TaskOptions,
)
from tests.benchmarks import exports
from tests.benchmarks.files import test_writer
from tests.benchmarks.files.test_comparison import request
from tests.models.scoring.test_references import scenario

SAMPLES: dict[str, Any] = {
    "validated_isolation": {"isolation": "system", "failed": {"answer": "it is more than a file"}},
    "answer_paths": ["report"],
    "answer_excludes": ["report/old"],
    "nop_score": 0.5,
    "scoring_secrets": {"TOKEN": "MY_TOKEN"},
    "scoring_tracing": True,
    "required_secret_names": ["MODEL_KEY"],
    "scorer_timeout_sec": 77,
    "agent_timeout_sec": 88.5,
    "tries": 2,
    "retry_prompt": "Again:\n{output}\n",
    "scoring_network": "host",
    "agent_network_policy": "closed",
    "collect_commands": [{"command": "make report", "user": "root", "timeout_sec": 5.0}],
    "validation_type": "REVERSE",
    "required_environment_variables": ["MODEL"],
    "reward_strategy": "final",
    "scoring_isolation": "system",
    "scoring_blueprint_id": "bpt_1",
    "attachments": {"tests": "obj_1"},
    "reference_output": "make\n",
    "steps": [{"name": "first", "problem_statement": "Begin."}],
}
"""A value of each optional field, other than what leaving it out means."""
EVERY = pytest.mark.parametrize("name", sorted(NOTES))
OF_FOLDERS = pytest.mark.parametrize("name", sorted(FolderOptions.model_fields))
OF_TASKS = pytest.mark.parametrize("name", sorted(TaskOptions.model_fields))
OF_RULES = pytest.mark.parametrize("name", sorted(RULES))


def sample(name: str) -> Any:
    """The sample as a model of the wire holds it."""
    return getattr(ScenarioOptions.model_validate({name: SAMPLES[name]}), name)


def test_each_field_has_a_sample() -> None:
    assert SAMPLES.keys() == NOTES.keys()
    assert [name for name, value in SAMPLES.items() if value == NOTES[name].default] == []


def test_the_wire_has_each_field() -> None:
    own = {"name", "input_context", "scoring_contract", "environment_parameters", "metadata"}
    assert ScenarioRequest.model_fields.keys() == ScenarioChange.model_fields.keys() == own | NOTES.keys()
    for shown in (Scenario, ScenarioView):
        assert shown.model_fields.keys() >= NOTES.keys()


def test_python_users_can_give_each_field() -> None:
    assert get_type_hints(ScenarioFields).keys() == ScenarioRequest.model_fields.keys()
    assert get_type_hints(ScenarioChanges).keys() == ScenarioChange.model_fields.keys()


@OF_RULES
def test_each_rule_can_be_given_as_metadata(name: str) -> None:
    (key,) = [key for key, field in RULES_IN_METADATA.items() if field == name]
    text = SAMPLES[name] if isinstance(SAMPLES[name], str) else json.dumps(SAMPLES[name])
    found = ScenarioOptions.model_validate(rules_from({key: text}, ScenarioOptions()))
    assert found == ScenarioOptions.model_validate({name: SAMPLES[name]})


@OF_FOLDERS
def test_a_folder_keeps_the_field(name: str, tmp_path: Path) -> None:
    view = scenario("true", **{name: sample(name)})
    assert getattr(test_writer.written(tmp_path / "it", view).request, name) == sample(name)


@EVERY
def test_a_folder_has_the_field_or_a_note_says_why_not(name: str) -> None:
    assert (name in FolderOptions.model_fields) == (NOTES[name].folder is None)
    assert name not in FolderOptions.model_fields or name in ScenarioFile.model_fields


@EVERY
def test_a_push_shows_and_sends_the_field(name: str) -> None:
    there, wanted = scenario("true"), request(**{name: sample(name)})
    differences = comparison.scenario_differences(there, wanted)
    assert {place.partition(".")[0] for place, _, _ in differences} == {name}
    change = comparison.scenario_change(wanted, differences)
    assert change.model_dump(exclude_none=True).keys() == {name}
    assert getattr(change, name) == sample(name)


@EVERY
def test_the_default_of_a_field_left_out_is_not_a_difference(name: str) -> None:
    there = scenario("true", **{"reference_output": None, name: NOTES[name].default})
    assert comparison.scenario_differences(there, request(reference_output=None)) == []


@OF_TASKS
def test_a_task_keeps_the_field(name: str, tmp_path: Path) -> None:
    scorer = {"type": "command_scorer", "command": "true"}
    view = exports.scenario([scorer], **{name: sample(name)})
    folder = exports.written(export.make_task(view, export.ExportParts()), tmp_path / "task")
    assert getattr(exports.read(folder, tmp_path / "work").request, name) == sample(name)


@EVERY
def test_a_task_has_the_field_or_a_note_says_where_it_went(name: str) -> None:
    assert name in TaskOptions.model_fields or NOTES[name].harbor is not None
    assert name not in TaskOptions.model_fields or name in BenchyardTable.model_fields
