"""The Pythons of this machine, and the one that fits a version."""

import asyncio
import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from benchyard.errors import ScorerFailed

OLDEST = SpecifierSet(">=3.11")
"""Versions that fit any request."""
OLDEST_USABLE = SpecifierSet(">=3.9")
"""Versions that kits can be made of."""

_LOOK = """
import json, os, platform, sys, sysconfig
print(json.dumps({
    "version": platform.python_version(), "name": platform.python_implementation(),
    "program": os.path.realpath("/proc/self/exe"), "folder": getattr(sys, "platlibdir", "lib"),
    "modules": os.path.realpath(sysconfig.get_path("stdlib")),
}))
"""
_LOOK_SECONDS = 30
_NAME = re.compile(r"python3(\.\d+)?")
_MOST_CANDIDATES = 100

_seen: dict[tuple[str, int, int, int, int], "Python"] = {}
"""Pythons already examined, by the identity of their files: examining one takes as long as a small grader."""


@dataclass(frozen=True)
class Python:
    """A Python of this machine."""

    version: str
    program: Path
    """Path of the program itself, not of a link to it."""
    folder: str
    """Name of its library folder, mostly `lib`."""
    modules: Path
    """Folder of its standard library."""


def constraint(text: str) -> SpecifierSet:
    """Return the versions that `==3.12.10`, `>=3.11,<4` or `3.12` allow; raises ValueError."""
    text = text.strip()
    try:
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return SpecifierSet(f"=={text}.*")
        return SpecifierSet(f"=={Version(text)}")
    except InvalidVersion:
        try:
            return SpecifierSet(text)
        except InvalidSpecifier as error:
            raise ValueError("must be a version of Python such as `>=3.11` or `==3.12.*`") from error


async def choose(wanted: SpecifierSet | None) -> Python:
    """Return the server's own Python if it fits, else the newest that does.

    Raises ScorerFailed, naming the available versions, if none fits.
    """
    fits = OLDEST if wanted is None else wanted
    if fits.contains(platform.python_version(), prereleases=True) and (own := await _look(_own())):
        return own
    pythons = await _all()
    fitting = [python for python in pythons if fits.contains(python.version)]
    if not fitting:
        there_are = ", ".join(sorted({python.version for python in pythons}, key=Version)) or "none"
        raise ScorerFailed(
            f"no Python of the server fits `{fits}`; there are: {there_are}. Ask for another version "
            "(python_version_constraint, or requires-python in the script), or install one on the server: "
            f"uv python install '{fits}'"
        )
    return max(fitting, key=lambda python: Version(python.version))


async def nearest(minor: str) -> Python:
    """Return the Python of this machine with the version nearest to one like `3.13`; raises ScorerFailed."""
    pythons = [python for python in await _all() if OLDEST_USABLE.contains(python.version)]
    if not pythons:
        raise ScorerFailed(f"the server has no Python {OLDEST_USABLE}: uv python install {minor}")
    number = Version(minor).minor
    return min(pythons, key=lambda python: (abs(Version(python.version).minor - number), _age(python)))


async def of_minor(minor: str) -> list[Python]:
    """Return the Pythons of this machine with a version such as `3.13`."""
    return [python for python in await _all() if python.version.rpartition(".")[0] == minor]


def _age(python: Python) -> tuple[int, ...]:
    """Return a sort key that is lower for newer Pythons."""
    return tuple(-part for part in Version(python.version).release)


def _own() -> Path:
    return Path(sys.executable)


async def _all() -> list[Python]:
    looked = await asyncio.gather(*(_look(program) for program in _candidates()))
    return [python for python in looked if python is not None]


def _candidates() -> list[Path]:
    """Return programs that may be Pythons, without repetition, the server's own first."""
    places = dict.fromkeys([_own().resolve(), *(path.resolve() for path in _places())])
    return list(places)[:_MOST_CANDIDATES]


def _places() -> Iterator[Path]:
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv")
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv/python")
    folders = [Path(folder) for folder in os.get_exec_path()]
    for parent in (pyenv / "versions", uv):
        folders += sorted(parent.glob("*/bin"))
    for folder in folders:
        for path in sorted(folder.glob("python3*")):
            if _NAME.fullmatch(path.name) and _is_program(path):
                yield path


def _is_program(path: Path) -> bool:
    """Tell whether a file is a binary: a script that chooses a Python may choose another each time."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


async def _look(program: Path) -> Python | None:
    """Examine a program, once; return None unless it is a usable Python."""
    try:
        status = program.stat()
    except OSError:
        return None
    key = (str(program), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    known = _seen.get(key)
    if known is not None and _is_usable(known):
        return known
    facts = await _ask(program)
    if facts is not None:
        _seen[key] = facts
    return facts


async def _ask(program: Path) -> Python | None:
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *("-I", "-S", "-c", _LOOK),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return None
    try:
        async with asyncio.timeout(_LOOK_SECONDS):
            said, _ = await process.communicate()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return _understood(said) if process.returncode == 0 else None


def _understood(said: bytes) -> Python | None:
    try:
        facts = json.loads(said)
    except ValueError:
        return None
    python = Python(facts["version"], Path(facts["program"]), facts["folder"], Path(facts["modules"]))
    return python if facts["name"] == "CPython" and _is_usable(python) else None


def _is_usable(python: Python) -> bool:
    return (python.modules / "os.py").exists()
