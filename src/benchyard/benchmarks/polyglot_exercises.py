"""Exercises of Aider's Polyglot benchmark as its repository has them: what to change, tests, example."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from benchyard.errors import UsageError

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
    """One exercise."""

    language: str
    name: str
    instructions: str
    """Introduction, instructions and what is appended to them, as the official harness joins them."""
    solution: tuple[str, ...]
    """The files that are to be changed."""
    files: Mapping[str, bytes]
    """All that is needed for the tests: stubs, tests, builds."""
    tests: frozenset[str] = frozenset()
    """Files that whoever works on it must not see."""
    example: Mapping[str, bytes] = field(default_factory=dict)
    """The files of the solution as they should be; empty where the repository has none that fits."""
    why_no_example: str = ""


def folders(data: Path) -> Iterator[tuple[str, Path]]:
    """The language and folder of every exercise, in order; raises UsageError where there is none."""
    roots = [data, *sorted(each for each in data.glob("*") if each.is_dir())] if data.is_dir() else []
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


def read(language: str, folder: Path) -> Exercise:
    """The exercise of a folder; raises UsageError with what is missing."""
    if not _NAME.fullmatch(folder.name):
        raise UsageError(f"{folder}: the name of the folder is none of an exercise")
    config = _config(folder)
    tests, examples = _paths(config, "test"), _paths(config, "example")
    edited = [path for path in _paths(config, "solution") if _is_edited(path, {*tests, *examples})]
    files = dict(_files(folder))
    if (
        language == "cpp"
        and _CATCH not in files
        and (shared := folder.parents[2] / "_shared/catch.hpp").exists()
    ):
        # Copies of the repository keep this one, which all have, once.
        files[_CATCH] = shared.read_bytes()
    missing = [path for path in (*edited, *tests) if path not in files]
    if missing or not edited or not tests:
        raise UsageError(f"{folder}: it lacks {', '.join(missing) or 'names of files in .meta/config.json'}")
    kept = {path: content for path, content in files.items() if PurePosixPath(path).parts[0] not in _ASIDE}
    example, why = _example(
        language, edited, {path: files[path] for path in examples if path in files}, files
    )
    return Exercise(
        language=language,
        name=folder.name,
        instructions=_instructions(folder, files),
        solution=tuple(edited),
        files=kept,
        tests=frozenset(path for path in kept if path in tests or _OF_TESTS.search(path)),
        example=example,
        why_no_example=why,
    )


def _config(folder: Path) -> dict[str, object]:
    path = folder / ".meta/config.json"
    try:
        found = json.loads(path.read_bytes()[:_MOST_BYTES])
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{path}: this is no JSON: {str(error)[:200]}") from error
    files = found.get("files") if isinstance(found, dict) else None
    if not isinstance(files, dict):
        raise UsageError(f"{path}: it names no `files`")
    return files


def _paths(config: Mapping[str, object], name: str) -> list[str]:
    found = config.get(name) or []
    if not isinstance(found, list) or not all(isinstance(each, str) and _is_inner(each) for each in found):
        raise UsageError(f".meta/config.json: `{name}` must be a list of files inside the exercise")
    return [str(PurePosixPath(each)) for each in found]


def _is_inner(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\0" not in path


def _is_edited(path: str, others: set[str]) -> bool:
    parts = PurePosixPath(path).parts
    return path not in others and parts[0] not in (".meta", ".docs") and path not in _NOT_EDITED


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of an exercise; links are nobody's files."""
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
    """The example on the files of the solution; nothing, and why, where it does not fit."""
    if b"[dependencies]" in files.get(".meta/Cargo-example.toml", b"") and language == "rust":
        return {}, "the example needs crates that the exercise's own Cargo.toml does not name"
    found: dict[str, bytes] = {}
    used, beside = set(), {}
    for path in edited:
        same = [each for each in examples if PurePosixPath(each).name == PurePosixPath(path).name]
        alike = [each for each in examples if PurePosixPath(each).suffix == PurePosixPath(path).suffix]
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
    """Further files of an example in the solution's language, such as classes that it uses."""
    for folder, solution in beside.items():
        # Programs that made the exercise lie in `.meta` itself: there only what the config names is meant.
        around = examples if folder == ".meta" else files
        for path in around:
            inner = PurePosixPath(path)
            if path not in used and inner.suffix == solution.suffix and inner.is_relative_to(folder):
                yield str(solution.parent / inner.relative_to(folder)), files[path]
