"""Aider Polyglot: 225 exercises of Exercism in six languages, two tries each, graded by their own tests."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from benchyard.benchmarks.base import (
    ITEM_KEY,
    PUBLIC_KEY,
    BenchmarkFacts,
    BrokenItem,
    ImportOptions,
    PublicBenchmark,
)
from benchyard.benchmarks.files import scenario_draft
from benchyard.benchmarks.files.bounded_folder import BoundedFolder
from benchyard.benchmarks.files.scenario_draft import EnvironmentOrigin, ScenarioDraft, StartingFile
from benchyard.benchmarks.sources.base import GitTree
from benchyard.errors import UsageError
from benchyard.models.launch import LaunchParameters
from benchyard.models.scenarios import InputContext, ScenarioEnvironment, ScenarioRequest, ScoringContract
from benchyard.models.scoring.attachments import PackedFile, pack_files

LANGUAGES = ("cpp", "go", "java", "javascript", "python", "rust")
_PRACTICE = "exercises/practice"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
_MOST_FILES, _MOST_BYTES = 500, 8 * 1024**2
_ASIDE = (".meta", ".docs", ".approaches", ".articles")
_NOT_EDITED = ("CMakeLists.txt", "Cargo.toml")
_OF_TESTS = re.compile(r"(^|/)(tests?/|src/test/|gradle/|gradlew)|_test\.(go|py|cpp)$|\.spec\.js$|\.bat$")
_CATCH = "test/catch.hpp"


@dataclass(frozen=True)
class Exercise:
    """An exercise of the benchmark."""

    language: str
    name: str
    instructions: str
    """Introduction, instructions and appendix, as the official harness joins them."""
    solution: tuple[str, ...]
    """Files that the answer is to change."""
    files: Mapping[str, bytes]
    """All files that the tests need: stubs, tests, builds."""
    tests: frozenset[str] = frozenset()
    """Paths of files that must stay hidden from the agent."""
    example: Mapping[str, bytes] = field(default_factory=dict)
    """Files of the solution as they should be; empty if the repository has no example that fits."""
    why_no_example: str = ""


def exercise_folders(data: Path) -> Iterator[tuple[str, Path]]:
    """Yield the language and folder of every exercise, in order; raises UsageError if there is none."""
    roots = [data, *sorted(path for path in data.glob("*") if path.is_dir())] if data.is_dir() else []
    root = next(
        (each for each in roots if any((each / name / _PRACTICE).is_dir() for name in LANGUAGES)), None
    )
    if root is None:
        raise UsageError(
            f"{data}: there are no exercises in it; give a copy of the repository, with folders such as "
            f"{LANGUAGES[0]}/{_PRACTICE} (unpack an archive first)"
        )
    for language in LANGUAGES:
        for folder in sorted((root / language / _PRACTICE).glob("*")):
            if folder.is_dir():
                yield language, folder


def read_exercise(language: str, folder: Path) -> Exercise:
    """Return the exercise of a folder; raises UsageError with the missing files."""
    if not _NAME.fullmatch(folder.name):
        raise UsageError(f"{folder}: the folder's name cannot be the name of an exercise")
    config = _config(folder)
    tests, examples = _paths(config, "test"), _paths(config, "example")
    edited = [path for path in _paths(config, "solution") if _is_edited(path, {*tests, *examples})]
    files = dict(_files(folder))
    if (
        language == "cpp"
        and _CATCH not in files
        and (shared := folder.parents[2] / "_shared/catch.hpp").exists()
    ):
        # Copies of the repository may keep this file, which all exercises share, only once.
        files[_CATCH] = shared.read_bytes()
    missing = [path for path in (*edited, *tests) if path not in files]
    if missing or not edited or not tests:
        raise UsageError(f"{folder}: it lacks {', '.join(missing) or 'names of files in .meta/config.json'}")
    files_kept = {
        path: content for path, content in files.items() if PurePosixPath(path).parts[0] not in _ASIDE
    }
    example, why = _example(
        language, edited, {path: files[path] for path in examples if path in files}, files
    )
    return Exercise(
        language=language,
        name=folder.name,
        instructions=_instructions(folder, files),
        solution=tuple(edited),
        files=files_kept,
        tests=frozenset(path for path in files_kept if path in tests or _OF_TESTS.search(path)),
        example=example,
        why_no_example=why,
    )


def _config(folder: Path) -> dict[str, object]:
    path = folder / ".meta/config.json"
    try:
        config = json.loads(path.read_bytes()[:_MOST_BYTES])
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{path}: this is not valid JSON: {str(error)[:200]}") from error
    files = config.get("files") if isinstance(config, dict) else None
    if not isinstance(files, dict):
        raise UsageError(f"{path}: it has no `files`")
    return files


def _paths(config: Mapping[str, object], name: str) -> list[str]:
    paths = config.get(name) or []
    if not isinstance(paths, list) or not all(isinstance(path, str) and _is_inner(path) for path in paths):
        raise UsageError(f".meta/config.json: `{name}` must be a list of files inside the exercise")
    return [str(PurePosixPath(path)) for path in paths]


def _is_inner(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\0" not in path


def _is_edited(path: str, others: set[str]) -> bool:
    parts = PurePosixPath(path).parts
    return path not in others and parts[0] not in (".meta", ".docs") and path not in _NOT_EDITED


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every file of an exercise; links are left out."""
    left, count = _MOST_BYTES, 0
    for here, inner, names in os.walk(folder):
        inner.sort()
        for name in sorted(names):
            path = Path(here, name)
            if path.is_symlink() or not path.is_file():
                continue
            count, left = count + 1, left - path.stat().st_size
            if count > _MOST_FILES or left < 0:
                raise UsageError(
                    f"{folder}: an exercise has at most {_MOST_FILES} files and {_MOST_BYTES} bytes"
                )
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def _instructions(folder: Path, files: Mapping[str, bytes]) -> str:
    if ".docs/instructions.md" not in files:
        raise UsageError(f"{folder}: it has no .docs/instructions.md")
    names = ("introduction.md", "instructions.md", "instructions.append.md")
    return "".join(files.get(f".docs/{name}", b"").decode(errors="replace") for name in names)


