"""Files that commands write: a reader sees the whole new content, or what was there before."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchyard.errors import UsageError


def replace_file(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file beside its place, and put it there when it is whole.

    Raises UsageError if there is no such folder.
    """
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}; make it first")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    os.close(handle)
    try:
        write(Path(name))
        Path(name).chmod(0o644)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, whatever the locale is."""

    def write(place: Path) -> None:
        place.write_bytes(text.encode(errors="replace"))

    replace_file(path, write)
