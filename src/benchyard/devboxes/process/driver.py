"""Devboxes without walls: a folder and a tree of processes, for machines where namespaces are forbidden.

This driver isolates NOTHING beyond the limits of Landlock: commands run as the server's own user, see its
processes and its network, and share its memory. Landlock, where the kernel has it, keeps them from changing
files outside the devbox's folder (and /dev/shm) and from reading any but the system's. It must be asked for
by name.

The folder plays the root: `/home/user/x` of a file operation or working directory is `changes/home/user/x`,
and HOME points there. Paths of the system that are not in the folder are the machine's own.
"""

import asyncio
import contextlib
import json
import logging
import os
import re
import select
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import benchyard
from benchyard.devboxes.base import (
    Capability,
    Command,
    Control,
    DevboxEnded,
    DevboxSpec,
    DevboxUsage,
    Driver,
    Event,
    ExecutionEnded,
    NewFolder,
    OpenFile,
    Trees,
    read_status,
)
from benchyard.devboxes.guest import freezer, landlock, processes, seccomp
from benchyard.devboxes.local_trees import LocalTrees
from benchyard.devboxes.process.rooted_files import open_below
from benchyard.devboxes.shared import cgroups, devbox_index
from benchyard.devboxes.shared.inside import FirstProcessInside
from benchyard.devboxes.shared.running_devbox import FirstProcess, RunningDevbox, dismiss, listen
from benchyard.devboxes.shared.watches import Watcher
from benchyard.errors import DevboxError, DevboxGone, NotFound, NotSupported, StartFailed, UsageError

_BOOT = (
    "import sys; sys.path.append(sys.argv.pop()); "
    "from benchyard.devboxes.guest.main_process import main; main()"
)
_KEEPER_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
_PATIENCE_SECONDS = 10.0


async def start_keeper(folder: Path, rules: dict[str, Any], group: Path | None) -> FirstProcess:
    """Start a keeper that serves the devbox of `folder`, bound by the rules, in a group that it can freeze.

    Raises StartFailed.
    """
    packages = str(Path(benchyard.__file__).parent.parent)
    with contextlib.ExitStack() as held:
        listener = held.enter_context(listen(folder))
        groups = freezer.open_group(str(group)) if group else []
        for descriptor in groups:
            held.callback(os.close, descriptor)
        request = json.dumps({**rules, "listener": listener.fileno(), "groups": groups})
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOT, request, packages),
            env=_KEEPER_ENVIRONMENT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=[listener.fileno(), *groups],
            start_new_session=True,
        )
        try:
            said, failure = await process.communicate()
        except asyncio.CancelledError:
            # The keeper is still in the group of the process that started it.
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise
    pid = int(said) if said.isdigit() else 0
    started = processes.start_time(pid)
    if process.returncode != 0 or started is None:
        text = failure.decode(errors="replace").strip().splitlines()[-1:] or ["it ended without a message"]
        raise StartFailed(f"the devbox's keeper could not start: {text[0]}", step="keeper")
    return FirstProcess(pid, started, processes.boot_id(), 0, "process", rules["lease"])


def end_keeper(pid: int, pidfd: int) -> bool:
    """Kill the keeper and everything below it (blocks); return False if a process would not die."""
    # Stopped first, so that it starts no process while its children are being killed.
    if not _send_signal(pidfd, signal.SIGSTOP):
        return True
    ended = _kill_descendants(pid)
    _send_signal(pidfd, signal.SIGKILL)
    gone = select.poll()
    gone.register(pidfd, select.POLLIN)
    return bool(gone.poll(_PATIENCE_SECONDS * 1000)) and ended


def _kill_descendants(pid: int) -> bool:
    """Kill everything below a process; return False if that took too long. Two empty scans have to agree."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    empty = 0
    while empty < 2:
        if time.monotonic() > deadline:
            return False
        empty = 0 if processes.kill_round(pid) else empty + 1
        time.sleep(0.001)
    return True


def _send_signal(pidfd: int, number: int) -> bool:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    return True


def kill_strays(mark: bytes) -> bool:
    """Kill every process with `mark` in its environment (blocks): the only trace left without a keeper."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while strays := [pid for pid in processes.parents() if mark in _environment_of(pid)]:
        if time.monotonic() > deadline:
            return False
        for pid in strays:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.001)
    return True