def _example(
    language: str, edited: list[str], examples: Mapping[str, bytes], files: Mapping[str, bytes]
) -> tuple[dict[str, bytes], str]:
    """Return the example as contents of the solution's files; if it does not fit, none and the reason."""
    if b"[dependencies]" in files.get(".meta/Cargo-example.toml", b"") and language == "rust":
        return {}, "the example needs crates that the exercise's own Cargo.toml does not name"
    found: dict[str, bytes] = {}
    used, beside = set(), {}
    for path in edited:
        same = [example for example in examples if PurePosixPath(example).name == PurePosixPath(path).name]
        alike = [
            example for example in examples if PurePosixPath(example).suffix == PurePosixPath(path).suffix
        ]
        if match := next(iter(same or (alike if len(alike) == 1 else [])), None):
            found[path] = examples[match]
            used.add(match)
            beside[str(PurePosixPath(match).parent)] = PurePosixPath(path)
    if not found:
        return {}, "the repository has no example that fits the files of the solution"
    return {**found, **dict(_helpers(beside, used, examples, files))}, ""


def _helpers(
    beside: Mapping[str, PurePosixPath],
    used: set[str],
    examples: Mapping[str, bytes],
    files: Mapping[str, bytes],
) -> Iterator[tuple[str, bytes]]:
    """Yield further files of an example in the solution's language, such as classes that it uses."""
    for folder, solution in beside.items():
        # `.meta` itself also has programs that generated the exercise: take only files that the config names.
        around = examples if folder == ".meta" else files
        for path in around:
            inner = PurePosixPath(path)
            if path not in used and inner.suffix == solution.suffix and inner.is_relative_to(folder):
                yield str(solution.parent / inner.relative_to(folder)), files[path]


