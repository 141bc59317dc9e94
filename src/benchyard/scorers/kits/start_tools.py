"""The shell and the plain tools of the image that a devbox began from, as a kit for graders of a whole disk.

The graded work may have replaced them on that disk, or the libraries they load, or the first folders of
PATH. The kit's tools are the image's own, read-only, with their own loader and libraries, in a folder that
the work never had. Only tools that do one small thing are among them: larger programs, such as a Python with
its packages, are part of the work where the whole disk is graded.

`python -m benchyard.scorers.kits.start_tools FOLDER TARGET < request.json` makes one: images are not
trusted, so a process of its own, with limits, reads their programs, which never run here.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import resource
import stat
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchyard.devboxes import elf
from benchyard.devboxes.base import Rootfs
from benchyard.devboxes.layers.stack import LayerStack, real_path
from benchyard.errors import ScorerFailed
from benchyard.hosts.kits import Kit, Kits
from benchyard.scorers.kits import programs

SHELL = "bin/bash"
ENVIRONMENT = "environment"
"""Name, in the kit, of the file that the shell reads before its script, to put the tools first on PATH."""
_LAYOUT = 1
_SECONDS = 60
_MEMORY = 1024**3
_MOST_FILE = 16 * 1024**2
_MOST_LIBRARIES = 100
_TOOLS = (
    *(
        "[",
        "basename",
        "base64",
        "cat",
        "chmod",
        "cksum",
        "cmp",
        "comm",
        "cp",
        "cut",
        "date",
        "diff",
        "dirname",
    ),
    *(
        "du",
        "echo",
        "env",
        "expand",
        "expr",
        "false",
        "find",
        "fold",
        "grep",
        "head",
        "hexdump",
        "id",
        "join",
    ),
    *("ln", "ls", "md5sum", "mkdir", "mktemp", "mv", "nl", "od", "paste", "printf", "pwd", "readlink"),
    *("realpath", "rm", "rmdir", "sed", "seq", "sha1sum", "sha256sum", "sha512sum", "sleep", "sort", "split"),
    *("stat", "sum", "tac", "tail", "tee", "test", "timeout", "touch", "tr", "true", "truncate", "uname"),
    *("uniq", "unexpand", "wc", "xargs", "yes"),
)
_FOLDERS = ("/usr/bin", "/bin")
_LIBRARY_FOLDERS = (
    *("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu"),
    *("/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"),
)
_NAME_LOOKUP = ("libnss_files.so.2",)
"""Libraries that older C libraries load by themselves to find the name of a file's owner."""


async def make(rootfs: Rootfs, kits: Kits) -> Kit | None:
    """Make the kit of an image; return None if the image has no dynamically linked GNU shell."""
    layers, beside = [str(layer) for layer in rootfs.layers], list(rootfs.host_dirs)
    seen = await asyncio.to_thread(_fingerprint, layers, beside)
    if seen is None:
        return None
    key = f"start tools {_LAYOUT} {seen}"
    target = programs.target(key)

    async def fill(folder: Path) -> None:
        request = json.dumps({"layers": layers, "beside": beside}).encode()
        command = (sys.executable, "-I", "-m", __name__, str(folder), target)
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(*command, stdin=pipe, stderr=pipe, stdout=pipe)
        try:
            async with asyncio.timeout(2 * _SECONDS):
                _, said = await child.communicate(request)
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        if child.returncode:
            # The folder stays without a shell, so that the next scoring of this image does not try again.
            (folder / SHELL).unlink(missing_ok=True)
            last_words = said.decode(errors="replace").strip().splitlines()[-1:]
            (folder / ENVIRONMENT).write_text(f"# {' '.join(last_words)[:200]}\n")

    folder = await kits.folder(key, fill)
    return Kit(folder, target) if (folder / SHELL).exists() else None


def _fingerprint(layers: list[str], beside: list[str]) -> str | None:
    """Identify the tools of an image by facts of their files, without reading them; None without a shell."""
    with LayerStack(layers, beside) as stack:
        plain = _plain_facts(stack)
        facts = {name: plain.get(name) or _facts(stack, name) for name in ("bash", *_TOOLS)}
        if facts["bash"] is None:
            return None
        more = [_facts(stack, "libc.so.6", _LIBRARY_FOLDERS)]
    return hashlib.sha256(repr((facts, more)).encode()).hexdigest()


_Facts = tuple[str, int, int, int]
"""Path of a file, its size, modification time and inode."""


