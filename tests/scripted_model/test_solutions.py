"""The scripts that solve what comes with us are complete, told apart, and their commands do what they say."""

import subprocess
from pathlib import Path

import pytest

from benchyard.benchmarks import builtin_benchmarks
from benchyard.benchmarks.files import benchmark_file
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.errors import ScenarioError
from benchyard.scripted_model import RunningModel, Script, failing, solving
from tests.scripted_model.asking import DIALECTS, ask, said

SCRIPTS = {script.name: script for script in solving()}


def drafts() -> list[ScenarioDraft]:
    (folder,) = builtin_benchmarks.folders()
    return [
        each for each in benchmark_file.read_benchmark(folder).scenarios if isinstance(each, ScenarioDraft)
    ]


def test_there_is_one_for_each_scenario() -> None:
    assert list(SCRIPTS) == [draft.request.name for draft in drafts()]
    assert [script.name for script in failing()] == list(SCRIPTS)
    assert [script.name for script in solving(names=["quickstart/fix-a-bug"])] == ["quickstart/fix-a-bug"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_problem_statement_finds_its_solution(dialect: str) -> None:
    with RunningModel(solving()) as model:
        for draft in drafts():
            statement = draft.request.input_context.problem_statement
            for prompt in (statement, f"Solve this: {statement.strip()}\n\nNotes follow."):
                answer = ask(model.url, dialect, prompt, results=1).json()
                ((_, arguments),) = said(dialect, answer).calls
                assert arguments["command"] == SCRIPTS[draft.request.name].steps[1].shell
                assert model.ledger.entries[-1].script == draft.request.name


def run(script: Script, folder: Path) -> str:
    """Run the commands of a script, as if the working directory of its scenario were this folder."""
    folder.mkdir(exist_ok=True)
    output = ""
    for step in script.steps:
        for command in step.commands:
            local = command.replace("/tmp/", f"{folder.parent}/").replace("/home/user/project", str(folder))
            ended = subprocess.run(
                ["sh", "-c", local], cwd=folder, capture_output=True, text=True, timeout=60, check=False
            )
            assert ended.returncode == 0, ended.stderr
            output += ended.stdout
    return output


def prepared(name: str, folder: Path) -> Path:
    (quickstart,) = builtin_benchmarks.folders()
    folder.mkdir()
    for file in (quickstart / name / "project").glob("*"):
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    return folder


def test_a_script_of_a_solution_is_run(tmp_path: Path) -> None:
    folder = prepared("merge-the-lists", tmp_path / "project")
    run(SCRIPTS["quickstart/merge-the-lists"], folder)
    assert (folder / "guests.txt").read_text().splitlines()[:3] == ["Aino", "Bo", "Cleo"]
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


@pytest.mark.parametrize(
    ("name", "file", "piece"),
    [
        ("fix-a-bug", "days.py", "sum(LENGTHS[: month - 1])"),
        ("undo-a-change", "jobs.py", "heapq.heappush"),
    ],
)
def test_a_diff_is_applied_forwards_or_backwards(name: str, file: str, piece: str, tmp_path: Path) -> None:
    folder = prepared(name, tmp_path / "project")
    assert piece not in (folder / file).read_text()
    run(SCRIPTS[f"quickstart/{name}"], folder)
    assert piece in (folder / file).read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


def test_failing_script_changes_nothing(tmp_path: Path) -> None:
    folder = prepared("fix-a-bug", tmp_path / "project")
    before = (folder / "days.py").read_bytes()
    run(failing(names=["quickstart/fix-a-bug"])[0], folder)
    assert [path.name for path in folder.iterdir()] == ["days.py"]
    assert (folder / "days.py").read_bytes() == before


def test_commands_hold_nothing_that_agents_refuse() -> None:
    for script in SCRIPTS.values():
        for step in script.steps:
            for command in step.commands:
                # gemini-cli refuses commands in commands, codex what is forced.
                assert "$(" not in command
                assert "rm -f" not in command
                assert "`" not in command


SCENARIO = """\
name: {name}
environment: {{working_directory: /home/user/project}}
scorers: [{{name: s, type: command_scorer, command: "true"}}]
"""


def benchmark(folder: Path, **statements: str) -> Path:
    names = "\n".join(f"  - {name}" for name in statements)
    (folder / "benchmark.yaml").write_text(f"name: b\nscenarios:\n{names}\n")
    for name, statement in statements.items():
        (folder / name).mkdir()
        (folder / name / "problem.md").write_text(statement)
        (folder / name / "scenario.yaml").write_text(SCENARIO.format(name=name))
        (folder / name / "reference.sh").write_text("echo `id` $(date) > made")
    return folder


def test_an_answer_that_is_expected_is_written_where_it_belongs(tmp_path: Path) -> None:
    folder = benchmark(tmp_path, one="What is six times seven?")
    (folder / "one" / "reference.sh").unlink()
    (folder / "one" / "reference.txt").write_text("it's `42`, $(really)")
    more = "validation_type: EVALUATION\nisolation: answer\nanswer_paths: [out/answer.txt]\n"
    file = folder / "one" / "scenario.yaml"
    file.write_text(file.read_text() + more)
    run(solving(folder)[0], tmp_path / "project")
    assert (tmp_path / "project" / "out" / "answer.txt").read_text() == "it's `42`, $(really)"
    file.write_text(file.read_text().replace("answer_paths: [out/answer.txt]", "answer_paths: [a, b]"))
    with pytest.raises(ScenarioError, match="belongs"):
        solving(folder)


def test_any_script_is_written_as_it_is(tmp_path: Path) -> None:
    run(solving(benchmark(tmp_path, one="Do it."))[0], tmp_path / "project")
    assert "uid=" in (tmp_path / "project" / "made").read_text()


def test_statements_that_look_the_same_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="part of"):
        solving(benchmark(tmp_path, one="Do it.", two="First look. Do  it."))


def test_a_scenario_without_a_reference_output_is_refused(tmp_path: Path) -> None:
    folder = benchmark(tmp_path, one="Do it.")
    (folder / "one" / "reference.sh").unlink()
    with pytest.raises(ScenarioError, match="no reference output"):
        solving(folder)
