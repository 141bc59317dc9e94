"""The base of a driver's contract tests: a driver, devboxes, commands in them, and no traces after."""

import asyncio
import itertools
import os
import re
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from benchyard.devboxes.base import (
    Capability,
    Command,
    DevboxSpec,
    Driver,
    OpenFile,
    Rootfs,
    Status,
    Stdin,
    read_status,
)
from benchyard.errors import DevboxError
from benchyard.images.store import ImageStore

_PROGRAMS = (
    *(
        "bash",
        "cat",
        "chmod",
        "chown",
        "cp",
        "cut",
        "date",
        "dd",
        "df",
        "dirname",
        "du",
        "echo",
        "env",
        "expr",
    ),
    *(
        "false",
        "find",
        "grep",
        "head",
        "hostname",
        "id",
        "kill",
        "ln",
        "ls",
        "mkdir",
        "mkfifo",
        "mktemp",
        "mount",
        "mv",
    ),
    *(
        "nice",
        "nproc",
        "printf",
        "ps",
        "pwd",
        "python3",
        "readlink",
        "rm",
        "rmdir",
        "sed",
        "seq",
        "setsid",
        "sh",
    ),
    *("sleep", "sort", "stat", "stty", "tail", "tar", "tee", "test", "timeout", "touch", "tr", "true"),
    *("truncate", "tty", "umount", "uname", "uniq", "unshare", "wc", "whoami", "xargs", "yes"),
)
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_FOLDERS = (
    "dev",
    "etc",
    "home",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "srv",
    "sys",
    "tmp",
    "usr/sbin",
    "var/tmp",
)
_LEFT_OUT = ("test", "tests", "idlelib", "lib2to3", "ensurepip", "pydoc_data", "__pycache__", "dist-packages")
_PASSWD = "root:x:0:0:root:/root:/bin/bash\n"  # noqa: S105  no password is in it


def write_system(target: Path, more: Sequence[str] = ()) -> None:
    """Fill a new folder with programs, including `more`, their libraries and Python's modules."""
    for name in _FOLDERS:
        (target / name).mkdir(parents=True)
    for name in ("tmp", "var/tmp"):
        (target / name).chmod(0o1777)
    for name, link in _LINKS.items():
        (target / link).mkdir(parents=True, exist_ok=True)
        (target / name).symlink_to(link)
    (target / "etc/passwd").write_text(_PASSWD)
    (target / "etc/group").write_text("root:x:0:\n")
    found = (shutil.which(name, path="/usr/bin:/usr/sbin") for name in (*_PROGRAMS, *more))
    programs = [Path(path) for path in found if path]
    for program in programs:
        _copy(program, target / "usr/bin" / program.name)
    modules = _copy_modules(target, target / "usr/bin/python3")
    for library in _libraries([*programs, *modules]):
        place = target / str(library.parent.resolve()).lstrip("/") / library.name
        if not place.exists():
            _copy(library, place)


def _copy(source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, place)


def _copy_modules(target: Path, python: Path) -> list[Path]:
    """Copy Python's standard library; return the parts of it that need libraries themselves."""
    if not python.exists():
        return []
    ran = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    source = Path(ran.stdout.strip())
    shutil.copytree(source, target / str(source).lstrip("/"), ignore=shutil.ignore_patterns(*_LEFT_OUT))
    return list((source / "lib-dynload").glob("*.so"))


def _libraries(files: list[Path]) -> set[Path]:
    listing = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in re.findall(r"(/\S+) \(0x", listing)}


PATIENCE_SECONDS = 60.0
"""Seconds that any event may take before a test counts it as missing."""
_SMALL = "small-system"


class DriverSuite:
    """Parts that a suite provides: drivers, and a root filesystem for their devboxes."""

    def make_driver(self, folder: Path) -> Driver:
        """Return a new driver with its state in `folder`; called again to take over an earlier one's."""
        raise NotImplementedError

    async def make_rootfs(self, driver: Driver, folder: Path) -> Rootfs:
        """Return the root of devboxes: the view of this machine's own system, unless overridden.

        Drivers without that view get copies of some of its programs. `folder` is the same for all tests with
        this driver.
        """
        store = ImageStore(folder / "images", driver.trees)
        await store.open()
        if Capability.HOST_VIEW in driver.capabilities:
            return store.rootfs(await store.get("host"))
        if not any(image.name == _SMALL for image in await store.list()):
            await asyncio.to_thread(write_system, folder / _SMALL)
            await store.import_archive(folder / _SMALL, _SMALL)
            await driver.trees.remove(folder / _SMALL)
        return store.rootfs(await store.get(_SMALL))


