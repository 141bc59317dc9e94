"""The benchmarks that come with us."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

_HERE = Path(__file__).parent
TEMPLATE = _HERE / "template"
"""What `scenario new` copies."""
_NAMES = ("quickstart",)


def folders() -> list[Path]:
    """The folder of each."""
    return [_HERE / name for name in _NAMES]


def files(folder: Path) -> Iterator[Path]:
    """Every file of a folder that came with us, in a stable order; what Python or an editor left is none."""
    for here, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if name != "__pycache__")
        yield from (Path(here) / name for name in sorted(names) if not name.startswith("."))


def digest(folder: Path) -> str:
    """Something that changes when anything in the folder does."""
    found = hashlib.sha256()
    for path in files(folder):
        content = path.read_bytes()
        found.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return found.hexdigest()
