"""Aider Polyglot: what is shown, what is kept back, and the real exercises of six languages."""

import shutil
import tarfile
from pathlib import Path

import pytest

from benchyard.benchmarks import catalog
from benchyard.benchmarks.base import BrokenItem, ImportOptions
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft, starting_file_of
from benchyard.client import Client, Server
from benchyard.errors import UsageError
from benchyard.models.jobs import AttemptOutcome
from benchyard.models.scoring.attachments import unpack_files
from benchyard.testing.server import RunningServer
from tests import parity
from tests.benchmarks import exercises
from tests.benchmarks.executing import brought
from tests.benchmarks.samples.finding import sample

NAME = "aider-polyglot"
REAL = {
    "cpp": "diamond",
    "go": "octal",
    "java": "change",
    "javascript": "transpose",
    "python": "proverb",
    "rust": "accumulate",
}
_PATIENCE_SECONDS = 3600.0 if parity.IS_WHOLE else 1800.0


def read(data: Path, work: Path, variant: str | None = None) -> list[ScenarioDraft | BrokenItem]:
    work.mkdir(exist_ok=True)
    return list(catalog.load(NAME).scenarios(data, ImportOptions(work, variant)))


def one(data: Path, work: Path, variant: str | None = None) -> ScenarioDraft:
    (found,) = read(data, work, variant)
    assert isinstance(found, ScenarioDraft), found
    return found


def shown(draft: ScenarioDraft) -> list[str]:
    environment = draft.request.environment_parameters
    assert environment is not None
    assert environment.launch_parameters is not None
    commands = environment.launch_parameters.launch_commands or []
    files = [starting_file_of(command, environment.working_directory) for command in commands]
    return [file.path for file in files if file]


def test_the_prompt_is_that_of_the_harness(tmp_path: Path) -> None:
    exercises.python(tmp_path)
    request = one(tmp_path, tmp_path / "work").request
    said = request.input_context.problem_statement
    assert said.startswith("# Introduction\n\nNumbers.\n# Instructions\n\nDouble the number.\n# Append\n")
    assert (
        "\n####\n\nUse the above instructions to modify the supplied files: double.py\nDon't change" in said
    )
    assert request.tries == 2
    assert (request.retry_prompt or "").startswith("{output}\n####\n\nSee the testing errors above.\n")
    assert "Fix the code in double.py to resolve" in (request.retry_prompt or "")
    assert request.scorer_timeout_sec == 180


def test_tests_and_examples_are_not_in_the_devbox(tmp_path: Path) -> None:
    exercises.python(tmp_path / "a")
    exercises.rust(tmp_path / "b")
    exercises.cpp(tmp_path / "c")
    drafts = [one(tmp_path / each, tmp_path / "work") for each in "abc"]
    assert [shown(draft) for draft in drafts] == [
        ["double.py"],
        ["Cargo.toml", "src/lib.rs"],
        ["CMakeLists.txt", "double_it.cpp", "double_it.h"],
    ]
    kept = [sorted(path for path, _ in unpack_files(draft.attachments["exercise"])) for draft in drafts]
    assert kept[0] == ["double.py", "double_test.py"]
    assert "test/catch.hpp" in kept[2]
    assert [draft.request.answer_paths for draft in drafts] == [
        ["/app/double"],
        ["/app/double"],
        ["/app/double-it"],
    ]
    assert "/app/double/target" in (drafts[1].request.answer_excludes or [])


def test_references_have_the_classes_that_they_use(tmp_path: Path) -> None:
    exercises.java(tmp_path)
    request = one(tmp_path, tmp_path / "work", "host").request
    lines = (request.reference_output or "").splitlines()
    written = [line[2:].partition(";")[0] for line in lines if line.startswith("p=")]
    assert written == [f"src/main/java/{name}.java" for name in ("Double", "Twice", "Unlisted")]


