"""A layer that carries the work done in one system over onto the state it began from.

The work is some folders and the visible part of a home. What programs read of a home by themselves, without
being told to, lies there in entries whose names begin with a dot: these stay as they were at the start, and
so does everything that is no work. Links are carried as they are: they lead to what is there at the start.
"""

import os
from collections.abc import Iterator, Sequence

from benchyard.devboxes.box.answer import Carrier, CarryRules, LimitReached, System, write_report
from benchyard.devboxes.box.place import Place
from benchyard.devboxes.box.stack import Stack, real_path

MOST_ENTRIES = 1_000_000
MOST_BYTES = 1024**4
"""Files are shared with the disk that was worked on, whose size its own limit bounds."""


def carry_work(
    source: System,
    onto: System,
    paths: Sequence[str],
    home: str | None,
    target: str,
    *,
    keep_owner: bool = True,
) -> None:
    """Fill the new folder `target` with the layer, and tell about it in a new file beside it."""
    os.mkdir(target, 0o755)
    rules = CarryRules(
        only_inner_links=False, drops_rights=True, most_entries=MOST_ENTRIES, most_bytes=MOST_BYTES
    )
    with Stack(*source) as first, Stack(*onto) as second, Place(target) as place:
        real_home = real_path(second, home) if home else None
        wanted = {real_path(second, path) for path in paths}
        carrier = Carrier((first, second), place, sorted(wanted), rules, keep_owner=keep_owner)
        exceeded = None
        if "/" in wanted:
            wanted.remove("/")
            carrier.refuse("/", "the working directory leads to everything")
        try:
            hidden: set[str] = set()
            for path in _outermost(_parts((first, second), wanted, real_home, hidden)):
                carrier.carry(path, machine=(*source[1], *onto[1]))
            for path in sorted(hidden):
                carrier.refuse(path, "programs read it of a home by themselves: it is as it was at the start")
            carrier.finish()
        except LimitReached as error:
            exceeded = str(error)
    told = {**carrier.result(), "exceeded": exceeded, "paths": sorted(wanted), "home": real_home}
    write_report(target, told)


def _parts(stacks: tuple[Stack, Stack], paths: set[str], home: str | None, hidden: set[str]) -> Iterator[str]:
    """The paths to carry whole, so that nothing hidden of the home is among them unless it is named.

    What is hidden in the home that was worked in is added to `hidden`.
    """
    for path in paths if home is None else {*paths, home}:
        if home is None or not f"{home}/".startswith(f"{path}/"):
            yield path
            continue
        # The home lies here: all beside the way to it, and of it what is visible.
        here = path
        while here != home:
            following = home.removeprefix(f"{here}/").partition("/")[0]
            for name in _names(stacks, here):
                if name != following:
                    yield f"{here}/{name}"
            here = f"{here}/{following}"
        for name in _names(stacks, home):
            if not name.startswith("."):
                yield f"{home}/{name}"
    if home is not None:
        named = tuple(f"{path}/" for path in paths)
        own = (f"{home}/{name}" for name in _names(stacks[:1], home) if name.startswith("."))
        begun = _names(stacks[1:], home)
        hidden.update(
            path
            for path in own
            if path.rpartition("/")[2] not in begun and not any(each.startswith(f"{path}/") for each in named)
        )


def _names(stacks: Sequence[Stack], folder: str) -> set[str]:
    """The names of what any of these systems has in a folder; links on the way are not followed."""
    found: set[str] = set()
    parts = folder.split("/")[1:]
    for stack in stacks:
        if stack.descend(parts) == len(parts):
            found.update(stack.names())
        while stack.depth:
            stack.up()
    return found


def _outermost(paths: Iterator[str]) -> list[str]:
    found: list[str] = []
    for path in sorted(set(paths), key=lambda each: each.split("/")):
        if not found or not f"{path}/".startswith(f"{found[-1]}/"):
            found.append(path)
    return found
