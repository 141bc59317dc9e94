"""Every regular expression of the package takes time in proportion to the text, whatever the text is.

Patterns are found by themselves: those that modules and classes hold, and those written where they are used.
Each is tried with texts that are made from its own letters, so that it nearly fits in many ways.
"""

import ast
import importlib
import itertools
import pkgutil
import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

import benchyard
from tests.house.tree import Module, modules

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import sre_parse

APART = ("benchyard.testing", "benchyard.scripted_model", "benchyard.__main__")
"""Tests with scripts of their own are nobody else's text."""
ANCHORED = {"match", "fullmatch"}
SCANNING = {"search", "findall", "finditer", "sub", "subn", "split"}
SMALL, LARGE = 3_000, 6_000
SUSPICIOUS_SECONDS = 0.001
"""For a small text; what is quadratic takes far more."""
MOST_GROWTH = 3.2
_MOST_ATOMS = 7
_MOST_BEGINS = 16
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_FILLINGS = (" ", "\n", "a", "1")
"""What parts at the end of a pattern may take in or leave to the next part."""
_LONG_SECONDS = 0.05
_NOTHING = "\x01"
"""What fits no pattern."""
"""When a text is twice as long: 2 is linear, 4 is quadratic."""
DYNAMIC: dict[str, list[Any]] = {
    "api/ssh/sftp.py": [rb"0123456789abcdef (\d+)\n"],
    "client/build_context.py": [r"(?:.*/)?a[^/]*b[^/]*"],
    "client/validation.py": [re.compile(r"^validated_isolation: *{.*\n", re.M)],
    "engine/images/build_log.py": ["aaaaaaaa|aaaaaaab|b"],
    "engine/runs/scorer_output.py": [r"/home/user/(?=[^\s/])"],
    "gateway/proxy/masks.py": [rb"sk\-aaaa|sk\-aaab|c2st", rb"[sc]"],
    "images/dockerfile/bases.py": [r"((?:=|,)from=)debian:12(?=,|$)"],
    "images/host_image.py": [r"libcap[-.\w]*"],
    "images/user_layer.py": [re.compile(rb"^(sudo:[^:\n]*:[^:\n]*:)([^:\n]*)$", re.M)],
    "registry.py": [re.compile(r"^class NativeDriver\b", re.M)],
    "scorers/standalone/bigcodebench_input.py": [re.compile(r"^[^\S\n]*(async )?def task_func\b", re.M)],
    "scorers/standalone/polyglot_parsers.py": [rb"^=+ (?:\d+ \w+, )*\d+ passed(?:, \d+ \w+)* in [^\n]+=$"],
    "scorers/verifier/replacements/apt.py": [re.compile("^Package: libc6\nStatus: (.*)$", re.M)],
    "scorers/verifier/replacements/fetch.py": [r"-[A-Za-z]*?o(.*)"],
}
"""Patterns that are put together while the program runs, as they may come out; others must be added here."""
ELSEWHERE = {"engine/devboxes/terminals.py", "scorers/standalone/parsers.py"}
"""Where the pattern is given by another module, in which it is found."""
IN_WORKERS = {"models/conditions.py"}
"""Where the pattern is a client's: only a worker with a time limit looks for it, or the client itself."""
OWN_TEXT = {
    "benchyard.images.host_image._SETTING": "files of the server's own machine",
    "benchyard.images.builders.disk_watch._UPPER": "the kernel's list of mounts",
    "benchyard.scorers.verifier.replacements.tool": "an argument of a program in the room",
    "client/build_context.py": "the user's own file, on the user's machine",
}
"""Patterns that see no text of others on the server, and why."""


@dataclass(frozen=True)
class Found:
    """A pattern, and how it is used."""

    place: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]

    def __str__(self) -> str:
        return f"{self.place}: {self.pattern.pattern!r}"


def names() -> Iterator[str]:
    for each in pkgutil.walk_packages(benchyard.__path__, "benchyard."):
        if not each.name.startswith(APART) and "quickstart" not in each.name:
            yield each.name


