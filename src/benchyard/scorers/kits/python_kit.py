"""A Python of this machine with its whole standard library, as a kit that runs in any devbox."""

import asyncio
import shutil
import subprocess
from pathlib import Path

from benchyard.devboxes import elf
from benchyard.hosts.kits import Kit, Kits
from benchyard.scorers.kits import programs
from benchyard.scorers.kits.pythons import Python

EMPTY_FILE = "nothing"
"""Name, in the kit, of an empty file and of an empty folder."""
_EMPTY_FOLDER = "none"
_LAYOUT = 3
"""Version of the kit's layout; increased when it changes, so that older kits are no longer used."""
_LEFT_OUT = ("test", "idle_test", "site-packages", "dist-packages", "config-*", "*.opt-?.pyc")
_OF_WHEELS = (
    *("libstdc++.so.6", "libgcc_s.so.1", "libatomic.so.1", "libz.so.1"),
    *("libresolv.so.2", "librt.so.1", "libdl.so.2", "libpthread.so.0", "libutil.so.1"),
    *("libnss_files.so.2", "libnss_dns.so.2"),
)
"""Libraries that packages of the index expect on every system, and libraries that resolve names."""
_COMPILE_SECONDS = 300


async def make(python: Python, kits: Kits) -> Kit:
    """Make the kit of this Python."""
    dynamic = python.modules / "lib-dynload"
    parts = (python.program, python.modules / "os.py", *([dynamic] if dynamic.exists() else []))
    key = f"python {_LAYOUT} {python.version} {programs.digest(*parts)}"
    target = programs.target(key)

    async def fill(folder: Path) -> None:
        await asyncio.to_thread(_fill, folder, target, python)

    return Kit(await kits.folder(key, fill), target)


def program(target: str) -> str:
    """Return the path of the program of a kit that is shown there."""
    return f"{target}/bin/python3"


def environment(target: str) -> dict[str, str]:
    """Return variables that keep the kit's Python from using files of the image, such as OpenSSL's."""
    openssl = {"OPENSSL_CONF": f"{target}/{EMPTY_FILE}", "OPENSSL_MODULES": f"{target}/{_EMPTY_FOLDER}"}
    return {**programs.ALONE, **openssl}


def compile_modules(python: Python, folder: Path) -> None:
    """Compile modules that are not compiled yet; leave those that cannot be compiled (blocks)."""
    how = ("-s", folder, "--invalidation-mode", "unchecked-hash")
    subprocess.run(
        [python.program, "-I", "-S", "-m", "compileall", "-q", *how, folder],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=_COMPILE_SECONDS,
    )


def _fill(folder: Path, target: str, python: Python) -> None:
    modules = folder / python.folder / python.modules.name
    shutil.copytree(
        python.modules,
        modules,
        ignore=shutil.ignore_patterns(*_LEFT_OUT),
        ignore_dangling_symlinks=True,
    )
    (modules / "site-packages").mkdir()
    # Packages that compile modules look for this Python's headers here.
    headers = python.modules.parents[1] / "include" / python.modules.name
    if headers.is_dir():
        shutil.copytree(headers, folder / "include" / headers.name, ignore_dangling_symlinks=True)
    (folder / EMPTY_FILE).write_bytes(b"")
    (folder / _EMPTY_FOLDER).mkdir()
    extensions = sorted(python.modules.glob("lib-dynload/*.so"))
    parts = programs.KitContents({"bin/python3": python.program}, extensions, _OF_WHEELS)
    programs.write(folder, target, parts)
    for extension in modules.glob("lib-dynload/*.so"):
        extension.write_bytes(elf.with_own_paths(extension.read_bytes()))
    compile_modules(python, modules)
