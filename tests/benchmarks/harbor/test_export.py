"""Scenarios of ours as Harbor task folders: by each kind of scorer, and what they say of themselves."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from benchyard.benchmarks.files.scenario_draft import (
    NetworkAccess,
    PhaseAccess,
    StartingFile,
    writing_command,
)
from benchyard.benchmarks.harbor import export, verifiers
from benchyard.benchmarks.harbor.environments import BASE, FileTree, ImageParts, tree_of
from benchyard.benchmarks.harbor.export import ExportParts
from benchyard.benchmarks.harbor.verifiers import ScorerPrograms
from benchyard.client.benchmark_files import task_export
from benchyard.errors import UsageError
from benchyard.models.scoring.attachments import PackedFile
from benchyard.models.scoring.exports import Attachments
from benchyard.scorers import catalog as scorers
from benchyard.scorers import exports
from benchyard.scorers.polyglot import MOST_FILES
from tests.benchmarks.exports import read, scenario, text, view_of, written
from tests.scorers.polyglot_answers import EXERCISES

WORK = "/home/user/work"
PROGRAMS = ScorerPrograms()
EASY: dict[str, Any] = {"type": "command_scorer", "command": "test -f done.txt"}


def document(tree: FileTree) -> dict[str, Any]:
    return tomllib.loads(text(tree.files["task.toml"]))


def graded(
    tmp_path: Path,
    scorers: list[dict[str, Any]],
    programs: ScorerPrograms = PROGRAMS,
    attachments: Attachments | None = None,
    seconds: float = 60,
) -> Any:
    """What the tests of an export write, run here in a folder of their own."""
    work, logs = tmp_path / "work", tmp_path / "logs"
    work.mkdir(exist_ok=True)
    view = scenario(scorers, environment_parameters={"working_directory": str(work)})
    given = [parameter.scorer for parameter in view.scoring_contract.scoring_function_parameters]
    programs = replace(programs, shipped=task_export.shipped_graders(given, attachments or {}, seconds))
    tree = export.make_task(view, ExportParts(programs=programs))
    folder = written(tree, tmp_path / "task")
    script = folder / "tests/test.sh"
    script.write_text(script.read_text().replace("logs=/logs/verifier\n", f"logs={logs}\n"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", str(script)], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    found = logs / "reward.json"
    return json.loads(found.read_text()) if found.exists() else ran.stderr


def test_scorers_become_tests_that_say_the_same(tmp_path: Path) -> None:
    scorers: list[dict[str, Any]] = [
        {**EASY, "weight": 0.5},
        {"type": "bash_script_scorer", "bash_script": "echo score = 0.5; exit 3", "weight": 0.25},
        {
            "type": "custom_scorer",
            "custom_scorer_type": "mine",
            "scorer_params": {"n": "it's"},
            "weight": 0.125,
        },
        {
            "type": "test_based_scorer",
            "test_command": "grep -q hidden deep/check.txt",
            "test_files": [{"file_path": "deep/check.txt", "file_contents": "hidden\n"}],
            "weight": 0.125,
        },
    ]
    script = 'case "$RL_SCORER_CONTEXT" in *"it\'s"*) echo 1;; *) echo 0;; esac'
    programs = ScorerPrograms(custom={"mine": script})
    assert graded(tmp_path, scorers, programs) == {"reward": 0.375, "s0": 0, "s1": 0.5, "s2": 1, "s3": 1}
    (tmp_path / "work/done.txt").touch()
    assert graded(tmp_path, scorers, programs)["reward"] == 0.875


def test_a_scorer_that_says_no_number_leaves_no_reward(tmp_path: Path) -> None:
    for number, said in enumerate(("echo good", "true", "echo 1.5", "echo nan", "echo 1; echo -0.1")):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = graded(folder, [{"type": "bash_script_scorer", "bash_script": said}])
        assert "not a number from 0 to 1" in found


@pytest.mark.parametrize(
    ("type", "expected", "right", "wrong"),
    [
        ("aime_scorer", {"answer": 204}, "204", "7"),
        ("gpqa_scorer", {"letter": "B"}, "Answer: B", "Answer: C"),
    ],
)
def test_graders_are_shipped_with_what_they_expect(
    tmp_path: Path, type: str, expected: dict[str, Any], right: str, wrong: str
) -> None:
    scorer = {"type": type, "path": "answer.txt", "expected": expected}
    assert graded(tmp_path, [scorer])["reward"] == 0
    (tmp_path / "work/answer.txt").write_text(wrong)
    assert graded(tmp_path, [scorer])["reward"] == 0
    (tmp_path / "work/answer.txt").write_text(right)
    assert graded(tmp_path, [scorer])["reward"] == 1


EXERCISE = {
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.5)\nproject(double NONE)\n"
    "add_custom_target(test ALL COMMAND sh ${CMAKE_SOURCE_DIR}/test.sh VERBATIM)\n",
    "double.cpp": "",
    "test.sh": 'cd "$(dirname "$0")" && [ "$(id -u)" -ne 0 ] && sh double.cpp && [ "$DOUBLED" != no ]\n',
}
"""Its solution is a script: what matters is who runs it, and what counts."""
POLYGLOT = {"type": "polyglot_scorer", "language": "cpp", "exercise": "double", "solution": ["double.cpp"]}


@pytest.mark.parametrize(
    ("answer", "reward"),
    [
        ("echo 'All tests passed (2 assertions in 1 test case)'", 1),
        ("exit 0", 0),
        ("echo 'All tests passed (2 assertions in 1 test case)'; exit 1", 0),
        ("echo ' All tests passed (2 assertions'", 0),
        ("sleep 100", 0),
        (None, 0),
    ],
)
def test_exercises_are_shipped_with_their_tests(tmp_path: Path, answer: str | None, reward: int) -> None:
    if not shutil.which("cmake") or os.geteuid() != 0:
        pytest.skip("needs cmake, and root who becomes nobody")
    attached = {"exercise": {name: PackedFile(text.encode()) for name, text in EXERCISE.items()}}
    (tmp_path / "work").mkdir()
    (tmp_path / "work/test.sh").write_text("echo 'All tests passed (9 assertions in 1 test case)'\n")
    if answer is not None:
        (tmp_path / "work/double.cpp").write_text(answer)
    assert graded(tmp_path, [POLYGLOT], attachments=attached, seconds=5)["reward"] == reward


def test_exported_exercises_take_every_source_and_nothing_that_tools_read(tmp_path: Path) -> None:
    if not shutil.which("cmake") or os.geteuid() != 0:
        pytest.skip("needs cmake, and root who becomes nobody")
    exercise = EXERCISES["cpp"]
    attached = {"exercise": {path: PackedFile(text.encode()) for path, text in exercise.files.items()}}
    scorer = {"type": "polyglot_scorer", **exercise.fields, "tools": "image"}
    stub = {path: text for path, text in exercise.files.items() if path not in exercise.tests}
    many = {f"more/a{at}.hpp": "" for at in range(MOST_FILES + 1)}
    for at, (answer, reward) in enumerate(
        [
            ({**stub, **exercise.good}, 1),
            ({**exercise.good, **exercise.planted}, 1),
            ({**stub, **exercise.planted}, 0),
            ({**exercise.good, **many}, 0),
        ]
    ):
        for path, content in answer.items():
            (tmp_path / f"{at}/work" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / f"{at}/work" / path).write_text(content)
        found = graded(tmp_path / str(at), [scorer], attachments=attached, seconds=60)
        assert found["reward"] == reward, at


def test_exercises_that_need_the_servers_own_tools_are_refused() -> None:
    with pytest.raises(UsageError, match="`--variant images`, and export that"):
        task_export.shipped_graders([{**POLYGLOT, "tools": "server"}], {}, 60)
    with pytest.raises(UsageError, match="attachment 'exercise' is missing"):
        task_export.shipped_graders([POLYGLOT], {}, 60)


def test_every_kind_of_scorer_can_be_run_elsewhere() -> None:
    """A new one is in `scorers/exports`, has a grader, or a part of its own."""
    known = {*verifiers._PARTS, verifiers.HARBOR, *exports.types()}
    assert set(scorers.types()) == known


def test_scorers_of_the_server_only_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match="scorer s0 is of type other_scorer, which grades on the server"):
        export.make_task(scorers_only({"type": "other_scorer"}), ExportParts())
    with pytest.raises(UsageError, match="there is no registered custom scorer 'gone'"):
        export.make_task(scorers_only({"type": "custom_scorer", "custom_scorer_type": "gone"}), ExportParts())


def scorers_only(*scorers: dict[str, Any]) -> Any:
    return scenario(list(scorers))


def test_launch_commands_become_a_dockerfile() -> None:
    starting = writing_command(StartingFile("src/a file.py", b"print()\n", 0o600), WORK)
    view = scenario(
        [EASY],
        environment_parameters={
            "working_directory": WORK,
            "launch_parameters": {"launch_commands": [starting, 'echo "$HOME" > home.txt\ntrue']},
        },
    )
    tree = export.make_task(view, ExportParts())
    lines = text(tree.files["environment/Dockerfile"]).splitlines()
    assert lines[0] == f"FROM {BASE}"
    assert f'COPY --chown=user ["benchyard-starting/0-a-file.py", "{WORK}/src/a file.py"]' in lines
    assert f'RUN ["/bin/sh", "-c", "chmod 600 \\"{WORK}/src/a file.py\\""]' in lines
    assert 'RUN ["/bin/bash", "-c", "echo \\"$HOME\\" > home.txt\\ntrue"]' in lines
    assert lines[-1] == f"WORKDIR {WORK}"
    assert tree.files["environment/benchyard-starting/0-a-file.py"] == PackedFile(b"print()\n")
    odd = view.model_copy(
        update={
            "environment": view.environment
            and view.environment.model_copy(update={"working_directory": "/work/$HOME"})
        }
    )
    with pytest.raises(UsageError, match="a special meaning in a Dockerfile"):
        export.make_task(odd, ExportParts())


def odd_scenario() -> Any:
    """One that says everything Harbor has no word for."""
    return scenario(
        [EASY],
        scoring_isolation="answer",
        answer_paths=["out", "/srv/all.txt"],
        answer_excludes=["out/tmp"],
        nop_score=0.25,
        tries=2,
        retry_prompt="Again: {output}",
        scoring_secrets={"JUDGE": "judge-key"},
        required_environment_variables=["A"],
        required_secret_names=["B"],
        scorer_timeout_sec=77,
        agent_timeout_sec=12.5,
        reference_output="touch done.txt\n",
        collect_commands=[{"command": "sync", "timeout_sec": 5}],
        metadata={"kind": "odd", "benchyard.item": "x", "task": "team/named"},
        environment_parameters={
            "environment_variables": {"C": "d"},
            "launch_parameters": {
                "resource_size_request": "CUSTOM_SIZE",
                "custom_cpu_cores": 2,
                "custom_gb_memory": 8,
                "custom_disk_size": 16,
            },
        },
    )


def test_fields_unknown_to_harbor_survive_a_round_trip(tmp_path: Path) -> None:
    view = odd_scenario()
    phases = PhaseAccess(
        NetworkAccess("open"), NetworkAccess("allow-list", ("pypi.org", "10.0.0.0/8")), NetworkAccess("none")
    )
    tree = export.make_task(view, ExportParts(phases=phases, canary="<!-- canary 1 -->"))
    said = document(tree)
    assert said["task"]["name"] == "team/named"
    assert said["artifacts"] == [
        {"source": "/home/user/out", "exclude": ["tmp"]},
        {"source": "/srv/all.txt"},
    ]
    assert said["environment"]["network_mode"] == "public"
    assert (said["environment"]["cpus"], said["environment"]["memory_mb"]) == (2.0, 8192)
    assert said["agent"]["allowed_hosts"] == ["pypi.org", "10.0.0.0/8"]
    assert said["verifier"]["environment_mode"] == "separate"
    assert text(tree.files["instruction.md"]) == "<!-- canary 1 -->\n\nDo it.\n"
    draft = read(written(tree, tmp_path / "one"), tmp_path / "work")
    again = view_of(draft.request)
    same = ("scoring_isolation", "answer_paths", "answer_excludes", "nop_score", "tries", "retry_prompt")
    same += ("scoring_secrets", "required_environment_variables", "required_secret_names")  # type: ignore[assignment]
    same += ("scorer_timeout_sec", "agent_timeout_sec", "collect_commands")  # type: ignore[assignment]
    for name in same:
        assert getattr(again, name) == getattr(view, name), name
    assert draft.phases == phases
    assert again.input_context == view.input_context
    assert again.metadata == {"kind": "odd", "task": "team/named"}
    assert again.environment
    assert again.environment.environment_variables == {"C": "d"}
    launch = again.environment.launch_parameters
    assert launch
    assert launch.custom_gb_memory == view.environment.launch_parameters.custom_gb_memory
    assert again.reference_output
    assert "base64 -d" in again.reference_output


def test_a_scenario_that_says_nothing_of_networks_says_nothing_when_it_is_back(tmp_path: Path) -> None:
    tree = export.make_task(scenario([EASY]), ExportParts())
    assert document(tree)["environment"]["network_mode"] == "no-network"
    assert read(written(tree, tmp_path / "one"), tmp_path / "work").phases is None


def test_steps_are_folders_of_their_own(tmp_path: Path) -> None:
    steps = [
        {"name": "first", "problem_statement": "One.\n", "min_reward": 1.0, "reference_output": "touch one"},
        {"name": "second", "problem_statement": "Two.\n", "setup": "touch ready", "agent_timeout_sec": 9.0},
    ]
    view = scenario([EASY], steps=steps, reward_strategy="final")
    tree = export.make_task(view, ExportParts(step_files={"second": {"a.txt": PackedFile(b"a")}}))
    assert text(tree.files["steps/second/workdir/setup.sh"]) == "touch ready"
    again = read(written(tree, tmp_path / "one"), tmp_path / "work").request
    assert again.reward_strategy == "final"
    assert [(each.name, each.problem_statement) for each in again.steps or []] == [
        ("first", "One.\n"),
        ("second", "Two.\n"),
    ]
    first, second = again.steps or []
    assert first.min_reward == 1.0
    assert second.agent_timeout_sec == 9.0
    assert second.setup == "bash ./setup.sh"


_TEXTS = some.text(some.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=50)


@settings(max_examples=30)
@given(
    labels=some.dictionaries(_TEXTS, _TEXTS, max_size=4),
    env=some.dictionaries(some.from_regex(r"[A-Z]{1,8}", fullmatch=True), _TEXTS, max_size=3),
    seconds=some.integers(1, 86_400),
    nop=some.floats(0, 1),
    prompt=_TEXTS.filter(lambda told: told.strip() and "canary" not in told.lower()),
)
def test_any_value_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    labels: dict[str, str],
    env: dict[str, str],
    seconds: int,
    nop: float,
    prompt: str,
) -> None:
    own = {key: value for key, value in labels.items() if key not in ("benchyard", "task", "source")}
    plain = {key: value for key, value in env.items() if not value.startswith("${")}
    view = scenario(
        [EASY],
        metadata=own,
        nop_score=nop,
        scorer_timeout_sec=seconds,
        input_context={"problem_statement": prompt},
        environment_parameters={"environment_variables": plain},
    )
    folder = tmp_path_factory.mktemp("task")
    again = read(written(export.make_task(view, ExportParts()), folder / "one"), folder / "work").request
    assert {key: value for key, value in (again.metadata or {}).items() if key != "task"} == {
        key: value for key, value in own.items() if value and not key.startswith("benchyard.")
    }
    assert again.environment_parameters
    assert (again.environment_parameters.environment_variables or {}) == plain
    assert (again.nop_score or 0) == nop
    assert again.scorer_timeout_sec == seconds
    assert again.input_context.problem_statement == prompt


def test_a_context_that_leads_out_of_itself_is_refused() -> None:
    for about in (
        _member("../x"),
        _member("/etc/x"),
        _member("a", link="../../x"),
        _member("a", link="/etc"),
    ):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.addfile(about)
        with pytest.raises(UsageError, match="out"):
            tree_of(archive.getvalue())
    with pytest.raises(UsageError, match="not an archive"):
        tree_of(b"nothing of the kind")


def _member(name: str, link: str | None = None) -> tarfile.TarInfo:
    about = tarfile.TarInfo(name)
    if link is not None:
        about.type, about.linkname = tarfile.SYMTYPE, link
    return about


def test_a_set_lists_its_tasks_by_their_content() -> None:
    one = export.make_task(scenario([EASY]), ExportParts())
    other = export.make_task(scenario([EASY], nop_score=0.5), ExportParts(image=ImageParts("FROM x\n")))
    digests = [export.tree_digest(each) for each in (one, other)]
    assert digests[0] != digests[1]
    told = tomllib.loads(export.dataset_toml("my set", {"description": "d"}, [("own/one", digests[0])]))
    assert told["dataset"] == {"name": "benchyard/my-set", "description": "d"}
    assert told["tasks"] == [{"name": "own/one", "digest": digests[0]}]
