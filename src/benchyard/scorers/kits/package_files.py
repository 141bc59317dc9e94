"""Files of packages, adapted to the path of their kit by a process of its own.

Packages have hundreds of thousands of files, and libraries of a gigabyte: the server's memory would grow by
what it looks at, and would not shrink again.
"""

import contextlib
import os
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from benchyard.devboxes import elf

TOO_LARGE = 3
"""Exit status of the process for packages that take too many bytes; its output tells how many."""
_LONGEST_FIRST_LINE = 4096
_PART = ".benchyard-part"


def fit_all(folder: Path, own: str, loader: str, most_bytes: int) -> int:
    """Adapt all files of an environment; return their size, and change nothing if it is above `most_bytes`.

    `own` is the path where the environment is shown, `loader` the loader of the Python below it.
    """
    total = sum(path.lstat().st_size for path in _files(folder))
    if total <= most_bytes:
        for path in _files(folder):
            fit(path, own, loader, is_beside_python=path.parent == folder / "bin")
    return total


def _files(folder: Path) -> Iterator[Path]:
    """Yield the plain files of a tree, of which only one folder at a time is held in memory."""
    for here, _folders, names in os.walk(folder):
        for name in names:
            path = Path(here, name)
            if path.is_file() and not path.is_symlink() and not name.endswith(_PART):
                yield path


def fit(path: Path, own: str, loader: str, *, is_beside_python: bool) -> None:
    """Adapt one file: a program, a library, or a Python script in `bin`."""
    with path.open("rb") as file:
        first = file.readline(_LONGEST_FIRST_LINE)
        if is_beside_python and first.startswith(b"#!") and b"python" in first:
            part = path.with_name(path.name + _PART)
            with part.open("wb") as written:
                written.write(f"#!{own}/bin/python3\n".encode())
                shutil.copyfileobj(file, written)
            part.chmod(0o755)
            part.replace(path)
            return
    if first.startswith(elf.MAGIC):
        path.chmod(0o755)
        # A file that begins like a program but is none is never loaded.
        with contextlib.suppress(ValueError, struct.error):
            elf.fit_file(path, loader)


def main() -> None:
    """Adapt the files of the environment that the arguments name."""
    folder, own, loader, most = sys.argv[1:]
    total = fit_all(Path(folder), own, loader, int(most))
    if total > int(most):
        sys.stdout.write(str(total))
        sys.exit(TOO_LARGE)