def _plain_facts(stack: LayerStack) -> dict[str, _Facts]:
    """Return facts of the tools in the first folder that are not links; walks the path there only once."""
    folder = real_path(stack, _FOLDERS[0])
    facts = {}
    parents = folder.split("/")[1:]
    try:
        is_there = stack.descend(parents) == len(parents)
        for name in ("bash", *_TOOLS) if is_there else ():
            shown = stack.look(name)
            if shown is not None and not stat.S_ISLNK(shown.status.st_mode):
                status = shown.status
                facts[name] = (f"{folder}/{name}", status.st_size, status.st_mtime_ns, status.st_ino)
    finally:
        while stack.depth:
            stack.up()
    return facts


def _facts(stack: LayerStack, name: str, folders: Iterable[str] = _FOLDERS) -> _Facts | None:
    for folder in folders:
        path = real_path(stack, f"{folder}/{name}")
        with _at(stack, path) as place:
            if place is not None:
                status = os.stat(path.rpartition("/")[2], dir_fd=place, follow_symlinks=False)
                return path, status.st_size, status.st_mtime_ns, status.st_ino
    return None


@contextlib.contextmanager
def _at(stack: LayerStack, path: str) -> Iterator[int | None]:
    """Yield the directory that holds a path, while the block lasts; None if no layer has it."""
    *parents, name = path.split("/")[1:]
    try:
        whole = stack.descend(parents) == len(parents)
        entry = stack.look(name) if whole and name else None
        yield entry.parent if entry else None
    finally:
        while stack.depth:
            stack.up()


def _read(stack: LayerStack, path: str) -> bytes | None:
    """Return the content of a plain file of an image; None if there is none, or it is too large."""
    real = real_path(stack, path)
    with _at(stack, real) as folder:
        if folder is None:
            return None
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(real.rpartition("/")[2], flags, dir_fd=folder), "rb") as file:
            content = file.read(_MOST_FILE + 1)
    return content if len(content) <= _MOST_FILE else None


def _first(stack: LayerStack, name: str, folders: Iterable[str]) -> bytes | None:
    files = (_read(stack, f"{folder}/{name}") for folder in folders)
    return next((content for content in files if content and elf.is_elf(content)), None)


def write(folder: Path, target: str, layers: list[str], beside: list[str]) -> None:
    """Write the kit of an image; raises ValueError if that is not possible."""
    with LayerStack(layers, beside) as stack:
        shell = _first(stack, "bash", _FOLDERS)
        path = elf.loader(shell) if shell else None
        loader = _read(stack, path) if path else None
        if shell is None or path is None or loader is None:
            raise ValueError("the image has no shell that names a loader")
        libraries: dict[str, bytes] = {}
        own = {path.rpartition("/")[2]}
        _load(stack, [*elf.needed_libraries(shell), *_present(stack, _NAME_LOOKUP)], libraries, own)
        files = {SHELL: shell}
        for name in _TOOLS:
            content = _first(stack, name, _FOLDERS)
            if content is None or elf.loader(content) != path:
                continue
            try:
                _load(stack, elf.needed_libraries(content), libraries, own)
            except (ValueError, struct.error):
                continue
            files[f"bin/{name}"] = content
    programs.write_contents(folder, target, files, libraries, loader)
    # BASH_ENV is unset, since every bash started below would read the file again.
    (folder / ENVIRONMENT).write_text(f'unset BASH_ENV\nPATH="{target}/bin:$PATH"\n')


def _present(stack: LayerStack, names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if _first(stack, name, _LIBRARY_FOLDERS))


def _load(stack: LayerStack, names: Iterable[str], libraries: dict[str, bytes], own: set[str]) -> None:
    """Add these libraries, and the libraries they load; raises ValueError if one is missing."""
    left = list(names)
    more: dict[str, bytes] = {}
    while left:
        name = left.pop()
        if name in libraries or name in more or name in own:
            continue
        content = _first(stack, name, _LIBRARY_FOLDERS)
        if content is None or len(libraries) + len(more) > _MOST_LIBRARIES:
            raise ValueError(f"the image has no library {name}")
        more[name] = content
        left += elf.needed_libraries(content)
    libraries.update(more)


def main() -> None:
    """Make a kit, within limits."""
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    request = json.load(sys.stdin)
    folder, target = sys.argv[1:]
    try:
        write(Path(folder), target, request["layers"], request["beside"])
    except (ValueError, OSError, struct.error, ScorerFailed) as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
