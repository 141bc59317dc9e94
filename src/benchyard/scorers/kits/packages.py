"""Packages of the index as a kit: an environment over a Python's kit, fetched by `uv`, once.

<target>/pyvenv.cfg                     makes it an environment of its own
<target>/bin/python3                    a link to the Python below; beside it the packages' programs
<target>/lib/pythonX.Y/site-packages/   the packages
<target>/resolved                       names and versions of the packages

Only wheels are installed, so that no code of a package runs on the server.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import benchyard
from benchyard.errors import ScorerFailed
from benchyard.hosts.kits import Kit, Kits
from benchyard.scorers.kits import package_files, programs, python_kit
from benchyard.scorers.kits.pythons import Python

MOST_BYTES = 8 * 1024**3
"""Most bytes of one environment."""
FETCH_SECONDS = 600.0

_RESOLVED = "resolved"
_LAYOUT = 1
_MOST_SAID = 4000
_FITTING = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from benchyard.scorers.kits.package_files import main; main()"
)
_UV_OPTIONS = (
    *("--only-binary", ":all:", "--link-mode", "copy", "--no-progress", "--color", "never"),
    *("--no-python-downloads", "--no-sources"),
)


async def make(python: Python, base: Kit, wanted: tuple[str, ...], kits: Kits) -> Kit:
    """Make the kit of these requirements over the kit of this Python."""
    key = f"packages {_LAYOUT} {base.target} {base.source.name} {sorted(set(wanted))!r}"
    target = programs.target(key)

    async def fill(folder: Path) -> None:
        packages = _site_packages(folder, python)
        await _install(python, wanted, packages, kits.downloads("uv"))
        await _finish(folder, (target, base.target), python)

    return Kit(await kits.folder(key, fill), target)


def resolved_versions(kit: Kit) -> str:
    """Return the packages of an environment: `name==version`, by name."""
    return (kit.source / _RESOLVED).read_text()


def _site_packages(folder: Path, python: Python) -> Path:
    # Environments use `lib` whatever folder the Python itself uses, except for compiled packages.
    return folder / "lib" / python.modules.name / "site-packages"


async def _install(python: Python, wanted: tuple[str, ...], packages: Path, cache: Path) -> None:
    uv = await asyncio.to_thread(programs.find, "uv")
    packages.mkdir(parents=True)
    listed = packages.with_name("requirements.txt")
    listed.write_text("".join(f"{one}\n" for one in sorted(set(wanted))))
    places = ("--target", packages, "--cache-dir", cache, "--requirements", listed)
    command = (uv, "pip", "install", "--python", python.program, *_UV_OPTIONS, *places)
    status, said = await run(command, listed.parent)
    listed.unlink()
    if status is None:
        raise ScorerFailed(f"fetching requirements took longer than {FETCH_SECONDS:.0f} s: {_few(wanted)}")
    if status != 0:
        raise ScorerFailed(f"the requirements cannot be installed ({_few(wanted)}): uv says: {said.strip()}")


def _few(wanted: tuple[str, ...]) -> str:
    text = ", ".join(wanted)
    return text if len(text) <= 500 else f"{text[:500]}..."


async def run(command: Sequence[str | Path], folder: Path) -> tuple[int | None, str]:
    """Run a program for the kit; return its status, None if its time was over, and the end of its output."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = b""
    try:
        async with asyncio.timeout(FETCH_SECONDS):
            while piece := await process.stdout.read(65536):
                said = (said + piece)[-_MOST_SAID:]
            await process.wait()
    except TimeoutError:
        return None, ""
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return process.returncode, said.decode(errors="replace")


async def _finish(folder: Path, targets: tuple[str, str], python: Python) -> None:
    """Make an environment of the packages; `targets` are its own and that of the Python below."""
    packages = _site_packages(folder, python)
    await asyncio.to_thread(_lay_out, folder, packages, targets[1], python)
    source = str(Path(benchyard.__file__).parent.parent)
    wanted = (folder, targets[0], f"{targets[1]}/{programs.LOADER}", str(MOST_BYTES))
    status, said = await run((sys.executable, "-I", "-c", _FITTING, source, *wanted), folder)
    if status == package_files.TOO_LARGE:
        raise ScorerFailed(f"the requirements take {said} bytes; an environment may have {MOST_BYTES}")
    if status != 0:
        why = f"it took longer than {FETCH_SECONDS:.0f} s" if status is None else said.strip()[-500:]
        raise ScorerFailed(f"the files of the requirements could not be adapted: {why}")
    await asyncio.to_thread(_compile, folder, packages, targets[1], python)


def _lay_out(folder: Path, packages: Path, base: str, python: Python) -> None:
    names = sorted(entry.name.removesuffix(".dist-info") for entry in packages.glob("*.dist-info"))
    (folder / _RESOLVED).write_text(" ".join(name.replace("-", "==", 1) for name in names))
    version = python.version.rpartition(".")[0]
    (folder / "pyvenv.cfg").write_text(
        f"home = {base}/bin\ninclude-system-site-packages = false\nversion = {version}\n"
    )
    if (packages / "bin").is_dir():
        (packages / "bin").rename(folder / "bin")
    (folder / "bin").mkdir(exist_ok=True)


def _compile(folder: Path, packages: Path, base: str, python: Python) -> None:
    for name in ("python", "python3"):
        (folder / "bin" / name).unlink(missing_ok=True)
        (folder / "bin" / name).symlink_to(python_kit.program(base))
    python_kit.compile_modules(python, packages)
