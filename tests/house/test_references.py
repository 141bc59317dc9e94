"""Files, modules and pages that docstrings and comments of the source name are there."""

import ast
import importlib
import re
from collections.abc import Iterator

import pytest

from tests.house.tree import PACKAGE, ROOT, Module, modules, tracked_files

PATH = re.compile(r"(?<![\w./<{}*~$-])((?:[\w-]+/)+[\w-]+\.(?:py|md|sh|toml|txt))\b")
BARE_PATH = re.compile(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+)`")
PAGE = re.compile(r"(?<![\w/])docs/[\w/-]*\w")
DOTTED = re.compile(r"\bbenchyard((?:\.[A-Za-z_]\w*)+)")
FILE_ENDINGS = {"fish", "service", "db"}
"""What follows a point in names of files such as `benchyard.service`."""
FILES = [f"/{path.relative_to(ROOT).as_posix()}" for path in tracked_files()]
FOLDERS = {path.name for path in PACKAGE.rglob("*") if path.is_dir()} | {"docs", "tests", "scripts", "perf"}


def said(module: Module) -> Iterator[str]:
    """The docstrings and comments of a module, and strings that stand under its fields."""
    yield from (line.partition("#")[2] for line in module.path.read_text().splitlines())
    for node in ast.walk(module.tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text


def missing(text: str) -> Iterator[str]:
    """Yield what a text names and is not there."""
    for found in PATH.findall(text):
        # Other projects have files too.
        if found.split("/")[0] in FOLDERS and not any(file.endswith(f"/{found}") for file in FILES):
            yield found
    for found in BARE_PATH.findall(text):
        if found.split("/")[0] in FOLDERS and not any(
            f"/{found}/" in file or f"/{found}." in file for file in FILES
        ):
            yield found
    for found in PAGE.findall(text):
        if not any(file.startswith(f"/{found}") for file in FILES):
            yield found
    for found in DOTTED.findall(text):
        if found.rpartition(".")[2] not in FILE_ENDINGS and not is_importable(f"benchyard{found}"):
            yield f"benchyard{found}"


def is_importable(name: str) -> bool:
    """Whether a module has this name, or a name in a module."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)
        return found is not None
    return False


def test_what_the_source_names_is_there() -> None:
    stale = [
        f"{module.where}: {name}" for module in modules() for text in said(module) for name in missing(text)
    ]
    assert stale == []


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("see engine/scenario_rules.py", ["engine/scenario_rules.py"]),
        ("see `engine/scenarios/scoring_rules.py` and scenarios/scoring_rules.py", []),
        ("made by `graders/tarot`, as `graders/aime`", ["graders/tarot"]),
        ("why: docs/adr/0001, not docs/adr/9999", ["docs/adr/9999"]),
        ("benchyard.cli.main.run and benchyard.cli.main.fly", ["benchyard.cli.main.fly"]),
        ("benchyard.nowhere, benchyard.service", ["benchyard.nowhere"]),
        ("their bigcodebench/generate.py, /etc/x.py, <name>/x.py", []),
    ],
)
def test_a_name_of_something_that_is_gone_is_reported(text: str, gone: list[str]) -> None:
    assert [*missing(text)] == gone
