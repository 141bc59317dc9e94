"""One word per idea, plain names, no debris."""

import ast
import re

from tests.house.tree import ROOT, modules, python_files, tracked_files, unexcused

EMPTY_NAMES = {"utils", "util", "helper", "helpers", "manager", "managers", "common", "misc", "legacy"}
EMPTY_CLASS_NAME = re.compile(r"^(Base|Abstract)[A-Z]|(Manager|Helper|Factory|Utils?)$")
MACHINE_PATHS = re.compile(r"(?<![\w.$}*])/(Users|work|root)/[\w.]")
DEBRIS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def test_module_names_say_something() -> None:
    assert [module.where for module in modules() if EMPTY_NAMES & set(module.name.split("."))] == []


def test_class_names_say_something() -> None:
    empty = [
        f"{module.where}: {node.name}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and EMPTY_CLASS_NAME.search(node.name)
    ]
    assert empty == []


def test_nothing_names_one_persons_machine_and_nothing_is_left_to_do() -> None:
    rules = ROOT / "tests/house/test_words.py"
    found = []
    for path in tracked_files():
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, start=1):
            if path != rules and (MACHINE_PATHS.search(line) or DEBRIS.search(line)):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []


def broad(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(each is None or (isinstance(each, ast.Name) and each.id in BROAD) for each in caught)


BROAD = {"Exception", "BaseException"}


def reraises(handler: ast.ExceptHandler) -> bool:
    """A clean-up that passes the error on unchanged swallows nothing."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_errors_are_caught_by_name() -> None:
    findings = {}
    for path in python_files("src", "perf"):
        place = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler) and broad(node) and not reraises(node):
                findings[place] = f"{place}:{node.lineno} catches everything"
    assert unexcused("broad_except", findings) == []


def test_nothing_is_mocked() -> None:
    mocked = [
        path.relative_to(ROOT).as_posix()
        for path in python_files("src", "tests", "perf")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unittest"))
        or (isinstance(node, ast.Import) and any(alias.name.startswith("unittest.") for alias in node.names))
    ]
    assert mocked == []
