"""Names a stranger would search for: small folders, modules that are nouns, classes that stand once."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

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

MEANINGS = {
    "agent": "agents api benchmarks cli client engine gateway/trajectory models reports testing",
    "answer": "engine/runs hosts reports scorers testing",
    "attachment": "engine models",
    "door": "devboxes engine gateway hosts images/builders models testing",
    "gate": "cli models reports",
    "grant": "engine gateway",
    "job": "api cli client engine models reports store",
    "kit": "hosts scorers images/builders/buildkit images/builders/buildkit_output",
    "label": "models/results",
    "place": "engine/jobs",
    "reward": "models scorers",
    "room": "engine/runs scorers testing",
    "round": "engine models",
    "stage": "engine/jobs models reports",
    "trial": "api cli client engine/jobs engine/judge engine/reported_jobs models reports store",
    "upstream": "engine gateway settings",
}
"""Words of the glossary that are at hand for other things too, and the rooms where they mean what it says.

Elsewhere the other thing needs another word: a reply of a model, a response of a server, a span of a file.
"""
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")

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


def named_things() -> Iterator[tuple[str, Module]]:
    """The names of all modules and classes, private ones too, with the module."""
    for module in modules():
        yield module.path.stem, module
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                yield node.name, module


def is_in_room(module: Module, rooms: str) -> bool:
    where = module.path.relative_to(PACKAGE).with_suffix("").as_posix()
    return any(where == room or where.startswith(f"{room}/") for room in rooms.split())


def misused_words(names: Iterable[tuple[str, Module]]) -> dict[str, str]:
    """Return the names that use a word of the glossary in a room where it does not have its meaning."""
    findings = {}
    for name, module in names:
        for word in (part.lower() for part in WORD.findall(name)):
            rooms = MEANINGS.get(word) or MEANINGS.get(word.removesuffix("s"))
            if rooms and not is_in_room(module, rooms):
                findings[f"{module.where}::{name}"] = (
                    f"{module.where}: {name} uses {word!r}, which means something else in ARCHITECTURE.md"
                )
    return findings


def test_a_word_of_the_glossary_means_one_thing_in_names() -> None:
    assert unexcused("glossary", misused_words(named_things())) == []


def test_a_job_of_a_builder_is_found() -> None:
    builder = next(
        module for module in modules() if module.name == "benchyard.images.builders.engine_builder"
    )
    assert list(misused_words([("_Job", builder), ("BuildJobs", builder), ("Jobless", builder)])) == [
        f"{builder.where}::_Job",
        f"{builder.where}::BuildJobs",
    ]


def test_words_that_are_checked_are_in_the_glossary() -> None:
    assert sorted(set(MEANINGS) - set(glossary())) == []


def docstrings() -> Iterator[tuple[str, str]]:
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield f"{module.where}::{getattr(node, 'name', '')}", text
            for name, text in field_texts(getattr(node, "body", None)):
                yield f"{module.where}::{name}", text


def field_texts(body: object) -> Iterator[tuple[str, str]]:
    """The strings that stand under fields and constants."""
    if not isinstance(body, list):
        return
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign | ast.Assign) and isinstance(below, ast.Expr):
            text = below.value.value if isinstance(below.value, ast.Constant) else None
            if isinstance(text, str):
                target = field.target if isinstance(field, ast.AnnAssign) else field.targets[0]
                yield ast.unparse(target), text


def test_docstrings_begin_with_a_verb_or_the_name_of_the_thing() -> None:
    riddles = [
        f"{where}: {text.splitlines()[0]}" for where, text in docstrings() if text.split()[0] in RIDDLES
    ]
    assert riddles == []