@dataclass(frozen=True)
class CompletedCommand:
    """A completed command."""

    stdout: bytes
    stderr: bytes
    status: Status


class DriverFixture:
    """A driver under test and everything made with it."""

    def __init__(self, suite: DriverSuite, folder: Path, shared: Path) -> None:
        self.suite = suite
        self.folder = folder
        self.shared = shared
        self.driver = suite.make_driver(folder / "driver")
        self.rootfs = Rootfs(())
        self.specs: dict[str, DevboxSpec] = {}
        self._numbers = itertools.count(1)

    async def open(self) -> None:
        """Get driver and root filesystem ready; skip if this machine does not allow the driver."""
        (self.folder / "driver").mkdir(parents=True)
        try:
            await self.driver.__aenter__()
        except DevboxError as error:
            pytest.skip(f"this machine does not allow it: {error.message}")
        self.rootfs = await self.suite.make_rootfs(self.driver, self.shared)

    async def close(self) -> None:
        """Stop every devbox and remove its disk."""
        # Last made first: a devbox that shares another one's network may have to go before it.
        for devbox, spec in reversed(self.specs.items()):
            await self.driver.stop(devbox)
            await self.driver.storage.discard(devbox)
            await self.driver.trees.remove(spec.folder)
        await self.driver.__aexit__(None, None, None)

    def need(self, *capabilities: Capability) -> None:
        """Skip the test, saying why, if the driver lacks one of these."""
        lacking = [one.value for one in capabilities if one not in self.driver.capabilities]
        if lacking:
            pytest.skip(f"the driver cannot do this here: it lacks {', '.join(lacking)}")

    def spec(self, **changes: Any) -> DevboxSpec:
        """Return the spec of a devbox that could be started."""
        name = changes.pop("id", f"dbx_{next(self._numbers)}")
        folder = self.folder / "devboxes" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        spec = DevboxSpec(id=name, folder=folder, rootfs=changes.pop("rootfs", self.rootfs), **changes)
        self.specs[name] = spec
        return spec

    async def devbox(self, **changes: Any) -> str:
        """Start a devbox; return its id."""
        spec = self.spec(**changes)
        await self.driver.start(spec)
        return spec.id

    async def begin(self, devbox: str, script: str = "", **changes: Any) -> Command:
        """Start `sh -c script` (or `argv`)."""
        name = f"exec_{next(self._numbers)}"
        folder = self.specs[devbox].folder / "executions" / name
        folder.mkdir(parents=True)
        argv = changes.pop("argv", ("/bin/sh", "-c", script))
        command = Command(id=name, argv=argv, folder=folder, **changes)
        await self.driver.exec(devbox, command)
        return command

    async def finish(self, command: Command) -> CompletedCommand:
        """Wait for a command's end."""
        await eventually(lambda: read_status(command.folder) is not None, f"the end of {command.argv}")
        status = read_status(command.folder)
        assert status is not None
        streams = [(command.folder / name).read_bytes() for name in ("stdout", "stderr")]
        return CompletedCommand(streams[0], streams[1], status)

    async def run(self, devbox: str, script: str = "", **changes: Any) -> CompletedCommand:
        """Run `sh -c script` (or `argv`) to its end."""
        return await self.finish(await self.begin(devbox, script, **changes))

    async def text(self, devbox: str, script: str, **changes: Any) -> str:
        """Return the output of a script that must succeed."""
        result = await self.run(devbox, script, **changes)
        assert result.status.exit_status == 0, result
        return result.stdout.decode().strip()

    async def close_input(self, devbox: str, command: Command) -> None:
        """Close the standard input of a command."""
        assert await self.driver.control(devbox, command.id, Stdin(close=True))

    async def shows(self, command: Command, text: bytes) -> None:
        """Wait until a running command has printed this."""
        await eventually(lambda: text in (command.folder / "stdout").read_bytes(), f"{text!r} on stdout")

    async def write(self, devbox: str, path: str, data: bytes, **changes: Any) -> None:
        """Write a file of the devbox."""
        descriptor = await self.driver.open_file(devbox, OpenFile(path, write=True, **changes))
        await asyncio.to_thread(_write_all, descriptor, data)

    async def read(self, devbox: str, path: str, **changes: Any) -> bytes:
        """Read a file of the devbox."""
        descriptor = await self.driver.open_file(devbox, OpenFile(path, **changes))
        return await asyncio.to_thread(_read_all, descriptor)

    async def renew(self) -> None:
        """Drop the driver like a server that ends, and make it anew."""
        await self.driver.__aexit__(None, None, None)
        self.driver = self.suite.make_driver(self.folder / "driver")
        await self.driver.__aenter__()

    async def layer(self, devbox: str) -> Path:
        """Return a copy of a running devbox's changes so far, as a layer."""
        target = self.folder / f"layer_{next(self._numbers)}"
        await self.driver.freeze(devbox)
        try:
            async with self.driver.storage.changes(self.specs[devbox]) as changes:
                await self.driver.trees.copy(changes, target)
        finally:
            await self.driver.thaw(devbox)
        return target

    def on_top(self, *layers: Path) -> Rootfs:
        """Return the root filesystem with more layers on it, topmost first."""
        return Rootfs((*layers, *self.rootfs.layers), self.rootfs.host_dirs)

    def marker(self) -> str:
        """Return a number of seconds that no other process sleeps, by which to find its processes."""
        return f"{1000 + next(self._numbers)}.{os.getpid()}{time.monotonic_ns() % 10**9}"


