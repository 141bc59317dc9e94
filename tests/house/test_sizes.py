"""Small parts: limits on modules, functions, parameters and classes; exceptions give a reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.tree import ROOT, python_files, unexcused

MODULE_LINES = 400
TEST_MODULE_LINES = 600
FUNCTION_LINES = 50
PARAMETERS = 5
COMMAND_PARAMETERS = 8
PUBLIC_METHODS = 12

Function = ast.FunctionDef | ast.AsyncFunctionDef


def where(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[tuple[str, Function]]:
    yield from _functions(where(path) + "::", ast.parse(path.read_text()))


def _functions(prefix: str, node: ast.AST) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield prefix + child.name, child
        inner = f"{prefix}{child.name}." if isinstance(child, Function | ast.ClassDef) else prefix
        yield from _functions(inner, child)


def parameters(function: Function) -> int:
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def test_modules_are_short() -> None:
    findings = {}
    for path in python_files("src", "perf", "tests"):
        limit = TEST_MODULE_LINES if where(path).startswith("tests/") else MODULE_LINES
        lines = len(path.read_text().splitlines())
        if lines > limit:
            findings[where(path)] = f"{where(path)} has {lines} lines, more than {limit}"
    assert unexcused("module_lines", findings) == []


def test_functions_are_short() -> None:
    findings = {}
    for path in python_files("src", "perf", "tests"):
        for place, function in functions(path):
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > FUNCTION_LINES:
                findings[place] = f"{place} has {lines} lines, more than {FUNCTION_LINES}"
    assert unexcused("function_lines", findings) == []


def test_functions_have_few_parameters() -> None:
    findings = {}
    for path in python_files("src", "perf"):
        limit = COMMAND_PARAMETERS if where(path).startswith("src/benchyard/cli/") else PARAMETERS
        for place, function in functions(path):
            if parameters(function) > limit:
                findings[place] = f"{place} has {parameters(function)} parameters, more than {limit}"
    assert unexcused("parameters", findings) == []


def test_classes_have_few_public_methods() -> None:
    findings = {}
    for path in python_files("src", "perf"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef):
                continue
            names = [each.name for each in node.body if isinstance(each, Function)]
            public = [name for name in names if not name.startswith(("_", "test_"))]
            place = f"{where(path)}::{node.name}"
            if len(public) > PUBLIC_METHODS:
                findings[place] = f"{place} has {len(public)} public methods, more than {PUBLIC_METHODS}"
    assert unexcused("public_methods", findings) == []
