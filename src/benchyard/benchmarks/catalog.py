"""The public benchmarks, found by any of their names."""

import re
from typing import Any

from benchyard import registry
from benchyard.benchmarks.base import PublicBenchmark
from benchyard.errors import UsageError
from benchyard.registry import nearest

_ROOM = "benchmarks"
_SEPARATORS = re.compile(r"[^a-z0-9]+")


def names() -> list[str]:
    """Return the names of all public benchmarks, in order."""
    return registry.names(_ROOM)


def load(name: str) -> PublicBenchmark:
    """Return the benchmark of exactly that name; raises NotFound."""
    found: Any = registry.load(_ROOM, name)
    benchmark: PublicBenchmark = found()
    return benchmark


def canonical_name(given: str) -> str | None:
    """Return the name of the benchmark that has this name, title or alias; None if none has."""
    known = names()
    if given in known:
        return given
    plain = _plain(given)
    for name in known:
        about = load(name).about
        if plain in {_plain(alias) for alias in (name, about.title, *about.aliases)}:
            return name
    return None


def require_name(given: str) -> str:
    """Return the name like `canonical_name`; raises UsageError with the known names."""
    name = canonical_name(given)
    if name is None:
        raise UsageError(
            f"no public benchmark is called {given[:200]!r}{nearest(given, names())}; there are: "
            f"{', '.join(names())}. A folder, or the address of a git repository, can be imported too"
        )
    return name


def _plain(text: str) -> str:
    return _SEPARATORS.sub("-", text.lower()).strip("-")
