"""Folders of scenarios: what they may name, and what they may not."""

import os
from pathlib import Path

import pytest
import yaml

from benchyard.benchmarks.files import scenario_draft
from benchyard.benchmarks.files.scenario_draft import EnvironmentOrigin, StartingFile, writing_command
from benchyard.errors import TooLarge, UsageError
from benchyard.models.scoring.attachments import PackedFile, unpack_files
from tests.benchmarks.writer import MINIMAL, folder, put

WHOLE = """\
name: everything
additional_context: {level: 3}
environment:
  blueprint: tools
  working_directory: /srv/app
  files:
    - file: start
      to: src
    - data/table.csv
  launch_parameters:
    launch_commands: [make prepare]
    keep_alive_time_seconds: 600
scorers:
  - {name: a, type: bash_script_scorer, weight: 0.1, file: scorers/a.sh}
  - {name: b, type: command_scorer, weight: 0.1, command: make check}
  - {name: c, type: python_script_scorer, weight: 0.2, file: scorers/c.py, requirements_file: needs.txt}
  - {name: d, type: ast_grep_scorer, weight: 0.2, pattern: f($X), search_directory: src, lang: python}
  - name: e
    type: test_based_scorer
    weight: 0.2
    test_command: pytest
    test_files: [{file_path: inline.py, file_contents: "assert True\\n"}]
    files: [tests, {file: tests/one.py, to: /opt/again.py}]
  - name: f
    type: custom_scorer
    weight: 0.2
    custom_scorer_type: mine
    file: scorers/f.sh
    scorer_params: {n: 1}
isolation: answer
answer_paths: [src, /tmp/out]
nop_score: 0.1
scoring_network: host
scoring_secrets: {TOKEN: MY_TOKEN}
validation_type: FORWARD
required_environment_variables: [A]
required_secret_names: [B]
scorer_timeout_sec: 60
metadata: {kind: test}
"""


def whole(place: Path) -> Path:
    made = folder(place, WHOLE)
    files = {
        "start/main.py": "print(1)\n",
        "start/deep/er.txt": "x",
        "data/table.csv": "a,b\r\n",
        "scorers/a.sh": "echo 1\n",
        "scorers/c.py": "print(1)\n",
        "scorers/f.sh": "echo 0.5\n",
        "needs.txt": "numpy\n",
        "tests/one.py": "1\n",
        "tests/sub/two.py": "2\n",
        "reference.patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
    }
    for name, content in files.items():
        put(made, name, content)
    (made / "start/main.py").chmod(0o755)
    return made


STEPPED = """\
name: in steps
scorers:
  - {name: check, type: command_scorer, command: make check}
steps:
  - name: first
    setup: make first
    setup_as_root: true
    min_reward: {safe: 1}
    files: [{file: t.py, to: given/t.py}]
  - name: second
    problem: more.md
    reference: solve.sh
    agent_timeout_sec: 60
    min_reward: 0.5
    scorers:
      - {name: own, type: custom_scorer, custom_scorer_type: mine, file: own.sh, weight: 0.5}
      - {name: tests, type: test_based_scorer, test_command: make t, files: [t.py], weight: 0.5}
reward_strategy: final
"""


def stepped(place: Path) -> Path:
    made = folder(place, STEPPED)
    files = {
        "steps/first/problem.md": "Do the first.\n",
        "steps/first/reference.sh": "make it\n",
        "more.md": "Do more.\n",
        "solve.sh": "make more\n",
        "own.sh": "echo 1\n",
        "t.py": "1\n",
    }
    for name, content in files.items():
        put(made, name, content)
    return made


def test_steps_have_their_own_files(tmp_path: Path) -> None:
    draft = scenario_draft.read_scenario(stepped(tmp_path / "it"))
    first, second = draft.request.steps or []
    assert (first.problem_statement, first.reference_output) == ("Do the first.\n", "make it\n")
    assert (first.setup, first.setup_as_root, first.min_reward) == ("make first", True, {"safe": 1})
    assert (first.scoring_contract, first.files) == (None, None)
    assert dict(unpack_files(draft.step_files["first"])) == {"given/t.py": PackedFile(b"1\n")}
    assert (second.problem_statement, second.reference_output) == ("Do more.\n", "make more\n")
    assert second.scoring_contract is not None
    own, tests = second.scoring_contract.scoring_function_parameters
    assert (own.name, tests.scorer["test_files"]) == (
        "own",
        [{"file_path": "t.py", "file_contents": "1\n"}],
    )
    assert (draft.request.reward_strategy, draft.custom_scorers) == ("final", {"mine": "echo 1\n"})


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("tries: 9", "tries"),
        ("tries: 2\nsteps: [{name: x}]", "either `steps` or several `tries`"),
        ("steps: [{name: x}]", "there is no file steps/x/problem.md"),
        ("steps: [{name: x, problem: problem.md, files: [{file: problem.md, to: /x}]}]", "working directory"),
        ("steps: [{name: x, scorer: []}]", "did you mean `scorers`"),
    ],
)
def test_invalid_rounds_are_refused_with_their_line(tmp_path: Path, said: str, told: str) -> None:
    text = yaml.safe_dump(MINIMAL) + said + "\n"
    with pytest.raises(UsageError, match=r"scenario.yaml:\d+: ") as caught:
        scenario_draft.read_scenario(folder(tmp_path / "it", text))
    assert told in caught.value.message


