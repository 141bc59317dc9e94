"""Folders that are written, read again, and ask for the same."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchyard.benchmarks.files import comparison, scenario_draft
from benchyard.benchmarks.files.scenario_draft import EnvironmentOrigin, StartingFile, writing_command
from benchyard.benchmarks.files.writer import dump_yaml, scenario_contents, slug, write_scenario
from benchyard.models.scenarios import ScenarioView
from tests.benchmarks.files.test_scenario_draft import stepped, whole
from tests.models.scoring.test_references import DIFF, scenario

HOSTILE = [
    "/etc/passwd",
    "../../escape.py",
    "a/../../b.py",
    "/",
    ".",
    "x" * 300,
    "a\nb",
    "~/.ssh/config",
    "con\x07",
]


def written(
    place: Path, view: ScenarioView, origin: EnvironmentOrigin | None = None
) -> scenario_draft.ScenarioDraft:
    """A scenario that was written to a folder and read again."""
    write_scenario(place, scenario_contents(view, origin or EnvironmentOrigin(), {}))
    return scenario_draft.read_scenario(place)


def kept(draft: scenario_draft.ScenarioDraft) -> ScenarioView:
    """What a server makes of a draft."""
    fields = draft.request.model_dump(exclude={"environment_parameters", "metadata"}, exclude_none=True)
    return ScenarioView(
        **fields,
        environment=draft.request.environment_parameters,
        metadata=draft.request.metadata or {},
        id="scn_1",
        status="active",
        create_time_ms=0,
    )


def test_a_whole_scenario_comes_back(tmp_path: Path) -> None:
    draft = scenario_draft.read_scenario(whole(tmp_path / "one"))
    view = kept(draft)
    write_scenario(tmp_path / "two", scenario_contents(view, draft.origin, draft.custom_scorers))
    again = scenario_draft.read_scenario(tmp_path / "two")
    assert comparison.scenario_differences(view, again.request) == []
    assert (again.origin, again.custom_scorers) == (draft.origin, draft.custom_scorers)
    assert (tmp_path / "two/environment/files/src/main.py").stat().st_mode & 0o100
    assert yaml.safe_load((tmp_path / "two/scenario.yaml").read_text())["environment"]["files"][0] == {
        "file": "environment/files/src/main.py",
        "to": "src/main.py",
    }


def test_steps_come_back(tmp_path: Path) -> None:
    draft = scenario_draft.read_scenario(stepped(tmp_path / "one"))
    view = kept(draft)
    write_scenario(tmp_path / "two", scenario_contents(view, draft.origin, draft.custom_scorers))
    again = scenario_draft.read_scenario(tmp_path / "two")
    assert comparison.scenario_differences(view, again.request) == []
    assert again.custom_scorers == draft.custom_scorers
    assert again.request.steps == draft.request.steps
    (first, second) = again.request.steps or []
    changed = again.request.model_copy(update={"steps": [second, first], "tries": 1})
    ((place, *_),) = comparison.scenario_differences(view, changed)
    assert place == "steps"
    changed = again.request.model_copy(update={"steps": None})
    differences = comparison.scenario_differences(view, changed)
    assert [place for place, _, _ in differences] == ["steps.first", "steps.second"]
    assert comparison.scenario_change(changed, differences).steps == []


def test_tries_come_back(tmp_path: Path) -> None:
    view = scenario(DIFF, tries=2, retry_prompt="Again:\n{output}\n")
    request = written(tmp_path / "it", view).request
    assert (request.tries, request.retry_prompt) == (2, "Again:\n{output}\n")
    assert comparison.scenario_differences(view, request) == []


def test_files_of_tests_stay_inside_whatever_they_are_called(tmp_path: Path) -> None:
    files = [{"file_path": path, "file_contents": path} for path in HOSTILE]
    scorer = {"type": "test_based_scorer", "test_command": "true", "test_files": files}
    view = with_scorer("x", scorer)
    write_scenario(tmp_path / "it", scenario_contents(view, EnvironmentOrigin(), {}))
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert all(name.startswith("it") for name in found)
    again = scenario_draft.read_scenario(tmp_path / "it")
    (function,) = again.request.scoring_contract.scoring_function_parameters
    assert function.scorer["test_files"] == files


def test_starting_files_stay_inside_and_other_commands_stay_as_they_are(tmp_path: Path) -> None:
    commands = [
        *(
            writing_command(StartingFile(path, path.encode()), None)
            for path in HOSTILE
            if path not in ("/", ".")
        ),
        "echo between",
        writing_command(StartingFile("late.txt", b"x"), None),
    ]
    view = scenario("true", environment={"launch_parameters": {"launch_commands": commands}})
    again = written(tmp_path / "it", view)
    assert comparison.scenario_differences(view, again.request) == []
    assert all(path.name == "it" for path in tmp_path.iterdir())


def test_folders_are_written_over_links_not_through_them(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "problem.md").write_text("mine")
    place = tmp_path / "it"
    place.mkdir()
    (place / "problem.md").symlink_to(outside / "problem.md")
    (place / "scorers").symlink_to(outside)
    (place / "reference.patch").write_text("old")
    view = with_scorer("echo 1\necho 1\n", None)
    again = written(place, view)
    assert (outside / "problem.md").read_text() == "mine"
    assert [path.name for path in outside.iterdir()] == ["problem.md"]
    assert again.request.reference_output == "true"


def with_scorer(script: str, scorer: dict[str, Any] | None) -> ScenarioView:
    scorer = scorer or {"type": "bash_script_scorer", "bash_script": script}
    functions = [{"name": "one", "weight": 1.0, "scorer": scorer}]
    return scenario("true", scoring_contract={"scoring_function_parameters": functions})


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=200)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    script=TEXT, statement=TEXT, reference=TEXT, metadata=st.dictionaries(TEXT, TEXT, max_size=3), name=TEXT
)
def test_any_text_comes_back(
    tmp_path: Path, script: str, statement: str, reference: str, metadata: dict[str, str], name: str
) -> None:
    scorer = {"type": "bash_script_scorer", "bash_script": script}
    functions = [
        {"name": "one", "weight": 0.5, "scorer": scorer},
        {"name": "one", "weight": 0.5, "scorer": scorer},
    ]
    view = scenario(
        reference,
        name="".join(char for char in name if char.isprintable()) or "x",
        input_context={"problem_statement": statement, "additional_context": {"a": [statement, None, 1.5]}},
        scoring_contract={"scoring_function_parameters": functions},
        metadata=metadata,
    )
    again = written(tmp_path / "it", view)
    assert comparison.scenario_differences(view, again.request) == []


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | TEXT,
        lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
        max_leaves=8,
    )
)
def test_dumped_value_loads_unchanged(value: Any) -> None:
    assert yaml.safe_load(dump_yaml(value)) == value


@pytest.mark.parametrize(
    ("text", "name"),
    [("a b/c", "a-b-c"), ("..", "unnamed"), ("", "unnamed"), ("Über 3", "ber-3"), ("x" * 500, "x" * 100)],
)
def test_names_of_files_are_harmless(text: str, name: str) -> None:
    assert slug(text) == name


def test_a_diff_is_a_patch_and_all_else_a_script(tmp_path: Path) -> None:
    written(tmp_path / "a", scenario(DIFF))
    written(tmp_path / "b", scenario("echo"))
    assert (tmp_path / "a/reference.patch").read_text() == DIFF
    assert (tmp_path / "b/reference.sh").read_text() == "echo"
