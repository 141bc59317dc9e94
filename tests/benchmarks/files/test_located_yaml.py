"""YAML with lines: what is wrong is said with where it is."""

from pathlib import Path

import pytest

from benchyard.benchmarks.files import located_values
from benchyard.benchmarks.files.scenario_file import ScenarioFile
from benchyard.errors import UsageError

PATH = Path("scenario.yaml")

GOOD = """\
name: a task
environment:
  working_directory: /home/user
  launch_parameters:
    resource_size_request: SMALL
scorers:
  - name: one
    type: command_scorer
    weight: 0.5
    command: "true"
  - name: two
    type: bash_script_scorer
    weight: 0.5
    bash_script: echo 1
isolation: clean
metadata:
  kind: test
"""


def told(text: str) -> str:
    """What is said about a file that is wrong."""
    with pytest.raises(UsageError) as caught:
        located_values.validate(located_values.read_yaml(PATH, text), ScenarioFile)
    return caught.value.message


def test_a_good_file_is_read() -> None:
    found = located_values.validate(located_values.read_yaml(PATH, GOOD), ScenarioFile)
    assert [scorer.name for scorer in found.scorers] == ["one", "two"]
    assert found.isolation == "clean"


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("name: a task\n", "", 1, "name: this is missing"),
        ("name: a task", "name: 7", 1, "in quotes"),
        ("name: a task", "name: ''", 1, "at least 1 character"),
        ("isolation: clean", "isolaton: clean", 15, "did you mean `isolation`?"),
        ("isolation: clean", "colour: red", 15, "unknown key `colour`; known are: additional_context, "),
        ("isolation: clean", "isolation: lively", 15, "'auto', 'answer', 'system', 'clean' or 'live'"),
        ("    command:", "    comand:", 10, "scorers.0: unknown key `comand`; did you mean `command`?"),
        ('    command: "true"\n', "", 7, "scorers.0: give either `command` or `file`"),
        (
            "    bash_script: echo 1",
            "    bash_script: echo 1\n    bash_scrip: echo 2",
            15,
            "scorers.1: unknown key",
        ),
        (
            "    bash_script: echo 1",
            "    bash_script: echo 1\n    file: a.sh",
            11,
            "either `bash_script` or `file`",
        ),
        ("type: command_scorer", "type: comand_scorer", 7, "did you mean `command_scorer`?"),
        ("    weight: 0.5\n    command", "    weight: 0.4\n    command", 6, "add up to 0.9"),
        ("    weight: 0.5\n    command", "    command", 6, "needs a `weight`"),
        ("    weight: 0.5\n    command", "    weight: -1\n    command", 9, "scorers.0.weight: "),
        ("    weight: 0.5\n    command", '    weight: "1"\n    command', 9, "must be a number"),
        (
            "  working_directory: /home/user",
            "  working_dir: /home/user",
            3,
            "did you mean `working_directory`?",
        ),
        ("resource_size_request: SMALL", "resource_size_request: TINY", 5, "'SMALL'"),
        (
            "  working_directory:",
            "  snapshot: a\n  image: b\n  working_directory:",
            2,
            "one of snapshot, image",
        ),
        ("  kind: test", "  kind: 3", 17, "in quotes"),
        ("  kind: test", "  kind: test\n  kind: test", 18, "`kind` is here twice"),
        ("  kind: test", "  kind: &a test\n  more: *a", 18, "aliases"),
        ("  kind: test", "  <<: {a: b}", 17, "plain word"),
        ("  kind: test", "  kind: [unclosed", 18, "expected"),
        ("  kind: test", "\tkind: test", 17, "cannot start any token"),
    ],
)
def test_a_mistake_is_reported_with_its_line(old: str, new: str, line: int, said: str) -> None:
    assert old in GOOD
    message = told(GOOD.replace(old, new, 1))
    assert message.startswith(f"scenario.yaml:{line}: "), message
    assert said in message, message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "scenario.yaml:1: the file is empty"),
        ("- a\n- b\n", "scenario.yaml:1: "),
        ("just text", "scenario.yaml:1: "),
        ("a: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("a: b\n--- \nc: d", "expected a single document"),
        ("a: \0", "not valid YAML"),
        ("[" * 100_000, "scenario.yaml:1: it is nested too deeply"),
        ("a: 2024-13-45", "not valid YAML"),
    ],
)
def test_invalid_scenario_file_is_refused(text: str, said: str) -> None:
    assert said in told(text)


def test_all_mistakes_are_reported_up_to_a_limit() -> None:
    message = told(
        "name: ''\nscorers: []\nisolation: x\nnop_score: 7\nscorer_timeout_sec: 0\nmetadata: 1\n"
        "reference: /x\n"
    )
    assert message.count("scenario.yaml:") == 5
    assert message.endswith("... and 2 more")


def test_many_aliases_do_not_grow() -> None:
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))
    assert "aliases" in told(f"a0: &a0 [x]\n{levels}\n")
