"""A function that fits no screen gives its reason; ruff sees to those with too many branches (C901)."""

import ast
from collections.abc import Iterator

from tests.house.tree import modules, unexcused

MOST_LINES = 80


def long_functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The functions with more lines than fit a screen, with their number of lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if lines > MOST_LINES:
                yield node.name, lines


def test_a_long_function_gives_its_reason() -> None:
    findings = {
        f"{module.where}::{name}": f"{module.where}: {name} has {lines} lines; write its reason down"
        for module in modules()
        for name, lines in long_functions(module.tree)
    }
    assert unexcused("long_functions", findings) == []


def test_a_long_function_is_found() -> None:
    long = "async def long():\n" + "    pass\n" * MOST_LINES
    assert list(long_functions(ast.parse(long))) == [("long", MOST_LINES + 1)]
    assert list(long_functions(ast.parse("def short():\n" + "    pass\n" * (MOST_LINES - 1)))) == []
