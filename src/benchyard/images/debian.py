"""A Debian image with one command: bootstrapped from Debian's own packages, then imported."""

import asyncio
import contextlib
import os
import re
import shutil
import signal
from collections import deque
from collections.abc import Callable
from pathlib import Path

from benchyard.errors import ImageError, UsageError
from benchyard.images.store import Image, ImageIdentity, ImageStore

PACKAGES = ("ca-certificates", "curl", "git", "procps", "sudo", "xz-utils")
"""Packages that a devbox needs beyond the smallest Debian."""

_SUITE = re.compile(r"[a-z][a-z0-9-]{0,31}")
_MIRROR = re.compile(r"https?://[^\s]{1,500}")
_GRACE_SECONDS = 10.0
_LONGEST_LINE = 64 * 1024


async def make_debian(
    store: ImageStore,
    suite: str = "bookworm",
    name: str | ImageIdentity = "debian",
    *,
    mirror: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Image:
    """Bootstrap a small Debian and import it; `progress` gets the output of the bootstrapping program."""
    if not _SUITE.fullmatch(suite):
        raise UsageError(f"{suite[:100]!r} is not the name of a Debian release: try bookworm or trixie")
    if mirror is not None and not _MIRROR.fullmatch(mirror):
        raise UsageError(
            f"{mirror[:100]!r} is not the address of a mirror: it starts with http:// or https://"
        )
    async with store.scratch() as scratch:
        command, made = _command(suite, scratch)
        await _run([*command, *([mirror] if mirror else [])], scratch, progress)
        return await store.import_archive(made, name)


def _command(suite: str, scratch: Path) -> tuple[list[str], Path]:
    """Return the command to run, and the path of its result."""
    options = ["--variant=minbase", f"--include={','.join(PACKAGES)}"]
    if program := shutil.which("mmdebstrap"):
        return [program, *options, suite, str(scratch / "debian.tar")], scratch / "debian.tar"
    program = shutil.which("debootstrap")
    if program and os.geteuid() == 0:
        return [program, *options, suite, str(scratch / "debian")], scratch / "debian"
    message = (
        "making a Debian image needs the program mmdebstrap: install it with `apt-get install mmdebstrap`"
    )
    raise ImageError(message, package="mmdebstrap")


async def _run(command: list[str], scratch: Path, progress: Callable[[str], None] | None) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "TMPDIR": str(scratch)},
        start_new_session=True,
        limit=_LONGEST_LINE,
    )
    try:
        last = await _follow(process, progress)
        status = await process.wait()
    finally:
        await _end(process)
    if status != 0:
        raise ImageError(f"{Path(command[0]).name} failed with status {status}: {' / '.join(last)}")


async def _follow(process: asyncio.subprocess.Process, progress: Callable[[str], None] | None) -> list[str]:
    """Pass on the output of the process; return its last lines."""
    last: deque[str] = deque(maxlen=8)
    reader = process.stdout
    while reader is not None and (chunk := await reader.read(_LONGEST_LINE)):
        for line in chunk.decode(errors="replace").splitlines():
            last.append(line.strip())
            if progress is not None:
                progress(line)
    return [line for line in last if line]


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the process and its children: with SIGTERM first, since it may have mounts to undo."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _GRACE_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