def test_examples_become_scripts_where_they_fit(tmp_path: Path) -> None:
    exercises.cpp(tmp_path / "a")
    exercises.rust(tmp_path / "b", crates='rand = "0.8"')
    written = one(tmp_path / "a", tmp_path / "work").request.reference_output or ""
    assert written.count("base64 -d") == 2
    without = one(tmp_path / "b", tmp_path / "work").request
    assert without.reference_output is None
    assert "crates" in (without.metadata or {})["without_reference"]


def test_an_image_for_each_language_or_the_servers_own_tools(tmp_path: Path) -> None:
    exercises.python(tmp_path)
    exercises.python(tmp_path, "twice")
    exercises.rust(tmp_path)
    images = [each for each in read(tmp_path, tmp_path / "work") if isinstance(each, ScenarioDraft)]
    assert [image.origin.kind for image in images] == ["dockerfile"] * 3
    assert len({image.folder.path for image in images}) == 2
    assert images[0].folder.text("Dockerfile").startswith("FROM python:3.11")
    hosts = [each for each in read(tmp_path, tmp_path / "work", "host") if isinstance(each, ScenarioDraft)]
    assert [host.origin.kind for host in hosts] == [None] * 3
    assert all("own tools" in (host.request.metadata or {})["substitutes"] for host in hosts)


def test_broken_exercises_are_named_and_the_rest_is_loaded(tmp_path: Path) -> None:
    exercises.python(tmp_path)
    (exercises.python(tmp_path, "gone") / "gone_test.py").unlink()
    (exercises.python(tmp_path, "torn") / ".meta/config.json").write_text('{"files": ')
    (exercises.python(tmp_path, "away") / ".meta/config.json").write_text(
        '{"files": {"solution": ["../../x"], "test": ["away_test.py"]}}'
    )
    (exercises.python(tmp_path, "silent") / ".docs/instructions.md").unlink()
    found = read(tmp_path, tmp_path / "work")
    broken = {each.name: each.reason for each in found if isinstance(each, BrokenItem)}
    assert [each.request.name for each in found if isinstance(each, ScenarioDraft)] == [
        "aider-polyglot/python-double"
    ]
    assert "gone_test.py" in broken["python/gone"]
    assert "is not valid JSON" in broken["python/torn"]
    assert "inside the exercise" in broken["python/away"]
    assert "instructions.md" in broken["python/silent"]
    with pytest.raises(UsageError, match="exercises/practice"):
        read(tmp_path / "work", tmp_path / "work")


def test_exercises_that_doing_nothing_passes_say_so(tmp_path: Path) -> None:
    exercises.java(tmp_path, "ledger")
    exercises.java(tmp_path, "tree-building")
    for name in ("ledger", "markdown", "octal"):
        exercises.write(
            tmp_path,
            "go",
            name,
            {f"{name}.go": "", f"{name}_test.go": "", ".meta/example.go": ""},
            solution=[f"{name}.go"],
            test=[f"{name}_test.go"],
            example=[".meta/example.go"],
        )
    drafts = [
        each
        for data in (tmp_path, real(tmp_path / "all"))
        for each in read(data, tmp_path / "work")
        if isinstance(each, ScenarioDraft)
    ]
    declared = {draft.request.name: draft.request.nop_score for draft in drafts if draft.request.nop_score}
    names = (
        "go-ledger",
        "go-markdown",
        "java-ledger",
        "java-tree-building",
        "go-counter",
        "javascript-ledger",
    )
    assert declared == dict.fromkeys((f"{NAME}/{name}" for name in names), 1.0)


LISTED = 36
"""Exercises in the sample."""


def test_our_own_exercise_is_solved_by_the_oracle_only(server: RunningServer, tmp_path: Path) -> None:
    exercises.python(tmp_path)
    rewards = graded(server, tmp_path)
    assert rewards == {"oracle": {"python-double": (1.0, 1.0)}, "nop": {"python-double": (0.0, 0.0)}}


@pytest.mark.skipif(not shutil.which("javac"), reason="needs javac and JUnit 5: install junit5")
def test_an_answer_in_several_files_is_taken_whole(server: RunningServer, tmp_path: Path) -> None:
    exercises.java(tmp_path)
    rewards = graded(server, tmp_path)
    assert rewards == {"oracle": {"java-double": (1.0, 1.0)}, "nop": {"java-double": (0.0, 0.0)}}


