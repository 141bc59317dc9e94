"""The public benchmarks there are, by any of the names that people know them by."""

import re
from typing import Any

from benchyard import registry
from benchyard.benchmarks.base import PublicBenchmark
from benchyard.errors import UsageError
from benchyard.registry import nearest

_ROOM = "benchmarks"
_SEPARATORS = re.compile(r"[^a-z0-9]+")


def names() -> list[str]:
    """The names of all of them, in order."""
    return registry.names(_ROOM)


def load(name: str) -> PublicBenchmark:
    """The benchmark of that name, and no other; raises NotFound."""
    found: Any = registry.load(_ROOM, name)
    benchmark: PublicBenchmark = found()
    return benchmark


def canonical_name(given: str) -> str | None:
    """The name of the benchmark that is meant by its name, title or an alias; None if none is."""
    known = names()
    if given in known:
        return given
    wanted = _plain(given)
    for name in known:
        about = load(name).about
        if wanted in {_plain(each) for each in (name, about.title, *about.aliases)}:
            return name
    return None


def require_name(given: str) -> str:
    """As `canonical`; raises UsageError with the names there are."""
    found = canonical_name(given)
    if found is None:
        raise UsageError(
            f"no public benchmark is called {given[:200]!r}{nearest(given, names())}; there are: "
            f"{', '.join(names())}. A folder, or the address of a git repository, can be imported too"
        )
    return found


def _plain(text: str) -> str:
    return _SEPARATORS.sub("-", text.lower()).strip("-")