DOCKERFILE = "Dockerfile"
_APT = "RUN apt-get update && apt-get install -y --no-install-recommends {} && rm -rf /var/lib/apt/lists/*\n"
_NPM = (
    "jest@29.7.0 @babel/core@7.25.2 @exercism/babel-preset-javascript@0.2.1 babel-jest@29.7.0 core-js@3.37.1"
)
_CRATES = 'anyhow = "1.0"\\nrand = "0.8"\\ntime = "0.3"'
_TEXTS = {
    "cpp": "FROM debian:bookworm\n" + _APT.format("g++ cmake make libboost-date-time-dev libtbb-dev"),
    "go": "FROM golang:1.21-bookworm\n",
    "java": "FROM debian:bookworm\n" + _APT.format("default-jdk-headless junit5 libassertj-core-java"),
    "javascript": (
        "FROM node:20-bookworm\n"
        f"RUN mkdir /npm-install && cd /npm-install && npm init -y && npm install {_NPM}\n"
    ),
    "python": "FROM python:3.11-bookworm\nRUN pip install --no-cache-dir pytest==8.3.5\n",
    "rust": (
        "FROM rust:1-bookworm\n"
        "RUN cargo new --lib /crates && cd /crates"
        f" && printf '{_CRATES}\\n' >> Cargo.toml && cargo fetch\n"
    ),
}


def write_build_context(language: str, work: Path) -> Path:
    """Return the folder with the Dockerfile of a language; write it if it is missing."""
    if language not in _TEXTS:
        raise UsageError(f"there is no image for {language}; there are: {', '.join(_TEXTS)}")
    folder = work / f"image-{language}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DOCKERFILE).write_text(_TEXTS[language])
    return folder


NAME = "aider-polyglot"
IMAGES, HOST = "images", "host"
_PLACE = "/app"
_TRIES = 2
_TEST_SECONDS = 180
"""Time for the tests, the official limit."""
_ADDENDUM = """
####

Use the above instructions to modify the supplied files: {file_list}
Don't change the names of existing functions or classes, as they may be referenced from other code like unit tests, etc.
Only use standard libraries, don't suggest installing any packages.
"""  # noqa: E501
"""Quoted, like `_FAILED`, from `prompts.py` of the benchmark of Aider-AI/aider (Apache-2.0)."""
_FAILED = """
####

See the testing errors above.
The tests are correct, don't try and change them.
Fix the code in {file_list} to resolve the errors.
"""
_WHERE = "\nThe files are in `{folder}`: {paths}\n"
_NOT_WORK = (".git", ".meta", "build", "node_modules", "target")
"""Folders that tools leave beside the work; they may be large, and no scorer reads them."""
_PASSED_BY_NOTHING = frozenset(
    {
        ("go", "counter"),
        ("go", "ledger"),
        ("go", "markdown"),
        ("java", "ledger"),
        ("java", "tree-building"),
        ("javascript", "ledger"),
    }
)
"""Exercises with stubs that pass unchanged: programs to be made readable, and one to write tests for."""
_NEEDS_CRATES = {"gigasecond": "time", "grep": "anyhow", "simple-cipher": "rand"}
_NEEDS_JARS = {"hangman": "rxjava", "rest-api": "org.json", "mazy-mice": "AssertJ 3.15 or newer"}


class AiderPolyglotBenchmark(PublicBenchmark):
    """The exercises of the benchmark's repository, at the commit that the published results are of."""

    about = BenchmarkFacts(
        title="Aider Polyglot",
        summary="225 exercises in C++, Go, Java, JavaScript, Python and Rust; two tries each",
        size=225,
        licence="MIT (exercises of Exercism); prompts from aider, Apache-2.0",
        citation="Gauthier, o1 tops aider's new polyglot leaderboard, aider.chat, December 2024",
        home="https://github.com/Aider-AI/polyglot-benchmark",
        aliases=("Aider/Polyglot", "polyglot", "Aider-AI/polyglot-benchmark"),
        needs=(
            "a container registry for the images of six languages; with the variant `host` the server's own "
            "g++, cmake, JDK with JUnit 5, node and cargo instead",
        ),
        variants=(IMAGES, HOST),
    )
    source = GitTree(
        "https://github.com/Aider-AI/polyglot-benchmark", "7e0611e77b54e2dea774cdc0aa00cf9f7ed6144f"
    )

    def scenarios(self, data: Path, options: ImportOptions) -> Iterator[ScenarioDraft | BrokenItem]:
        for language, folder in exercise_folders(data):
            try:
                yield _draft(read_exercise(language, folder), options)
            except UsageError as error:
                yield BrokenItem(f"{language}/{folder.name}"[:200], error.message)


