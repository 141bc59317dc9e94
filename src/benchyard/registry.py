"""Extensions by name: the folder is the list, entry points serve outsiders.

A room's extension is a module that defines the class named after it: `fake` defines `FakeDriver`. It may be a
folder with a module of its kind in it: `native/driver` defines `NativeDriver`. Modules that do not are the
room's own business. A room may also have a folder of extensions that are all alike: each module there is one,
and one function of the room makes their classes. Outsiders register the class under the entry point group
`benchyard.<room>`, with the name they want it to have.
"""

import difflib
import functools
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchyard.errors import NotFound, NotSupported

SIGNALS = "reports.problems.signals"
"""The room of the signals of problems."""
_KINDS = {
    "devboxes": "Driver",
    "scorers": "Scorer",
    "agents": "Agent",
    "benchmarks": "Benchmark",
    SIGNALS: "Signal",
}
"""Room -> the contract its extensions implement, which is how their class names end."""

_FAMILIES = {"scorers": ("graders", "answers")}
"""Room -> a folder of extensions that are alike, and the module whose `class_of` makes their classes."""
_LONGEST_NAME = 256


def names(room: str) -> list[str]:
    """The extensions of a room, in order, found without importing any of them."""
    return list(_names_in(room, tuple(sys.path)))


def load(room: str, name: str) -> type[Any]:
    """The class of that name; raises NotFound, or NotSupported if it cannot be imported."""
    return _load_from(room, name, tuple(sys.path))


@functools.cache
def _load_from(room: str, name: str, path: tuple[str, ...]) -> type[Any]:
    """Load the class; the result is remembered for this import path."""
    if name not in names(room):
        raise NotFound(f"no {_KINDS[room].lower()} is called {name!r}; there are: {', '.join(names(room))}")
    try:
        for entry in _entry_points(room):
            if entry.name == name:
                return _checked(entry.load(), name)
        if name in _family(room):
            return _class_of_family(room, name)
        module = importlib.import_module(_module_of(room, name.replace("-", "_")))
    except ImportError as error:
        raise NotSupported(
            f"{name!r} cannot be loaded: {error}; install what it needs, or choose another of: "
            f"{', '.join(names(room))}"
        ) from error
    return _checked(getattr(module, _class_name(room, name)), name)


def nearest(given: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for a name that is close to one of these, else nothing."""
    close = difflib.get_close_matches(given[:_LONGEST_NAME], list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


@functools.cache
def _own(room: str) -> frozenset[str]:
    """Our own extensions of a room: they do not change while we run."""
    package = importlib.import_module(f"benchyard.{room}")
    return frozenset(
        _shown(module.name)
        for module in pkgutil.iter_modules(package.__path__)
        if _defines(room, module.name)
    ) | _family(room)


@functools.cache
def _family(room: str) -> frozenset[str]:
    """Return those of our own extensions that are modules of a folder of likes."""
    if room not in _FAMILIES:
        return frozenset()
    folder = importlib.import_module(f"benchyard.{room}.{_FAMILIES[room][0]}")
    return frozenset(_shown(module.name) for module in pkgutil.iter_modules(folder.__path__))


def _class_of_family(room: str, name: str) -> type[Any]:
    folder, maker = _FAMILIES[room]
    module = importlib.import_module(f"benchyard.{room}.{folder}.{name.replace('-', '_')}")
    made: type[Any] = importlib.import_module(f"benchyard.{room}.{maker}").class_of(module)
    return made


@functools.cache
def _names_in(room: str, path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(_own(room) | {entry.name for entry in _entry_points_in(room, path)}))


def _entry_points(room: str) -> importlib.metadata.EntryPoints:
    return _entry_points_in(room, tuple(sys.path))


def _entry_points_in(room: str, path: tuple[str, ...]) -> importlib.metadata.EntryPoints:
    found: importlib.metadata.EntryPoints = _all_entry_points(path).select(group=f"benchyard.{room}")
    return found


@functools.cache
def _all_entry_points(path: tuple[str, ...]) -> Any:
    """Entry points of the packages on this path; reading them takes milliseconds, so it is done once."""
    return importlib.metadata.entry_points()


def _checked(found: Any, name: str) -> type[Any]:
    if not isinstance(found, type):
        raise NotSupported(f"the entry point {name!r} names {found!r}, which is not a class")
    return found


def _shown(module: str) -> str:
    return module.replace("_", "-")


def _class_name(room: str, name: str) -> str:
    words = re.split("[-_]", name)
    return "".join(word[:1].upper() + word[1:] for word in words) + _KINDS[room]


def _module_of(room: str, name: str) -> str:
    """The module of an extension: one of that name, or the one of its kind in the folder of that name."""
    module = f"benchyard.{room}.{name}"
    spec = importlib.util.find_spec(module)
    is_folder = spec is not None and spec.submodule_search_locations is not None
    return f"{module}.{_KINDS[room].lower()}" if is_folder else module


def _defines(room: str, name: str) -> bool:
    try:
        spec = importlib.util.find_spec(_module_of(room, name))
    except ModuleNotFoundError:
        return False
    if spec is None or spec.origin is None:
        return False
    source = Path(spec.origin).read_text(encoding="utf-8")
    return bool(re.search(rf"^class {_class_name(room, name)}\b", source, re.MULTILINE))
