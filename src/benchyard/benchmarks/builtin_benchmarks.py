"""The benchmarks that are shipped with Benchyard."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

_HERE = Path(__file__).parent
TEMPLATE = _HERE / "template"
"""Folder that `scenario new` copies."""
_NAMES = ("quickstart",)


def folders() -> list[Path]:
    """Return the folder of each shipped benchmark."""
    return [_HERE / name for name in _NAMES]


def files(folder: Path) -> Iterator[Path]:
    """Yield the shipped files of a folder, in a stable order; skip files that Python or an editor left."""
    for here, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if name != "__pycache__")
        yield from (Path(here) / name for name in sorted(names) if not name.startswith("."))


def digest(folder: Path) -> str:
    """Return a digest that changes when anything in the folder does."""
    found = hashlib.sha256()
    for path in files(folder):
        content = path.read_bytes()
        found.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return found.hexdigest()
