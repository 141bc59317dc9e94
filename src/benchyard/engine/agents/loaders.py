"""Compiled programs of public agents, changed so that they start in any image.

They name the loader of the system they were made for, by a path that an image may lack, or where it has
something older. In the copy that is shown, they name the loader of the kit they come with, which brings its
own C library. Some of these programs carry more than a program at their end and look for it there, so nothing
is put behind it.
"""

import mmap
from pathlib import Path

from benchyard.devboxes.parts import elf
from benchyard.errors import InstallFailed


def use(program: Path, loader: str) -> None:
    """Let a program name this loader (blocks); one that names none stays as it is. Raises InstallFailed."""
    if program.is_symlink() or not program.is_file():
        raise InstallFailed(f"its package has no program {program.name!r} where it was expected")
    with program.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        if content[: len(elf.MAGIC)] != elf.MAGIC:
            raise InstallFailed(f"{program.name!r} of its package is no program for this machine")
        place = elf.loader_place(content)
        if place is None:
            return
        start, room = place
        written = loader.encode() + b"\0"
        if len(written) > room:
            raise InstallFailed(f"{program.name!r} has no room for the path of a loader")
        content[start : start + room] = written.ljust(room, b"\0")