def _environment_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def keeper_commands(pid: int) -> list[int]:
    """Return every process of a devbox, without its keeper and the supervisors right below it."""
    above = processes.parents()
    return [descendant for descendant in processes.descendants(pid) if above.get(descendant) != pid]


_logger = logging.getLogger(__name__)

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_READABLE = (*_SYSTEM, "/proc", "/sys", "/run/systemd/resolve")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")
_CLOSED_IN_ETC = frozenset({"shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh", "ssl"})
_END_SECONDS = 30.0
"""Seconds a keeper may take to end processes that resist, on a busy machine."""
_MARK = ".whole-root"
"""Name in the top of every disk of this driver: the layer is complete; layers below are not looked at."""
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}")


class ProcessDriver(Driver):
    """A driver with a folder and a tree of processes per devbox; isolates nothing beyond Landlock."""

    capabilities = frozenset(
        {
            Capability.HOST_VIEW,
            Capability.SNAPSHOTS,
            Capability.FREEZE,
            Capability.PTY,
            Capability.LIMIT_DISK,
            Capability.SHARED_NETWORK,
            *({Capability.NO_TRACING} if seccomp.untraced_here() else ()),
        }
    )

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        self.folder = folder
        self.options = options
        self._lease = devbox_index.lease_from_options(options)
        self.trees = LocalTrees()
        self._watcher = Watcher()
        self.inside = _FolderInside(lambda devbox_id: self._devbox(devbox_id).running, self._watcher)
        self._cgroups = cgroups.Cgroups([], "")
        self._devboxes: dict[str, _Devbox] = {}
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    @staticmethod
    def has_walls() -> bool:
        """Tell whether Landlock can be used on this machine."""
        return landlock.version() > 0

    @classmethod
    def notice(cls) -> str:
        """Return the warning that every user of this driver must know."""
        kept = (
            "Landlock keeps them to their folder and the system's files"
            if cls.has_walls()
            else ("this kernel has no Landlock either, so they can change every file the server can")
        )
        return (
            "the process driver isolates nothing: commands run as the server's own user, with its network "
            f"and processes; {kept}. Use the native driver for anything you do not trust"
        )

    async def __aenter__(self) -> Self:
        _logger.warning(self.notice())
        name = cgroups.owner(self.folder)
        self._cgroups = await asyncio.to_thread(cgroups.detect, name, limiting=False)
        await asyncio.to_thread(self._cgroups.remove_empty)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watcher.close()
        for devbox in self._devboxes.values():
            devbox.running.close()
        self._devboxes.clear()
        await asyncio.to_thread(self._cgroups.remove_empty)

    async def start(self, spec: DevboxSpec) -> None:
        if spec.mounts:
            raise NotSupported("this driver cannot show folders in a devbox; use the native driver")
        if await self.find(spec):
            return
        await self.stop(spec.id)
        try:
            await _make_disk(self.trees, spec)
            groups = [str(path) for path in self._cgroups.create(spec.id, spec.limits)]
            held = await start_keeper(spec.folder, self._rules(spec), self._cgroups.add_inner(spec.id))
        except OSError as error:
            raise StartFailed(f"the devbox's folder could not be made: {error}", step="disk") from error
        replace(held, groups=groups).save(spec.folder)
        if not await self.find(spec):
            raise StartFailed("the devbox's keeper ended as soon as it had started", step="keeper")

    def _rules(self, spec: DevboxSpec) -> dict[str, Any]:
        devices = [f"/dev/{name}" for name in _DEVICES]
        etc = [str(path) for path in Path("/etc").iterdir() if path.name not in _CLOSED_IN_ETC]
        return {
            "lease": self._lease,
            "walls": self.has_walls(),
            "tracing": spec.tracing or not seccomp.untraced_here(),
            "readable": [*_READABLE, *etc, "/etc/ssl/certs", "/etc/ssl/openssl.cnf"],
            "writable": [str(spec.changes), *devices],
        }

    async def find(self, spec: DevboxSpec) -> bool:
        if spec.id in self._devboxes:
            return not self._devboxes[spec.id].running.ended.is_set()
        held = FirstProcess.load(spec.folder)
        pidfd = held.open() if held else None
        if held is None or pidfd is None:
            await asyncio.to_thread(self._cgroups.remove, spec.id)
            return False
        if await asyncio.to_thread(self._cgroups.is_frozen, spec.id):
            # A server that was killed while it ended the devbox: its processes stay frozen.
            await asyncio.to_thread(self._cgroups.remove, spec.id)
            os.close(pidfd)
            return False
        running = RunningDevbox(spec, held, pidfd, self._command_ended, self._lost, can_change_user=False)
        try:
            running.open()
        except OSError:
            # The process lives but does not listen: it cannot be used any more.
            await asyncio.to_thread(self._end, _Devbox(running))
            os.close(pidfd)
            return False
        self._devboxes[spec.id] = _Devbox(running)
        if running.was_frozen:
            self._devboxes[spec.id].frozen.update(keeper_commands(held.pid))
            await self.thaw(spec.id)
        return True

    def _command_ended(self, devbox_id: str, command: str) -> None:
        devbox = self._devboxes.get(devbox_id)
        folder = devbox.running.commands.pop(command, None) if devbox else None
        if folder is not None and read_status(folder) is None:
            lost = {
                "exit_status": 137,
                "ended_ms": int(time.time() * 1000),
                "error": "its supervisor was killed",
            }
            (folder / "status.json").write_text(json.dumps(lost))
        self._events.put_nowait(ExecutionEnded(devbox_id, command))

    def _lost(self, running: RunningDevbox) -> None:
        detail = "the process that holds the devbox was killed"
        self._events.put_nowait(DevboxEnded(running.spec.id, "health_check_failed", detail))

    async def stop(self, devbox_id: str) -> None:
        devbox = self._devboxes.get(devbox_id)
        if devbox is None:
            return
        ended = await asyncio.shield(asyncio.to_thread(self._end, devbox))
        if self._devboxes.pop(devbox_id, None) is devbox:
            devbox.running.close()
        if not ended:
            raise DevboxError(f"processes of devbox {devbox_id} cannot be killed; see `ps` for state D")

    def _end(self, devbox: "_Devbox") -> bool:
        """Kill everything that belongs to a devbox (blocks); return False if a process would not die."""
        spec = devbox.running.spec
        if not self._cgroups.capabilities and not devbox.running.ended.is_set():
            # Its keeper can freeze all of it; scans from outside miss processes forked meanwhile.
            dismiss(spec.folder, _END_SECONDS)
        try:
            # Kill all processes at one moment, if it has a group.
            self._cgroups.remove(spec.id)
        except OSError:
            return False
        return devbox.end()

    def _devbox(self, devbox_id: str) -> "_Devbox":
        devbox = self._devboxes.get(devbox_id)
        if devbox is None or devbox.running.ended.is_set():
            raise DevboxGone(f"devbox {devbox_id} does not run")
        return devbox

    async def exec(self, devbox_id: str, command: Command) -> None:
        devbox = self._devbox(devbox_id)
        if any("\0" in text for text in (*command.argv, *command.env.keys(), *command.env.values())):
            raise UsageError("commands and environment cannot hold NUL bytes")
        await devbox.running.exec(devbox.mapped(command))

    async def control(self, devbox_id: str, execution_id: str, control: Control) -> bool:
        return await self._devbox(devbox_id).running.control(execution_id, control)

    async def open_file(self, devbox_id: str, request: OpenFile) -> int:
        devbox = self._devbox(devbox_id)
        path = devbox.inner(request.path, request.user)
        try:
            return open_below(devbox.changes, path, request)
        except NotFound:
            if request.write or not _is_system(path):
                raise
            return open_below(Path("/"), os.path.realpath(path), request)

    async def connect(self, devbox_id: str, port: int) -> int:
        return await self._devbox(devbox_id).running.connect(port)

    async def freeze(self, devbox_id: str) -> None:
        devbox = self._devbox(devbox_id)
        devbox.running.note_frozen(frozen=True)
        while new := [pid for pid in devbox.processes() if pid not in devbox.frozen]:
            for pid in new:
                devbox.frozen.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)

    async def thaw(self, devbox_id: str) -> None:
        devbox = self._devbox(devbox_id)
        for pid in devbox.frozen.intersection(devbox.processes()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        devbox.frozen.clear()
        devbox.running.note_frozen(frozen=False)

    async def usage(self, devbox_id: str) -> DevboxUsage:
        pids = self._devbox(devbox_id).processes()
        tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        fields = [stat_line for stat_line in map(_stat, pids) if stat_line]
        return DevboxUsage(
            cpu_seconds=sum(sum(map(int, field[11:15])) for field in fields) / tick,
            memory_bytes=sum(int(field[21]) for field in fields) * page,
            processes=len(fields),
        )

    async def events(self) -> AsyncIterator[Event]:
        while True:
            yield await self._events.get()


class _FolderInside(FirstProcessInside):
    """The inside of a devbox whose root is a folder."""

    async def make_folders(self, devbox_id: str, folders: Sequence[NewFolder]) -> bool:
        # The process that would make them has the machine's root.
        return False

    async def open_in_folders(
        self, devbox_id: str, folders: Sequence[NewFolder], requests: Sequence[OpenFile]
    ) -> list[int] | None:
        return None

    async def files(
        self, devbox_id: str, folder: str, user: str, newer_than: str | None, most: int
    ) -> list[str] | None:
        return None

    async def root(self, devbox_id: str) -> int:
        return os.open(self._get(devbox_id).spec.changes, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


class _Devbox:
    """A running devbox, and the location of its paths."""

    def __init__(self, running: RunningDevbox) -> None:
        self.running = running
        self.frozen: set[int] = set()
        self.changes = running.spec.changes
        self.root = str(self.changes)

    def processes(self) -> list[int]:
        """Return the pids of all its commands and their descendants."""
        return keeper_commands(self.running.held.pid)

    def end(self) -> bool:
        """Kill everything that belongs to it (blocks); return False if a process would not die."""
        if not self.running.ended.is_set():
            return end_keeper(self.running.held.pid, self.running.pidfd)
        return kill_strays(f"TMPDIR={self.root}/".encode())

    def inner(self, path: str, user: str) -> str:
        """Return the absolute path as seen from inside the folder."""
        if path == "~" or path.startswith("~/"):
            path = _home(user) + path[1:]
        elif not path.startswith("/"):
            path = f"{_home(user)}/{path}"
        # A command sees the machine's own paths, so a caller may ask for a path that a command printed.
        return path[len(self.root) :] or "/" if f"{path}/".startswith(f"{self.root}/") else path

    def mapped(self, command: Command) -> Command:
        """Return the command as the machine sees it: our own user, and paths inside the folder."""
        basic = {
            "HOME": self.root + _home(command.user),
            "USER": command.user,
            "LOGNAME": command.user,
            "TMPDIR": str(self.changes / "tmp"),
        }
        inner = self.inner(command.cwd or "~", command.user)
        is_system = not os.path.lexists(self.root + inner) and _is_system(inner)
        return replace(
            command,
            user=str(os.getuid()),
            cwd=inner if is_system else self.root + inner,
            env={**basic, **command.env},
            attach_stdin=command.attach_stdin or command.pty is not None,
        )


def _home(user: str) -> str:
    if not _USER.fullmatch(user):
        raise UsageError(f"{user!r} is not a user's name")
    return "/root" if user in ("root", "0") else f"/home/{user}"


def _is_system(path: str) -> bool:
    real = os.path.realpath(path)
    open_etc = real.startswith("/etc/") and real.split("/")[2] not in _CLOSED_IN_ETC
    return open_etc or any(f"{real}/".startswith(f"{place}/") for place in _SYSTEM)


def _stat(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


async def _make_disk(trees: Trees, spec: DevboxSpec) -> None:
    if not spec.changes.is_dir():
        partial = spec.folder / "changes.partial"
        await trees.remove(partial)
        try:
            await _fill(trees, spec, partial)
            partial.rename(spec.changes)
        finally:
            await asyncio.shield(trees.remove(partial))
    for inside in ("home/user", "root", "tmp"):
        (spec.changes / inside).mkdir(parents=True, exist_ok=True)
    (spec.changes / _MARK).touch()


async def _fill(trees: Trees, spec: DevboxSpec, target: Path) -> None:
    layers = spec.rootfs.layers
    if not spec.rootfs.host_dirs or (len(layers) > 1 and not (layers[0] / _MARK).exists()):
        raise StartFailed(
            "this driver starts devboxes from the machine's own system, or from its own snapshots, only; "
            "use the native driver for other images",
            step="disk",
        )
    if layers and (layers[0] / _MARK).exists():
        await trees.copy(layers[0], target)
        return
    target.mkdir()
    # Commands see the originals of the machine's own system; only homes are copied.
    for home in ("home", "root"):
        for layer in layers:
            if (layer / home).is_dir():
                await trees.copy(layer / home, target / home)