def _draft(exercise: Exercise, options: ImportOptions) -> ScenarioDraft:
    is_host = options.variant == HOST
    folder = f"{_PLACE}/{exercise.name}"
    names = " ".join(PurePosixPath(path).name for path in exercise.solution)
    scorer = {
        "type": "polyglot_scorer",
        "language": exercise.language,
        "exercise": exercise.name,
        "solution": list(exercise.solution),
        "tests": sorted(exercise.tests),
        "tools": "server" if is_host else "image",
    }
    request = ScenarioRequest(
        name=f"{NAME}/{exercise.language}-{exercise.name}",
        input_context=InputContext(problem_statement=_prompt(exercise, folder, names)),
        scoring_contract=ScoringContract.model_validate(
            {"scoring_function_parameters": [{"name": "tests", "weight": 1.0, "scorer": scorer}]}
        ),
        environment_parameters=_environment(exercise, folder),
        metadata=_labels(exercise, is_host=is_host),
        reference_output=_reference(exercise),
        scoring_isolation="answer",
        answer_paths=[folder],
        answer_excludes=[f"{folder}/{name}" for name in _NOT_WORK],
        scorer_timeout_sec=_TEST_SECONDS,
        nop_score=1.0 if (exercise.language, exercise.name) in _PASSED_BY_NOTHING else None,
        tries=_TRIES,
        retry_prompt=f"{{output}}{_FAILED.format(file_list=names)}",
    )
    attached = pack_files({path: PackedFile(content) for path, content in exercise.files.items()})
    if is_host:
        return ScenarioDraft(BoundedFolder(options.work), request, attachments={"exercise": attached})
    context = write_build_context(exercise.language, options.work)
    origin = EnvironmentOrigin("dockerfile", DOCKERFILE, on_demand=True)
    return ScenarioDraft(BoundedFolder(context), request, origin, attachments={"exercise": attached})


def _prompt(exercise: Exercise, folder: str, names: str) -> str:
    where = _WHERE.format(folder=folder, paths=", ".join(exercise.solution))
    return f"{exercise.instructions}{_ADDENDUM.format(file_list=names)}{where}"


def _environment(exercise: Exercise, folder: str) -> ScenarioEnvironment:
    """Return the environment with the visible files; the scorer brings the tests."""
    shown = [
        StartingFile(path, content)
        for path, content in exercise.files.items()
        if path not in exercise.tests and len(content) <= scenario_draft.MOST_BYTES
    ]
    commands = [scenario_draft.writing_command(file, folder) for file in shown]
    return ScenarioEnvironment(
        working_directory=folder, launch_parameters=LaunchParameters(launch_commands=commands)
    )


def _reference(exercise: Exercise) -> str | None:
    if not exercise.example:
        return None
    written = [StartingFile(path, content) for path, content in exercise.example.items()]
    return "set -e\n" + "".join(f"{scenario_draft.writing_command(file, None)}\n" for file in written)


def _labels(exercise: Exercise, *, is_host: bool) -> dict[str, str]:
    substitutes = ["javac and JUnit's console launcher for gradle"] if exercise.language == "java" else []
    if is_host:
        substitutes.append("the server's own tools for the official image")
    needs = {"rust": _NEEDS_CRATES, "java": _NEEDS_JARS}.get(exercise.language, {}).get(exercise.name, "")
    labels = {
        PUBLIC_KEY: NAME,
        ITEM_KEY: f"{exercise.language}-{exercise.name}",
        "category": exercise.language,
        "substitutes": "; ".join(substitutes),
        "needs": needs,
        "without_reference": exercise.why_no_example,
    }
    return {name: value for name, value in labels.items() if value}
