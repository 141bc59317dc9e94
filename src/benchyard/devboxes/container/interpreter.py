"""Our own Python in a folder that runs in any container of this machine, whatever its image.

The folder holds only the files that the process of `guest.main_container` loads: the program, its libraries
with their loader, and the modules. The start command names the loader, so that no library of an image is
used.
"""

import hashlib
import json
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

import benchyard
from benchyard.devboxes import elf
from benchyard.errors import StartFailed

_MODULE = "benchyard.devboxes.guest.main_container"
_LOOK = f"""
import json, os, sys, traceback
sys.path.append(sys.argv[1])
import {_MODULE}
with open("/proc/self/maps", encoding="utf-8") as file:
    mapped = sorted({{line.rstrip().split(None, 5)[5] for line in file if "/" in line}})
files = {{name: getattr(module, "__file__", None) for name, module in sys.modules.items()}}
modules = {{name: path for name, path in files.items() if path}}
found = {{"program": os.readlink("/proc/self/exe"), "folder": sys.platlibdir, "mapped": mapped,
         "version": sys.version_info[:2], "modules": modules}}
print(json.dumps(found))
"""
_LOADER = "loader"
_PROGRAM = "bin/python"
_LIBRARIES = "libraries"
_PACKAGES = "packages"
_DONE = "digest"


def prepare(target: Path) -> None:
    """Make the folder, or make it anew if it was made from another Python (blocks)."""
    files = _files()
    digest = _digest(files)
    if (target / _DONE).exists() and (target / _DONE).read_text() == digest:
        return
    partial, old = target.with_name(f"{target.name}.partial"), target.with_name(f"{target.name}.old")
    for leftover in (partial, old):
        shutil.rmtree(leftover, ignore_errors=True)
    partial.mkdir(mode=0o755, parents=True)
    copies: dict[Path, Path] = {}
    for inside, source in files.items():
        place = partial / inside
        place.parent.mkdir(parents=True, exist_ok=True)
        if source in copies:
            place.hardlink_to(copies[source])
        else:
            copies[source] = place
            place.write_bytes(elf.self_contained(source.read_bytes()))
            place.chmod(0o755)
    for module in partial.rglob("*.py"):
        py_compile.compile(str(module), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    (partial / _DONE).write_text(digest)
    if target.exists():
        # Running devboxes hold all they need of it in memory.
        target.rename(old)
    partial.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def command(place: str, *arguments: str) -> list[str]:
    """Return the command that starts this Python where it is mounted at `place`."""
    start = f"import sys; sys.path.append({f'{place}/{_PACKAGES}'!r}); from {_MODULE} import main; main()"
    loader = [f"{place}/{_LOADER}", "--library-path", f"{place}/{_LIBRARIES}"]
    return [*loader, f"{place}/{_PROGRAM}", "-I", "-S", "-X", "utf8", "-c", start, *arguments]


def _files() -> dict[str, Path]:
    """Return the files to copy: path in the folder -> source."""
    source = str(Path(benchyard.__file__).parent.parent)
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "utf8", "-c", _LOOK, source],
        capture_output=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    if run.returncode != 0:
        said = run.stderr.decode(errors="replace").strip()[-500:]
        raise StartFailed(f"this Python cannot look at itself: {said}", step="interpreter")
    facts = json.loads(run.stdout)
    version = ".".join(map(str, facts["version"]))
    standard = PurePosixPath(facts["folder"]) / f"python{version}"
    files = {_PROGRAM: Path(facts["program"])}
    for name, path in facts["modules"].items():
        files[str(_module_place(standard, name, Path(path)))] = Path(path)
    modules = set(files.values())
    for path in (Path(text) for text in facts["mapped"]):
        if path in modules or ".so" not in path.name:
            continue
        files |= {f"{_LIBRARIES}/{name}": path for name in elf.names(path)}
        if path.name.startswith("ld-"):
            files[_LOADER] = path
    if _LOADER not in files:
        raise StartFailed(
            f"{facts['program']} is not a dynamically linked program, which this driver needs; run the "
            "server with your system's Python",
            step="interpreter",
        )
    return files


def _module_place(standard: PurePosixPath, name: str, path: Path) -> PurePosixPath:
    """Return the path of a module in the folder."""
    if path.suffix == ".so" and "." not in name:
        return standard / "lib-dynload" / path.name
    top = PurePosixPath(_PACKAGES) if name.split(".")[0] == "benchyard" else standard
    parts = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    return top.joinpath(*parts, path.name)


def _digest(files: dict[str, Path]) -> str:
    facts = [
        (inside, str(path), path.stat().st_size, path.stat().st_mtime_ns) for inside, path in files.items()
    ]
    return hashlib.sha256(json.dumps(sorted(facts)).encode()).hexdigest()