def held(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from held(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from held(each)


def usage(tree: ast.Module) -> dict[str, set[str]]:
    """Name -> the methods that are called on it, or on something that is taken from it."""
    found: dict[str, set[str]] = {}
    others: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        # What a pattern found has methods of the same names.
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and not _uses(node.value):
            others.setdefault(node.targets[0].id, set()).update(_names(node.value))
        if isinstance(node, ast.Attribute) and node.attr in ANCHORED | SCANNING:
            for name in _names(node.value):
                for each in (name, *others.get(name, ())):
                    found.setdefault(each, set()).add(node.attr)
    return found


def _uses(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Attribute) and each.attr in ANCHORED | SCANNING for each in ast.walk(node)
    )


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def constant(node: ast.expr) -> Any:
    return node.value if isinstance(node, ast.Constant) else None


def inline(module: Module) -> Iterator[tuple[Any, int, str, ast.Call]]:
    """Patterns that are written in functions, with their flags and use; None for those put together."""
    top = {id(node) for statement in module.tree.body for node in _outer(statement)}
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or id(node) in top or not isinstance(node.func, ast.Attribute):
            continue
        if not isinstance(node.func.value, ast.Name) or node.func.value.id != "re" or not node.args:
            continue
        if node.func.attr not in {"compile", *ANCHORED, *SCANNING}:
            continue
        flags = 0
        for each in ast.walk(ast.Module([ast.Expr(part) for part in _flags(node)], [])):
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "re":
                flags |= getattr(re, each.attr)
        yield constant(node.args[0]), flags, node.func.attr, node


def _flags(node: ast.Call) -> list[ast.expr]:
    return [*node.args[1:], *(each.value for each in node.keywords)]


def _outer(statement: ast.stmt) -> Iterator[ast.AST]:
    """What is done when a module is imported."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    yield statement
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield from _outer(child)
        else:
            yield from ast.walk(child)


def sources() -> dict[str, Module]:
    return {module.name: module for module in modules()}


def of_modules() -> Iterator[Found]:
    for name in names():
        if name not in sources():
            continue
        used = usage(sources()[name].tree)
        module = importlib.import_module(name)
        owners: dict[str, Any] = {name: module}
        for key, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == name:
                owners[f"{name}.{key}"] = value
        for place, owner in owners.items():
            for key, value in vars(owner).items():
                for pattern in held(value):
                    yield Found(f"{place}.{key}", pattern, frozenset(used.get(key, SCANNING)))


def of_functions() -> Iterator[Found]:
    for name, module in sources().items():
        if name.startswith(APART):
            continue
        for text, flags, method, node in inline(module):
            if text is not None:
                yield Found(f"{name}:{node.lineno}", re.compile(text, flags), frozenset({method}))
    for place, patterns in DYNAMIC.items():
        for each in patterns:
            yield Found(place, re.compile(each), frozenset(SCANNING))


@cache
def every() -> dict[tuple[Any, int], Found]:
    found: dict[tuple[Any, int], Found] = {}
    for each in (*of_modules(), *of_functions()):
        key = (each.pattern.pattern, each.pattern.flags)
        methods = found[key].methods if key in found else frozenset()
        found[key] = Found(each.place, each.pattern, methods | each.methods)
    return {key: each for key, each in found.items() if not each.place.startswith(tuple(OWN_TEXT))}


def letters(parsed: Any) -> Iterator[str]:  # noqa: C901  a branch for each part of a pattern
    """Texts that parts of a pattern fit: its literals in a row, and one letter of each class."""
    run = ""
    for code, argument in parsed:
        name = str(code)
        if name == "LITERAL":
            run += chr(argument)
            continue
        if run:
            yield run
            run = ""
        if name == "IN":
            yield from _of_class(argument)
        elif name in ("ANY", "NOT_LITERAL"):
            yield "x"
        elif name == "BRANCH":
            for each in argument[1]:
                yield from letters(each)
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            yield from letters(argument[2])
        elif name == "SUBPATTERN":
            yield from letters(argument[3])
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from letters(argument[1])
        elif name == "ATOMIC_GROUP":
            yield from letters(argument)
    if run:
        yield run


def _of_class(parts: Any) -> Iterator[str]:
    shown = {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a"}
    negated = any(str(code) == "NEGATE" for code, _ in parts)
    for code, argument in list(parts)[:6]:
        if str(code) == "LITERAL" and not negated:
            yield chr(argument)
        elif str(code) == "RANGE" and not negated:
            yield chr(argument[0])
        elif str(code) == "CATEGORY":
            yield shown.get(str(argument), "x")
    if negated:
        yield "x"


def example(parsed: Any) -> str:
    """A text that a part of a pattern fits, as short as it goes but for one of what may be left out."""
    made = ""
    for code, argument in parsed:
        name = str(code)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            made += example(argument[2]) * max(1, argument[0])
        elif name == "SUBPATTERN":
            made += example(argument[3])
        elif name == "ATOMIC_GROUP":
            made += example(argument)
        elif name == "BRANCH":
            made += example(argument[1][0])
        elif name not in ("ASSERT", "ASSERT_NOT"):
            made += next(letters([(code, argument)]), "")
    return made


def parts(parsed: Any, wanted: tuple[str, ...]) -> Iterator[Any]:
    """The parts of these kinds, however deep."""
    for code, argument in parsed:
        name = str(code)
        inner: list[Any] = []
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            inner = [argument[2]]
        elif name == "SUBPATTERN":
            inner = [argument[3]]
        elif name in ("ASSERT", "ASSERT_NOT"):
            inner = [argument[1]]
        elif name == "ATOMIC_GROUP":
            inner = [argument]
        elif name == "BRANCH":
            inner = list(argument[1])
        for each in inner:
            if name in wanted:
                yield each
            yield from parts(each, wanted)


def parsed_of(pattern: re.Pattern[Any]) -> Any:
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    return sre_parse.parse(source, pattern.flags)


def some(texts: Iterator[str], most: int) -> list[str]:
    return list(dict.fromkeys(filter(None, texts)))[:most]


def families(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """What stands at the beginning of a text, what follows it again and again, and what at its end."""
    parsed = parsed_of(pattern)
    own = some(letters(parsed), _MOST_ATOMS)
    repeated = some(
        (example(each) for each in parts(parsed, ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"))), 5
    )
    after = some((text for each in parts(parsed, ("ASSERT", "ASSERT_NOT")) for text in letters(each)), 3)
    others = list(dict.fromkeys([*own, " ", "\n"]))
    for first, second in itertools.product(others, others):
        yield "", first if first == second else first + second, _NOTHING
    for atom in own:
        yield "", "".join(own) + atom, _NOTHING
    for index, atom in enumerate(own):
        yield "".join(own[:index]), atom, _NOTHING
    for atom in (" ", "\t", "\n", "a", "1", ",", "."):
        yield "".join(own[:1]), atom, _NOTHING
    for unit, end in itertools.product(repeated, (_NOTHING, *itertools.product(after, after))):
        yield example(parsed[:1]), unit, "".join(end)
    yield from _late_families(parsed)


def _late_families(parsed: Any) -> Iterator[tuple[str, str, str]]:
    """What fits a pattern up to one of its parts, and then much of that part; and that piece repeated."""
    flat = list(_unnested(parsed))
    cuts = [
        at for at in range(1, len(flat) + 1) if not all(_is_literal(each) for each in flat[at - 1 : at + 1])
    ]
    begins = some((made(flat[:at]) for at in cuts for made in (example, least)), _MOST_BEGINS)
    for begin, unit, end in itertools.product(begins, _FILLINGS, (_NOTHING, "x")):
        yield begin, unit, end
    for begin in begins:
        # Lines of their own too, which a pattern takes for its begin, its middle or its end.
        for unit in (begin, f"{begin}\n", f"{begin} "):
            yield "", unit, _NOTHING
    repeats = [at for at, (code, _) in enumerate(flat) if str(code) in _REPEATS]
    for at in repeats:
        unit = example(flat[at : at + 1])
        for repeated in filter(None, (unit, f"{unit}\n")):
            yield example(flat[:at]), repeated, _NOTHING


def _is_literal(part: Any) -> bool:
    return str(part[0]) == "LITERAL"


def _unnested(parsed: Any) -> Iterator[Any]:
    """Yield the parts of a pattern in their order, those of groups in place of the group."""
    for code, argument in parsed:
        if str(code) == "SUBPATTERN":
            yield from _unnested(argument[3])
        elif str(code) == "ATOMIC_GROUP":
            yield from _unnested(argument)
        else:
            yield code, argument


def least(parsed: Any) -> str:
    """Return a text that parts of a pattern fit, without what may be left out."""
    return example([part for part in parsed if str(part[0]) not in _REPEATS or part[1][0]])


def text_of(family: tuple[str, str, str], size: int) -> str:
    start, unit, end = family
    return start + unit * max(1, size // len(unit)) + end


def seconds(found: Found, text: str) -> float:
    given: Any = text if isinstance(found.pattern.pattern, str) else text.encode()
    begin = time.process_time()
    if found.methods & SCANNING or "compile" in found.methods:
        for _ in found.pattern.finditer(given):
            pass
    for method in found.methods & ANCHORED:
        getattr(found.pattern, method)(given)
    return time.process_time() - begin


def growth(found: Found, family: tuple[str, str, str]) -> float:
    """How many times as long it takes over a text twice as long."""
    small, large = (
        min(seconds(found, text_of(family, size)) for _ in range(5)) for size in (LARGE, 2 * LARGE)
    )
    return large / max(small, 1e-9)


def troubles(found: Found) -> Iterator[str]:
    for size in (22, 32, 50, 80, 300):
        # What takes longer than a moment here would not end with more.
        for family in families(found.pattern):
            if seconds(found, text_of(family, size)) > _LONG_SECONDS:
                yield f"{found} takes for ever over {family}"
                return
    for family in families(found.pattern):
        text = text_of(family, SMALL)
        if seconds(found, text) > SUSPICIOUS_SECONDS and (grown := growth(found, family)) > MOST_GROWTH:
            yield f"{found}: x{grown:.1f} per doubling of {family}"


def test_patterns_are_found() -> None:
    places = {each.place for each in every().values()}
    assert len(places) > 100
    assert "benchyard.scorers.graders.gpqa._ANSWER" in places
    assert "benchyard.scorers.polyglot_toolchains.GoLanguage.passed" in places


def test_patterns_that_are_put_together_are_known() -> None:
    found = {
        str(module.path.relative_to(benchyard.__path__[0]))
        for name, module in sources().items()
        if not name.startswith(APART)
        for text, _, _, _ in inline(module)
        if text is None
    }
    assert found - ELSEWHERE - IN_WORKERS == DYNAMIC.keys(), "add an example of the pattern to DYNAMIC"


@pytest.mark.parametrize("part", range(4))
def test_no_text_takes_a_pattern_more_than_its_share_of_time(part: int) -> None:
    assert [
        each for found in list(every().values())[part::4] for each in itertools.islice(troubles(found), 1)
    ] == []


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?<![0-9.])(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?!\.?[0-9]|,[0-9]{3}(?![0-9]))",
        r"^[ \t]*```[^\n`]*\n([\s\S]*?)^[ \t]*```[ \t]*$",
        r"^\s*(async )?def f\b",
        r"\^\s*\{?\s*\\circ",
        r"[^)]*\)x",
        r"^(a+)+$",
        r"#\s*([a-zA-Z][a-zA-Z0-9]*)\s*=\s*(.+?)\s*$",
        r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$",
    ],
)
def test_a_pattern_that_takes_too_long_is_reported(pattern: str) -> None:
    found = Found("here", re.compile(pattern, re.MULTILINE), frozenset({"search"}))
    assert next(troubles(found), None) is not None
