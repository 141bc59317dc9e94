"""Names a stranger would search for: small folders, modules that are nouns, classes that stand once."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.house.tree import PACKAGE, ROOT, Module, modules, unexcused

MOST_MODULES = 25
LISTS = frozenset(
    {"api/routes", "agents", "store/migrations/versions", "client/sdk", "reports/problems/signals"}
)
"""Folders that are plain lists of like things, as long as there are such things."""

NOUNS = frozenset(
    {
        "grading",
        "logging",
        "rescoring",
        "routing",
        "running",
        "scoring",
        "string",
        "testing",
        "tracing",
        "training",
    }
)
"""Words of the field that look like a gerund, and one adjective."""
PARTICIPLES = re.compile(
    r"^(asked|based|begun|broken|built|changed|given|gone|held|kept|left|listed|made|marked|meant|named|packed"
    r"|remained|said|shown|shipped|taken|told|used|wanted|written)$"
)

OWN_CLASSES = frozenset({"Config"})
"""Names that every module of a kind gives to the same thing."""
OWN_ROOMS = ("benchyard.client",)
"""Rooms whose classes carry the names of the nouns that the server's classes have too."""

RIDDLES = frozenset(
    {
        "What",
        "Who",
        "Whoever",
        "Whose",
        "Nobody",
        "Nothing",
        "Something",
        "Everything",
        "Anything",
        "One",
        "Whether",
        "How",
        "Where",
        "Which",
        "Why",
        "When",
        "Those",
        "Such",
        "It",
        "Its",
        "That",
        "There",
        "This",
        "Somebody",
        "Anybody",
    }
)
"""First words of sentences that name neither an action nor the thing."""


def folder_of(module: Module) -> str:
    return module.path.parent.relative_to(PACKAGE).as_posix()


def test_folders_can_be_surveyed() -> None:
    sizes = Counter(folder_of(module) for module in modules() if module.path.name != "__init__.py")
    crowded = {folder: size for folder, size in sizes.items() if size > MOST_MODULES and folder not in LISTS}
    assert crowded == {}, f"make folders by noun: at most {MOST_MODULES} modules each"


def test_modules_are_named_by_nouns() -> None:
    findings = {}
    for module in modules():
        for word in module.path.stem.strip("_").split("_"):
            if (word.endswith("ing") and word not in NOUNS) or PARTICIPLES.match(word):
                findings[module.where] = f"{module.where}: {word!r} is no noun that one would search for"
    assert unexcused("module_names", findings) == []


def public_classes() -> Iterator[tuple[str, str]]:
    for module in modules():
        if module.name.startswith(OWN_ROOMS):
            continue
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and node.name[0] != "_" and node.name not in OWN_CLASSES:
                yield node.name, module.where


def test_a_class_name_stands_once() -> None:
    places = defaultdict(list)
    for name, where in public_classes():
        places[name].append(where)
    findings = {name: f"{name}: {', '.join(where)}" for name, where in places.items() if len(where) > 1}
    assert unexcused("class_names", findings) == []


def glossary() -> list[str]:
    """The words of ARCHITECTURE's table, in order."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    table = re.search(r"^## Words\n(.*?)^## ", text, re.M | re.S)
    assert table, "ARCHITECTURE.md has no table of words"
    return [
        word
        for row in re.findall(r"^\| (\*\*.*?) \|", table[1], re.M)
        for word in re.findall(r"\*\*(.+?)\*\*", row)
    ]


def test_the_glossary_has_each_word_once() -> None:
    assert [word for word, count in Counter(glossary()).items() if count > 1] == []


def docstrings() -> Iterator[tuple[str, str]]:
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield f"{module.where}::{getattr(node, 'name', '')}", text


def test_docstrings_begin_with_a_verb_or_the_name_of_the_thing() -> None:
    riddles = [
        f"{where}: {text.splitlines()[0]}" for where, text in docstrings() if text.split()[0] in RIDDLES
    ]
    assert riddles == []