def test_a_whole_folder_becomes_a_request(tmp_path: Path) -> None:
    draft = scenario_draft.read_scenario(whole(tmp_path / "it"))
    request = draft.request
    assert draft.origin == EnvironmentOrigin("blueprint", "tools")
    assert draft.custom_scorers == {"mine": "echo 0.5\n"}
    assert request.input_context.model_dump() == {
        "problem_statement": "Do it.\n",
        "additional_context": {"level": 3},
    }
    environment = request.environment_parameters
    assert environment is not None
    assert environment.launch_parameters is not None
    assert environment.launch_parameters.keep_alive_time_seconds == 600
    assert environment.launch_parameters.launch_commands == [
        writing_command(StartingFile("src/main.py", b"print(1)\n", 0o755), "/srv/app"),
        writing_command(StartingFile("src/deep/er.txt", b"x"), "/srv/app"),
        writing_command(StartingFile("data/table.csv", b"a,b\r\n"), "/srv/app"),
        "make prepare",
    ]
    scorers = {
        parameter.name: parameter.scorer for parameter in request.scoring_contract.scoring_function_parameters
    }
    assert scorers["a"] == {"type": "bash_script_scorer", "bash_script": "echo 1\n"}
    assert scorers["c"]["requirements_contents"] == "numpy\n"
    assert scorers["d"] == {
        "type": "ast_grep_scorer",
        "pattern": "f($X)",
        "search_directory": "src",
        "lang": "python",
    }
    assert scorers["e"]["test_files"] == [
        {"file_path": "inline.py", "file_contents": "assert True\n"},
        {"file_path": "tests/one.py", "file_contents": "1\n"},
        {"file_path": "tests/sub/two.py", "file_contents": "2\n"},
        {"file_path": "/opt/again.py", "file_contents": "1\n"},
    ]
    assert scorers["f"] == {
        "type": "custom_scorer",
        "custom_scorer_type": "mine",
        "scorer_params": {"n": 1},
    }
    assert (request.scoring_isolation, request.answer_paths) == ("answer", ["src", "/tmp/out"])
    assert (request.nop_score, request.scoring_network) == (0.1, "host")
    assert request.reference_output is not None
    assert request.reference_output.startswith("--- a/x")


def test_the_smallest_folder_is_enough(tmp_path: Path) -> None:
    draft = scenario_draft.read_scenario(folder(tmp_path / "it"))
    assert draft.origin == EnvironmentOrigin()
    assert draft.request.reference_output is None
    assert draft.request.scoring_contract.scoring_function_parameters[0].weight == 1.0


def refused(place: Path) -> str:
    with pytest.raises(UsageError) as caught:
        scenario_draft.read_scenario(place)
    return caught.value.message


def with_scorer(place: Path, **fields: object) -> Path:
    scorer = {"name": "check", "type": "bash_script_scorer", **fields}
    return folder(place, yaml.safe_dump({**MINIMAL, "scorers": [scorer]}, sort_keys=False))


@pytest.mark.parametrize("path", ["../outside.sh", "/etc/passwd", "a/../../outside.sh", "scorers/\0"])
def test_a_path_that_leads_out_is_refused_with_its_line(tmp_path: Path, path: str) -> None:
    put(tmp_path, "outside.sh", "echo 1")
    said = refused(with_scorer(tmp_path / "it", file=path))
    assert "scenario.yaml:5: scorers.0.file: must be a path inside the folder" in said


