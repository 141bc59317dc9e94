"""Programs of this machine in a folder, as a kit that runs in any devbox, whatever its image has or lacks.

<target>/c                the loader's cache of libraries: the only place it looks them up
<target>/loader           named by the programs, so that they start like any other
<target>/libraries/       the C library and all other libraries that the programs load
<target>/...              the programs

The target is part of the files' contents, and short, because its path replaces a short one.
"""

import base64
import hashlib
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchyard.devboxes import elf
from benchyard.errors import ScorerFailed
from benchyard.hosts import dependencies

LOADER = "loader"
ALONE = {"LD_PRELOAD": "", "LD_LIBRARY_PATH": "", "LD_AUDIT": ""}
"""Variables that keep a program of a kit from loading anything of the image; its children see them too."""

_CACHE = "c"
_LIBRARIES = "libraries"
_LISTED = re.compile(r"^[^\S\n]*(\S+) => (/.+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_LIST_SECONDS = 60


def target(key: str) -> str:
    """Return the path where the kit of this key is shown, in a folder that no image uses."""
    digest = base64.b32encode(hashlib.sha256(key.encode()).digest()).decode().lower()
    return f"/dev/k{digest[:8]}"


def find(name: str) -> Path:
    """Return the path of a program of this machine; raises ScorerFailed with how to install it."""
    path = dependencies.find_program(name)
    if path is None:
        raise ScorerFailed(f"{dependencies.BY_NAME[name].complaint}, and try again")
    return path


def digest(*files: Path) -> str:
    """Return a digest that changes when one of these files does."""
    facts = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


@dataclass(frozen=True)
class KitContents:
    """Files that a kit of programs is made of."""

    programs: Mapping[str, Path]
    """Place in the folder -> source."""
    modules: Sequence[Path] = ()
    """Libraries that the programs load themselves; only the libraries these need are added to the kit."""
    libraries: Sequence[str] = ()
    """Names of further libraries to add if they lie beside the C library."""


def write(folder: Path, shown_at: str, parts: KitContents) -> None:
    """Write programs with all they load; `shown_at` is where the folder will be shown (blocks)."""
    contents = {place: source.read_bytes() for place, source in parts.programs.items()}
    loader = _loader(parts.programs, contents)
    found = _loaded(loader, [*parts.programs.values(), *parts.modules])
    more = _more(found, parts.libraries)
    found = _loaded(loader, more.values()) | more | found
    found.pop(loader.name, None)
    libraries = {name: source.resolve().read_bytes() for name, source in found.items()}
    try:
        write_contents(folder, shown_at, contents, libraries, loader.resolve().read_bytes())
    except ValueError as error:
        raise ScorerFailed(
            f"this scorer needs a server with the GNU C library, on x86-64 or aarch64: {loader}: {error}"
        ) from error


def write_contents(
    folder: Path,
    shown_at: str,
    programs: Mapping[str, bytes],
    libraries: Mapping[str, bytes],
    loader: bytes,
) -> None:
    """Write programs by place and libraries by name; raises ValueError if the C library is not GNU's."""
    paths = {name: f"{shown_at}/{_LIBRARIES}/{name}" for name in libraries}
    put(folder / LOADER, elf.closed_loader(loader, f"{shown_at}/{_CACHE}"))
    put(folder / _CACHE, elf.cache(paths, elf.machine(loader)))
    (folder / _LIBRARIES).mkdir()
    for name, content in libraries.items():
        put(folder / _LIBRARIES / name, elf.closed_library(content))
    for place, content in programs.items():
        put(folder / place, own_program(content, shown_at))


def own_program(content: bytes, shown_at: str) -> bytes:
    """Make a program use the loader of the kit shown there."""
    return elf.with_loader(elf.with_own_paths(content), f"{shown_at}/{LOADER}")


def put(place: Path, content: bytes) -> None:
    """Write a file that everybody may read and run."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    place.chmod(0o755)


def _loader(programs: Mapping[str, Path], contents: Mapping[str, bytes]) -> Path:
    loaders = {elf.loader(content) if elf.is_elf(content) else None for content in contents.values()}
    loader = loaders.pop()
    if loader is None or loaders:
        names = ", ".join(map(str, programs.values()))
        raise ScorerFailed(
            f"{names}: not dynamically linked programs of this machine, which kits are made of"
        )
    return Path(loader)


def _more(found: Mapping[str, Path], names: Iterable[str]) -> dict[str, Path]:
    """Return those of these names that lie beside the libraries that were found."""
    folders = {path.parent for path in found.values()} | {path.resolve().parent for path in found.values()}
    return {name: folder / name for name in names for folder in folders if (folder / name).exists()}


def _loaded(loader: Path, files: Iterable[Path]) -> dict[str, Path]:
    """Return the libraries that these programs and libraries load: name -> file."""
    libraries: dict[str, Path] = {}
    for file in files:
        listing = subprocess.run(
            [loader, "--list", file],
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            env={},
            timeout=_LIST_SECONDS,
        )
        libraries |= {name: Path(path) for name, path in _LISTED.findall(listing.stdout)}
    return libraries
