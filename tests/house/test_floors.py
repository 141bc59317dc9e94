"""Imports point down: the floors are read from ARCHITECTURE.md, so that the page and the code cannot part."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.house.tree import ROOT, Import, Module, imports, modules

SAME_FLOOR = {("images", "benchyard.devboxes.base")}
"""An image is made for a driver to start: the store speaks in the driver contract's dataclasses."""


@cache
def floors() -> dict[str, int]:
    """room -> floor, 0 at the ground, from the block under "Floors"."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    block = re.search(r"^## Floors\n.*?^```text\n(.*?)^```", text, re.M | re.S)
    assert block, "ARCHITECTURE.md has no block of floors"
    lines = block[1].strip().splitlines()
    return {room: floor for floor, line in enumerate(reversed(lines)) for room in line.split(" · ")}


def first_party() -> Iterator[Import]:
    for module in modules():
        yield from imports(module)


def points_down(each: Import) -> bool:
    importer, target = each.importer.room, each.room
    if importer == "__main__":
        return target == "cli"
    if importer == target or each.target == "benchyard" or (importer, each.target) in SAME_FLOOR:
        return True
    return importer in floors() and target in floors() and floors()[importer] > floors()[target]


def test_every_room_has_a_floor() -> None:
    rooms = {module.room for module in modules()} - {"", "__main__"}
    assert rooms <= floors().keys(), "name the new room in ARCHITECTURE.md, under Floors"


def test_imports_point_down() -> None:
    assert [str(each) for each in first_party() if not points_down(each)] == []


def test_no_ring_of_modules() -> None:
    below = {module.name: {each.target for each in imports(module)} - {module.name} for module in modules()}
    while free := {name for name, targets in below.items() if not targets & below.keys()}:
        below = {name: targets for name, targets in below.items() if name not in free}
    assert below == {}, "these modules import each other in a ring"


def inner_imports(module: Module) -> Iterator[int]:
    top = {id(node) for node in module.tree.body}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in top:
            yield node.lineno


def test_first_party_imports_stand_at_the_top() -> None:
    hidden = [
        str(each)
        for module in modules()
        for inner in [set(inner_imports(module))]
        for each in imports(module)
        if each.line in inner
    ]
    assert hidden == []


def test_no_import_for_types_only() -> None:
    dodges = [
        module.where
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name | ast.alias)
        and (node.id if isinstance(node, ast.Name) else node.name) == "TYPE_CHECKING"
    ]
    assert dodges == []
