"""Devboxes by the kernel's own means: namespaces, overlayfs, cgroups and seccomp, with nothing to install.

A zygote forks each devbox; the devbox's first process stays inside as its exec agent and outlives the
server. Modes, tried in this order unless one is asked for with the option `mode`:

    root-idmap        root; each devbox in a user namespace of its own range of ids, over id-mapped layers
    root              root on kernels without id-mapped mounts; root inside is root, held by the other walls
    rootless-range    an ordinary user with a range of ids from /etc/subuid
    rootless-single   an ordinary user with no id but its own: one user inside

The option `lease` is the number of seconds after which a devbox ends whose server does not come back.
"""

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchyard.devboxes.base import (
    Capability,
    Command,
    Control,
    DevboxEnded,
    DevboxSpec,
    Driver,
    Event,
    ExecutionEnded,
    Network,
    OpenFile,
    Report,
    Rootfs,
    Trees,
    Usage,
)
from benchyard.devboxes.box import ids, processes
from benchyard.devboxes.parts import cgroups, roll, running
from benchyard.devboxes.parts.mapped import MappedTrees
from benchyard.devboxes.parts.zygote import ZygoteProcess, close_all, failure
from benchyard.devboxes.trees import LocalTrees
from benchyard.errors import DevboxGone, StartFailed, UsageError

_ALWAYS = {
    Capability.ISOLATION,
    Capability.NO_NETWORK,
    Capability.IMAGES,
    Capability.SNAPSHOTS,
    Capability.LIMIT_DISK,
    Capability.FREEZE,
    Capability.PTY,
}
_NO_GROUPS = (
    "control groups are not writable: run the server as root, or in a systemd user session with Delegate=yes"
)
_REMEDIES = {
    Capability.USERS: "only one id is mapped: install `uidmap` and grant ids in /etc/subuid and /etc/subgid",
    Capability.SUDO: "install `sudo` on this machine and run the server as root, or use an imported image",
    Capability.LIMIT_CPU: _NO_GROUPS,
    Capability.LIMIT_MEMORY: _NO_GROUPS,
    Capability.LIMIT_PIDS: _NO_GROUPS,
}
_STARTED = frozenset({"pid", "ready"})
_PATIENCE_SECONDS = 60
_LOST = {
    "exit_status": 137,
    "killed": True,
    "ended_ms": 0,
    "error": "the process that kept this command was killed inside the devbox",
}


