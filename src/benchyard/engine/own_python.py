"""A Python of this machine as a tree for /usr/local of an image, as if it had been installed there."""

import shutil
from pathlib import Path

from packaging.version import Version

from benchyard.scorers.kits import pythons
from benchyard.scorers.kits.pythons import Python

PLACE = "/usr/local"
_OF_THE_SYSTEM = Path("/usr")
_LEFT_OUT = ("test", "tests", "idle_test", "__pycache__", "site-packages", "dist-packages", "*.a")
_MOST_TEXT_BYTES = 4 * 1024**2


async def find(minor: str) -> Python | None:
    """The newest Python of this version that can be moved; None if there is none.

    One of the system's own packages cannot: it is changed to live where it is.
    """
    found = [each for each in await pythons.of_minor(minor) if _prefix(each) != _OF_THE_SYSTEM]
    return max(found, key=lambda each: Version(each.version), default=None)


def write(python: Python, folder: Path) -> None:
    """Write the tree (blocks)."""
    prefix, name = _prefix(python), python.modules.name
    ignore = shutil.ignore_patterns(*_LEFT_OUT)
    shutil.copytree(python.modules, folder / "lib" / name, ignore=ignore, ignore_dangling_symlinks=True)
    (folder / "lib" / name / "site-packages").mkdir()
    # Up to 3.7 the headers' folder has an `m` at its end.
    for headers in (prefix / "include" / name, prefix / "include" / f"{name}m"):
        if headers.is_dir():
            shutil.copytree(headers, folder / "include" / headers.name)
    for library in python.modules.parent.glob("libpython3*.so*"):
        shutil.copy2(library, folder / "lib" / library.name, follow_symlinks=False)
    (folder / "bin").mkdir()
    shutil.copy2(python.program, folder / "bin" / name)
    for link in ("python3", "python"):
        (folder / "bin" / link).symlink_to(name)
    for script in prefix.glob(f"bin/{name}-config"):
        shutil.copy2(script, folder / "bin" / script.name)
        (folder / "bin/python3-config").symlink_to(script.name)
    _tell_place(folder, prefix)


def _prefix(python: Python) -> Path:
    return python.modules.parents[1]


def _tell_place(folder: Path, prefix: Path) -> None:
    """Let what says where this Python lies say where it will."""
    places = ("bin/*-config", "lib/*/_sysconfigdata*.py", "lib/*/config-*/*", "lib/*/build-details.json")
    for place in places:
        for path in folder.glob(place):
            if path.is_file() and path.stat().st_size < _MOST_TEXT_BYTES:
                content = path.read_bytes()
                if not content.startswith(b"\x7fELF"):
                    path.write_bytes(content.replace(str(prefix).encode(), PLACE.encode()))