def test_links_out_of_the_folder_are_refused_and_those_inside_are_not(tmp_path: Path) -> None:
    put(tmp_path, "secret.sh", "echo 1")
    made = with_scorer(tmp_path / "it", file="check.sh")
    (made / "check.sh").symlink_to("../secret.sh")
    said = refused(made)
    assert "scenario.yaml:5: " in said
    assert "a link leads out of the folder" in said
    (made / "check.sh").unlink()
    put(made, "real.sh", "echo 1")
    (made / "check.sh").symlink_to("real.sh")
    assert scenario_draft.read_scenario(made).request.name == "a task"
    (made / "problem.md").unlink()
    (made / "problem.md").symlink_to("/etc/hostname")
    assert "a link leads out" in refused(made)


def test_folders_that_are_links_out_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "outside/a.txt", "x")
    text = yaml.safe_dump({**MINIMAL, "environment": {"files": ["inner"]}})
    made = folder(tmp_path / "it", text)
    (made / "inner").symlink_to(tmp_path / "outside")
    assert "a link leads out" in refused(made)
    (made / "inner").unlink()
    (made / "inner").mkdir()
    (made / "inner" / "a.txt").symlink_to(tmp_path / "outside/a.txt")
    assert "a link leads out" in refused(made)


def test_main_files_that_are_links_out_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "other.yaml", "name: x\n")
    made = folder(tmp_path / "it")
    (made / "scenario.yaml").unlink()
    (made / "scenario.yaml").symlink_to(tmp_path / "other.yaml")
    assert "a link leads out" in refused(made)


def test_pipe_or_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    made = with_scorer(tmp_path / "it", file="check.sh")
    os.mkfifo(made / "check.sh")
    assert "this is not a file" in refused(made)
    (made / "check.sh").unlink()
    (made / "check.sh").mkdir()
    assert "check.sh" in refused(made)


def test_huge_files_are_refused_without_being_read_whole(tmp_path: Path) -> None:
    made = with_scorer(tmp_path / "it", file="check.sh")
    with (made / "check.sh").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(TooLarge, match=r"scenario.yaml:5: .*larger than 1048576 bytes"):
        scenario_draft.read_scenario(made)
    put(made, "check.sh", "echo 1")
    with (made / "problem.md").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(TooLarge):
        scenario_draft.read_scenario(made)
    put(made, "problem.md", "x")
    with (made / "scenario.yaml").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(TooLarge):
        scenario_draft.read_scenario(made)


def test_starting_files_and_test_files_are_bounded(tmp_path: Path) -> None:
    text = yaml.safe_dump({**MINIMAL, "environment": {"files": ["big.bin"]}})
    made = folder(tmp_path / "a", text)
    put(made, "big.bin", b"\0" * 70_000)
    with pytest.raises(TooLarge, match=r"big\.bin"):
        scenario_draft.read_scenario(made)
    many = folder(tmp_path / "b", yaml.safe_dump({**MINIMAL, "environment": {"files": ["many"]}}))
    (many / "many").mkdir()
    for number in range(1001):
        (many / "many" / str(number)).touch()
    assert "more than 1000 files" in refused(many)


def test_invalid_text_is_refused(tmp_path: Path) -> None:
    made = folder(tmp_path / "it")
    put(made, "problem.md", b"\xff\xfe")
    assert "not UTF-8" in refused(made)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"isolation": "answer"}, "isolation: `answer` needs `answer_paths`"),
        ({"metadata": {"benchyard.scoring": "live"}}, "write `isolation:` instead of `benchyard.scoring`"),
        ({"problem": "no.md"}, "there is no file no.md"),
        ({"reference": "no.sh"}, "no.sh: No such file"),
        (
            {"environment": {"launch_parameters": {"lunch_commands": []}}},
            "environment.launch_parameters: unknown key `lunch_commands`; did you mean `launch_commands`?",
        ),
        (
            {"environment": {"launch_parameters": {"after_idle": {"idle_time_seconds": 5, "on": "x"}}}},
            "on_idle",
        ),
    ],
)
def test_contradiction_is_refused_with_its_line(tmp_path: Path, more: dict[str, object], said: str) -> None:
    message = refused(folder(tmp_path / "it", yaml.safe_dump({**more, **MINIMAL}, sort_keys=False)))
    assert "scenario.yaml:" in message
    assert said in message


def test_two_references_are_one_too_many(tmp_path: Path) -> None:
    made = folder(tmp_path / "it")
    put(made, "reference.sh", "true")
    put(made, "reference.patch", "x")
    assert "keep one of reference.patch and reference.sh" in refused(made)


def test_missing_folder_or_file_is_refused(tmp_path: Path) -> None:
    assert "there is no folder" in refused(tmp_path / "no")
    (tmp_path / "empty").mkdir()
    assert "benchyard scenario new" in refused(tmp_path / "empty")