class NativeDriver(Driver):
    """The embedded default."""

    trees: Trees

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        self._folder = folder
        self._wanted = options.get("mode")
        self._lease = roll.lease(options)
        self._roll = roll.Roll(folder)
        self._zygote = ZygoteProcess(folder)
        self._running: dict[str, running.Running] = {}
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._slots: set[int] = set()
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._cgroups = cgroups.Cgroups([], "")
        self.mode = ""
        self.failed: dict[str, StartFailed] = {}

    @staticmethod
    def modes() -> list[str]:
        """The modes this user can hope for, best first."""
        if os.getuid() == 0:
            return [ids.ROOT_IDMAP, ids.ROOT]
        return [ids.ROOTLESS_RANGE, ids.ROOTLESS_SINGLE]

    async def __aenter__(self) -> Self:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._wanted and self._wanted not in self.modes():
            possible = ", ".join(self.modes())
            raise UsageError(f"mode {self._wanted!r} is not for this user; possible: {possible}")
        await asyncio.to_thread(self._roll.open)
        self._cgroups = await asyncio.to_thread(cgroups.detect, cgroups.owner(self._folder))
        for mode in [self._wanted] if self._wanted else self.modes():
            try:
                await self._try(mode)
            except StartFailed as error:
                self.failed[mode] = error
                continue
            self._settle(mode)
            await self._sweep()
            return self
        self._zygote.close()
        self._roll.close()
        raise next(iter(self.failed.values()))

    def _settle(self, mode: str) -> None:
        self.mode = mode
        self.trees = self._trees(mode)
        found = set(_ALWAYS) | self._cgroups.capabilities
        if mode != ids.ROOTLESS_SINGLE:
            found.add(Capability.USERS)
        if mode in (ids.ROOT_IDMAP, ids.ROOT) and Path("/usr/bin/sudo").exists():
            found.add(Capability.SUDO)
        self.capabilities = frozenset(found)

    async def _sweep(self) -> None:
        """Clear away what an earlier server left of devboxes that do not run."""
        for devbox_id, folder in self._roll.dead().items():
            await self._clear(devbox_id, folder)
        await asyncio.to_thread(self._cgroups.remove_empty)

    def report(self) -> Report:
        absent = sorted(set(Capability) - self.capabilities)
        return Report(
            mode=self.mode,
            tried={mode: error.message for mode, error in self.failed.items()},
            missing={name.value: _REMEDIES[name] for name in absent},
        )

    def _trees(self, mode: str) -> Trees:
        return LocalTrees() if mode in (ids.ROOT_IDMAP, ids.ROOT) else MappedTrees(self._zygote, mode)

    async def _try(self, mode: str) -> None:
        """Start and stop a devbox with an empty root: every step of a start, for real."""
        self.mode = mode
        folder = self._folder / "probe"
        layer = folder / "layer"
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("proc", "dev", "etc"):
            (layer / name).mkdir(parents=True)
        folder.chmod(0o700)
        spec = DevboxSpec(id="probe", folder=folder, rootfs=Rootfs(layers=(layer,)))
        try:
            await self.start(spec)
        finally:
            await self.stop("probe")
            await self._trees(mode).remove(folder)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in list(self._starting.values()):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, StartFailed):
                await task
        for devbox in self._running.values():
            devbox.close()
        self._running.clear()
        await asyncio.to_thread(self._cgroups.remove_empty)
        # In this order, so that the warden which the zygote leaves behind finds no server.
        self._roll.close()
        self._zygote.close()

    async def start(self, spec: DevboxSpec) -> None:
        if spec.id in self._running:
            return
        task = self._starting.get(spec.id)
        if task is None:
            task = asyncio.create_task(self._start(spec))
            self._starting[spec.id] = task
            task.add_done_callback(lambda _done: self._starting.pop(spec.id, None))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            # Half a start cannot be undone safely: let it end, then end the devbox.
            with contextlib.suppress(StartFailed):
                await asyncio.shield(task)
            await self.stop(spec.id)
            raise

    async def _start(self, spec: DevboxSpec) -> None:
        slot = next(number for number in range(len(self._slots) + 1) if number not in self._slots)
        self._slots.add(slot)
        started = False
        warming = asyncio.ensure_future(asyncio.to_thread(self._cgroups.warm))
        try:
            groups = await self._make_ready(spec)
            with running.listen(spec.folder) as listener:
                request = self._request(spec, slot, groups)
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    answer = await self._zygote.ask(request, [listener.fileno()], _STARTED)
            pid = answer.find("pid")
            if pid is not None and answer.find("ready"):
                begun, boot = processes.start_time(pid) or 0, processes.boot_id()
                held = running.Held(pid, begun, boot, slot, self.mode, self._lease, groups)
                held.save(spec.folder)
                self._hold(spec, held, answer.descriptors[0])
                started = True
            else:
                close_all(answer.descriptors)
                raise failure(answer, f"starting devbox {spec.id}")
        except TimeoutError as error:
            raise StartFailed(f"starting devbox {spec.id} took over {_PATIENCE_SECONDS} seconds") from error
        finally:
            await warming
            if not started:
                await self._clear(spec.id, spec.folder)
                self._slots.discard(slot)

    async def _make_ready(self, spec: DevboxSpec) -> list[str]:
        """Everything a start needs outside; the control groups."""
        if (spec.folder / "work").exists():
            await self._trees(self.mode).remove(spec.folder / "work")
        _prepare(spec)
        self._roll.add(spec.id, spec.folder)
        return [str(path) for path in self._cgroups.create(spec.id, spec.limits)]

    async def _clear(self, devbox_id: str, folder: Path) -> None:
        """Clear away what is left of a devbox that does not run."""
        await asyncio.to_thread(roll.clear, folder)
        await asyncio.to_thread(self._cgroups.remove, devbox_id)
        await self._trees(self.mode).remove(folder / "work")
        self._roll.drop(devbox_id)

    def _request(self, spec: DevboxSpec, slot: int, groups: list[str]) -> dict[str, Any]:
        return {
            "op": "start",
            "mode": self.mode,
            "slot": slot,
            "can_change_user": self.mode != ids.ROOTLESS_SINGLE,
            "no_new_privileges": self.mode == ids.ROOTLESS_SINGLE,
            "folder": str(spec.folder),
            "layers": [str(layer) for layer in spec.rootfs.layers],
            "host_dirs": list(spec.rootfs.host_dirs),
            "network": Network(spec.network).value,
            "hostname": spec.hostname,
            "cgroups": groups,
            "lease": self._lease,
        }

    def _hold(self, spec: DevboxSpec, held: running.Held, pidfd: int) -> None:
        devbox = running.Running(
            spec,
            held,
            pidfd,
            self._command_ended,
            self._devbox_ended,
            can_change_user=held.mode != ids.ROOTLESS_SINGLE,
        )
        devbox.open(running.connect(spec.folder))
        self._roll.add(spec.id, spec.folder)
        self._running[spec.id] = devbox

    async def find(self, spec: DevboxSpec) -> bool:
        if spec.id in self._running:
            return True
        held = running.Held.load(spec.folder)
        pidfd = held.open() if held else None
        if held is None or pidfd is None:
            await asyncio.to_thread(self._cgroups.remove, spec.id)
            return False
        try:
            self._hold(spec, held, pidfd)
        except OSError:
            # It lives but does not listen: not one of ours to use any more.
            os.close(pidfd)
            await asyncio.to_thread(self._cgroups.remove, spec.id)
            return False
        self._slots.add(held.slot)
        devbox = self._running[spec.id]
        if devbox.was_frozen:
            await self.thaw(spec.id)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                reply, _none = await devbox.ask({"op": "list"})
        except (TimeoutError, DevboxGone):
            await self.stop(spec.id)
            return False
        for command in reply["commands"]:
            devbox.commands.setdefault(command, spec.folder / "executions" / command)
        return True

    async def stop(self, devbox_id: str) -> None:
        task = self._starting.get(devbox_id)
        if task is not None:
            with contextlib.suppress(StartFailed):
                await asyncio.shield(task)
        devbox = self._running.pop(devbox_id, None)
        if devbox is None:
            return
        await asyncio.shield(asyncio.create_task(self._end(devbox)))

    async def _end(self, devbox: running.Running) -> None:
        devbox.kill()
        if devbox.frozen and self._can_freeze():
            self._cgroups.thaw(devbox.spec.id)
        await devbox.ended.wait()
        await self._clean(devbox)

    async def _clean(self, devbox: running.Running) -> None:
        devbox.close()
        await asyncio.gather(
            asyncio.to_thread(self._cgroups.remove, devbox.spec.id),
            self._trees(devbox.held.mode).remove(devbox.spec.folder / "work"),
        )
        for name in running.TRACES:
            (devbox.spec.folder / name).unlink(missing_ok=True)
        self._roll.drop(devbox.spec.id)
        self._slots.discard(devbox.held.slot)

    def _command_ended(self, devbox_id: str, execution_id: str) -> None:
        devbox = self._running.get(devbox_id)
        folder = devbox.commands.pop(execution_id, None) if devbox else None
        if folder is not None and running.has_empty_status(folder):
            (folder / "status.json").write_text(json.dumps(_LOST))
        self._events.put_nowait(ExecutionEnded(devbox_id, execution_id))

    def _devbox_ended(self, devbox: running.Running) -> None:
        """The first process is gone; if nobody asked for it, say why and clear up."""
        if self._running.get(devbox.spec.id) is not devbox:
            return
        del self._running[devbox.spec.id]
        out_of_memory = self._cgroups.usage(devbox.spec.id).out_of_memory_kills > 0
        reason = "out_of_memory" if out_of_memory else "health_check_failed"
        detail = "it used more memory than it has" if out_of_memory else "its first process was killed"
        task = asyncio.create_task(self._clean(devbox))
        self._starting[devbox.spec.id] = task
        task.add_done_callback(lambda _done: self._starting.pop(devbox.spec.id, None))
        self._events.put_nowait(DevboxEnded(devbox.spec.id, reason, detail))

    def _get(self, devbox_id: str) -> running.Running:
        devbox = self._running.get(devbox_id)
        if devbox is None:
            raise DevboxGone(f"devbox {devbox_id} does not run")
        return devbox

    async def exec(self, devbox_id: str, command: Command) -> None:
        await self._get(devbox_id).exec(command)

    async def control(self, devbox_id: str, execution_id: str, control: Control) -> bool:
        return await self._get(devbox_id).control(execution_id, control)

    async def open_file(self, devbox_id: str, request: OpenFile) -> int:
        return await self._get(devbox_id).open_file(request)

    def _can_freeze(self) -> bool:
        return Capability.FREEZE in self._cgroups.capabilities

    async def freeze(self, devbox_id: str) -> None:
        devbox = self._get(devbox_id)
        devbox.note_frozen(frozen=True)
        if self._can_freeze():
            await asyncio.to_thread(self._cgroups.freeze, devbox_id)
        else:
            await devbox.ask({"op": "stop_all"})

    async def thaw(self, devbox_id: str) -> None:
        devbox = self._get(devbox_id)
        if self._can_freeze():
            await asyncio.to_thread(self._cgroups.thaw, devbox_id)
        else:
            await devbox.ask({"op": "continue_all"})
        devbox.note_frozen(frozen=False)

    async def usage(self, devbox_id: str) -> Usage:
        return self._cgroups.usage(self._get(devbox_id).spec.id)

    async def events(self) -> AsyncIterator[Event]:
        while True:
            yield await self._events.get()


def _prepare(spec: DevboxSpec) -> None:
    """The folders a start needs: the changed layer (kept), fresh work folders, a place to mount."""
    for path in (spec.changes, spec.folder / "root", spec.folder / "work"):
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
    for name in ("root", *spec.rootfs.host_dirs):
        (spec.folder / "work" / name).mkdir()