def real(folder: Path) -> Path:
    """The real exercises."""
    with tarfile.open(sample("aider-polyglot/exercises-sample.tar.gz")) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize(
    "languages",
    [["python"], pytest.param(["cpp", "go", "java", "javascript", "rust"], marks=pytest.mark.slow)],
    ids=["python", "others"],
)
def test_a_real_exercise_of_every_language_is_solved_by_the_oracle_only(
    server: RunningServer, tmp_path: Path, languages: list[str]
) -> None:
    every = real(tmp_path / "all")
    some = {language: REAL[language] for language in languages}
    for language, name in some.items():
        place = Path(language, "exercises/practice", name)
        shutil.copytree(every / place, tmp_path / "some" / place)
    shutil.copytree(every / "cpp/_shared", tmp_path / "some/cpp/_shared")
    rewards = graded(server, tmp_path / "some")
    names = [f"{language}-{name}" for language, name in some.items()]
    assert rewards["oracle"] == dict.fromkeys(names, (1.0, 1.0))
    assert rewards["nop"] == dict.fromkeys(names, (0.0, 0.0))
    parity.note("aider-polyglot", names, LISTED)


@pytest.mark.skipif(not parity.IS_WHOLE, reason="compiles for half an hour: `make parity`")
@pytest.mark.parametrize("language", REAL)
def test_all_real_exercises_are_solved_by_the_oracle_only(
    server: RunningServer, tmp_path: Path, language: str
) -> None:
    data = real(tmp_path / "all")
    for other in set(REAL) - {language}:
        shutil.rmtree(data / other)
    found = [
        each.request for each in read(data, tmp_path / "work", "host") if isinstance(each, ScenarioDraft)
    ]
    left = {}
    for each in found:
        labels = each.metadata or {}
        why = labels.get("without_reference") or (
            labels.get("needs") and f"it needs a package that is not here: {labels['needs']}"
        )
        if why:
            item = each.name.partition("/")[2]
            shutil.rmtree(data / language / "exercises/practice" / item.removeprefix(f"{language}-"))
            left[item] = why
    rewards = graded(server, data)
    oracle, nop = (
        {name: passes[1] for name, passes in rewards[agent].items()} for agent in ("oracle", "nop")
    )
    declared = {each.name.partition("/")[2]: each.nop_score for each in found if each.nop_score}
    bad = parity.unexpected(oracle, nop, declared)
    parity.note(NAME, list(oracle), LISTED, bad, left)
    assert len(oracle) + len(left) == len(found) == LISTED // len(REAL)
    assert bad == {}


def graded(server: RunningServer, data: Path) -> dict[str, dict[str, tuple[float | None, float | None]]]:
    """Agent -> exercise -> what it had reached after the first and the second try."""
    with Client(Server(server.url, server.key)) as client:
        made = brought(client, NAME, data, "host")
        spec = {
            "type": "benchmark",
            "benchmark_id": made.benchmark.id,
            "agent_configs": [{"name": "oracle"}, {"name": "nop"}],
            # A machine that runs many tests at once is slow; the official limit is for one that does not.
            "orchestrator_config": {"n_concurrent_trials": 2, "timeout_multiplier": 8},
        }
        job = client.jobs.create({"spec": spec})
        ended = client.jobs.wait(job.id, timeout=_PATIENCE_SECONDS)
        outcomes = ended.benchmark_outcomes or []
        assert [outcome.agent_name for outcome in outcomes] == ["oracle", "nop"]
        return {
            agent.agent_name: {
                scenario_outcome.scenario_name.partition("/")[2]: _passes(scenario_outcome.attempts[0])
                for scenario_outcome in agent.scenario_outcomes
            }
            for agent in outcomes
        }


def _passes(attempt: AttemptOutcome) -> tuple[float | None, float | None]:
    assert attempt.failure_reason is None, attempt.failure_reason
    return attempt.rewards.get("pass_1"), attempt.rewards.get("pass_2")