def _write_all(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


async def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds, or fail naming it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    delay = 0.002
    while not holds():
        assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS} s for {what}"
        await asyncio.sleep(delay)
        delay = min(delay * 1.5, 0.05)


def processes_with(text: str) -> list[int]:
    """Return the processes of this machine with `text` in their command line."""
    return [pid for pid in _pids() if text.encode() in _read(f"/proc/{pid}/cmdline")]


def holders(place: Path | str) -> list[int]:
    """Return the processes, our own left out, that name a folder in their command line, mounts or open files.

    Or a socket, as `socket:[INODE]`.
    """
    return [pid for pid in _pids() if pid != os.getpid() and _holds(pid, str(place))]


def _holds(pid: int, path: str) -> bool:
    if path.encode() in _read(f"/proc/{pid}/cmdline") or _mounts(pid, path):
        return True
    try:
        return any(path in str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def _mounts(pid: int, path: str) -> bool:
    """Tell whether a process sees a mount below a folder; the folder itself may be a common mount."""
    lines = _read(f"/proc/{pid}/mountinfo").decode(errors="replace").splitlines()
    return any(path in line and line.split()[4] != path for line in lines)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


Suite = TypeVar("Suite", bound=DriverSuite)
Test = Callable[[Suite, DriverFixture], Awaitable[None]]
Run = Callable[[Suite, Path, pytest.TempPathFactory, pytest.FixtureRequest], None]


def contract(*capabilities: Capability) -> Callable[[Test[Suite]], Run[Suite]]:
    """Turn an async test over a yard into one that pytest runs, skipped if the driver lacks a capability."""

    def made(test: Test[Suite]) -> Run[Suite]:
        async def live(suite: Suite, yard: DriverFixture) -> None:
            await yard.open()
            try:
                yard.need(*capabilities)
                await test(suite, yard)
            finally:
                await yard.close()

        def run(
            self: Suite,
            tmp_path: Path,
            tmp_path_factory: pytest.TempPathFactory,
            request: pytest.FixtureRequest,
        ) -> None:
            variant = request.node.name.partition("[")[2].rstrip("]")
            shared = tmp_path_factory.getbasetemp() / f"shared-{type(self).__name__}-{variant}"
            asyncio.run(live(self, DriverFixture(self, tmp_path, shared)))

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return made
