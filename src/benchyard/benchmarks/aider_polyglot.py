"""Aider Polyglot: 225 exercises of Exercism in six languages, two tries each, graded by their own tests."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from benchyard.benchmarks import polyglot_exercises as exercises
from benchyard.benchmarks import polyglot_images, starting_files
from benchyard.benchmarks.base import ITEM_KEY, PUBLIC_KEY, About, Benchmark, Broken, Options
from benchyard.benchmarks.folders import Folder
from benchyard.benchmarks.polyglot_exercises import Exercise
from benchyard.benchmarks.scenario_folder import Draft, Origin
from benchyard.benchmarks.sources.base import GitTree
from benchyard.benchmarks.starting_files import StartingFile
from benchyard.errors import UsageError
from benchyard.models.attachments import PackedFile, packed
from benchyard.models.launch import LaunchParameters
from benchyard.models.scenarios import InputContext, ScenarioEnvironment, ScenarioRequest, ScoringContract

NAME = "aider-polyglot"
IMAGES, HOST = "images", "host"
_PLACE = "/app"
_TRIES = 2
_TEST_SECONDS = 180
"""The official limit."""
_ADDENDUM = """
####

Use the above instructions to modify the supplied files: {file_list}
Don't change the names of existing functions or classes, as they may be referenced from other code like unit tests, etc.
Only use standard libraries, don't suggest installing any packages.
"""  # noqa: E501
"""Quoted, as the next one, from `benchmark/prompts.py` of Aider-AI/aider (Apache-2.0)."""
_FAILED = """
####

See the testing errors above.
The tests are correct, don't try and change them.
Fix the code in {file_list} to resolve the errors.
"""
_WHERE = "\nThe files are in `{folder}`: {paths}\n"
_NOT_WORK = (".git", ".meta", "build", "node_modules", "target")
"""What tools leave in the folder: it may be much, and no scorer looks at it."""
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
"""Exercises whose stub passes: programs that are to be made readable, and one that tests are written for."""
_NEEDS_CRATES = {"gigasecond": "time", "grep": "anyhow", "simple-cipher": "rand"}
_NEEDS_JARS = {"hangman": "rxjava", "rest-api": "org.json", "mazy-mice": "AssertJ 3.15 or newer"}


class AiderPolyglotBenchmark(Benchmark):
    """The exercises of the benchmark's repository at the commit that its results are of."""

    about = About(
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

    def scenarios(self, data: Path, options: Options) -> Iterator[Draft | Broken]:
        for language, folder in exercises.folders(data):
            try:
                yield _draft(exercises.read(language, folder), options)
            except UsageError as error:
                yield Broken(f"{language}/{folder.name}"[:200], error.message)


def _draft(exercise: Exercise, options: Options) -> Draft:
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
    attached = packed({path: PackedFile(content) for path, content in exercise.files.items()})
    if is_host:
        return Draft(Folder(options.work), request, attachments={"exercise": attached})
    context = polyglot_images.context(exercise.language, options.work)
    origin = Origin("dockerfile", polyglot_images.DOCKERFILE, on_demand=True)
    return Draft(Folder(context), request, origin, attachments={"exercise": attached})


def _prompt(exercise: Exercise, folder: str, names: str) -> str:
    where = _WHERE.format(folder=folder, paths=", ".join(exercise.solution))
    return f"{exercise.instructions}{_ADDENDUM.format(file_list=names)}{where}"


def _environment(exercise: Exercise, folder: str) -> ScenarioEnvironment:
    """The files that may be seen; the tests are brought by the scorer."""
    shown = [
        StartingFile(path, content)
        for path, content in exercise.files.items()
        if path not in exercise.tests and len(content) <= starting_files.MOST_BYTES
    ]
    commands = [starting_files.command(file, folder) for file in shown]
    return ScenarioEnvironment(
        working_directory=folder, launch_parameters=LaunchParameters(launch_commands=commands)
    )


def _reference(exercise: Exercise) -> str | None:
    if not exercise.example:
        return None
    written = [StartingFile(path, content) for path, content in exercise.example.items()]
    return "set -e\n" + "".join(f"{starting_files.command(file, None)}\n" for file in written)


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
