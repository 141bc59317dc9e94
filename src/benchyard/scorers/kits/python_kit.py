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
"""In the kit: a file, and a folder, with nothing in them."""
_EMPTY_FOLDER = "none"
_LAYOUT = 3
"""Counted up when what a kit looks like changes, so that older ones are not used any more."""
_LEFT_OUT = ("test", "idle_test", "site-packages", "dist-packages", "config-*", "*.opt-?.pyc")
_OF_WHEELS = (
    *("libstdc++.so.6", "libgcc_s.so.1", "libatomic.so.1", "libz.so.1"),
    *("libresolv.so.2", "librt.so.1", "libdl.so.2", "libpthread.so.0", "libutil.so.1"),
    *("libnss_files.so.2", "libnss_dns.so.2"),
)
"""Libraries that packages of the index expect of every system, and that resolve names."""
_COMPILE_SECONDS = 300


async def make(python: Python, kits: Kits) -> Kit:
    """The kit of this Python."""
    dynamic = python.modules / "lib-dynload"
    parts = (python.program, python.modules / "os.py", *([dynamic] if dynamic.exists() else []))
    key = f"python {_LAYOUT} {python.version} {programs.digest(*parts)}"
    target = programs.target(key)

    async def fill(folder: Path) -> None:
        await asyncio.to_thread(_fill, folder, target, python)

    return Kit(await kits.folder(key, fill), target)


def program(target: str) -> str:
    """The program of a kit that is shown there."""
    return f"{target}/bin/python3"


def environment(target: str) -> dict[str, str]:
    """The variables with which it takes nothing of the image; OpenSSL would load what a file there names."""
    openssl = {"OPENSSL_CONF": f"{target}/{EMPTY_FILE}", "OPENSSL_MODULES": f"{target}/{_EMPTY_FOLDER}"}
    return {**programs.ALONE, **openssl}


def compile_modules(python: Python, folder: Path) -> None:
    """Compile what is not compiled yet; what cannot be compiled stays as it is (blocks)."""
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
    # For those who compile modules of their own: where this Python looks for its headers.
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
