"""Devboxes of the kernel's own features: namespaces, overlayfs, cgroups and seccomp, with nothing to install.

A zygote forks each devbox; the devbox's first process stays inside as its exec agent and outlives the
server. Modes, tried in this order unless the option `mode` names one:

    root-idmap        root; each devbox in a user namespace with separate ids, over id-mapped layers
    root              root on kernels without id-mapped mounts; root inside is root, held by the other walls
    rootless-range    an ordinary user with a range of ids from /etc/subuid
    rootless-single   an ordinary user with no id but its own: one user inside

The option `lease` is the number of seconds after which a devbox ends if its server does not come back.
"""

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchyard.devboxes.base import Capability, DevboxSpec, DevboxUsage, DriverReport, Network, Rootfs
from benchyard.devboxes.guest import ids, lease, processes
from benchyard.devboxes.native.trees import MappedTrees, RootTrees
from benchyard.devboxes.native.zygote import ZygoteProcess, close_all, failure
from benchyard.devboxes.shared import (
    cgroups,
    devbox_index,
    first_process_driver,
    mounts,
    running_devbox,
    watches,
)
from benchyard.devboxes.shared.first_process_driver import PATIENCE_SECONDS, FirstProcessDriver
from benchyard.errors import StartFailed, UsageError

_ALWAYS = {
    Capability.ISOLATION,
    Capability.NO_NETWORK,
    Capability.SHARED_NETWORK,
    Capability.IMAGES,
    Capability.SNAPSHOTS,
    Capability.HOST_VIEW,
    Capability.LIMIT_DISK,
    Capability.FREEZE,
    Capability.PTY,
    Capability.MOUNTS,
    Capability.NO_TRACING,
}
_NO_GROUPS = (
    "control groups are not writable: run the server as root, or in a systemd user session with Delegate=yes"
)
_REMEDIES = {
    Capability.USERS: "only one id is mapped: install `uidmap` and grant ids in /etc/subuid and /etc/subgid",
    Capability.SUDO: "install `sudo` on this machine and run the server as root, or use an imported image",
    Capability.REFUSE_TRACING: (
        "the kernel (5.5 or newer is needed), or the container that the server itself runs in, allows no "
        "filter of system calls that asks a supervisor; `live` scenarios are scored with tracing allowed"
    ),
    Capability.OUT_OF_REACH: "run the server with all capabilities of its user namespace",
    Capability.LIMIT_CPU: _NO_GROUPS,
    Capability.LIMIT_MEMORY: _NO_GROUPS,
    Capability.LIMIT_PIDS: _NO_GROUPS,
}
_STARTED = frozenset({"pid", "ready"})
_MEANS = {"asks": Capability.REFUSE_TRACING, "marks": Capability.OUT_OF_REACH}
"""Means of refusing tracing, as a first process reports them."""


class NativeDriver(FirstProcessDriver):
    """The embedded default driver: devboxes of namespaces, overlayfs, cgroups and seccomp."""

    trees: RootTrees | MappedTrees

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        super().__init__()
        self._folder = folder
        self._wanted = options.get("mode")
        self._lease = devbox_index.lease_from_options(options)
        self._roll = devbox_index.DevboxIndex(folder)
        self._zygote = ZygoteProcess(folder)
        self._slots: set[int] = set()
        self._cgroups = cgroups.Cgroups([], "")
        self._means: set[Capability] = set()
        self._letting_go: set[asyncio.Task[None]] = set()
        """Tasks that release the mounts of ended devboxes."""
        self.mode = ""
        self.failed: dict[str, StartFailed] = {}

    @staticmethod
    def modes() -> list[str]:
        """Return the modes that may work for this user, best first."""
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
        self._watch_with(watches.Watcher(self.trees.watch))
        capabilities = set(_ALWAYS) | self._cgroups.capabilities | self._means
        if mode != ids.ROOTLESS_SINGLE:
            capabilities.add(Capability.USERS)
        if mode in (ids.ROOT_IDMAP, ids.ROOT) and Path("/usr/bin/sudo").exists():
            capabilities.add(Capability.SUDO)
        self.capabilities = frozenset(capabilities)

    async def _sweep(self) -> None:
        """Clear the remains of devboxes of an earlier server that do not run."""
        for devbox_id, folder in self._roll.dead().items():
            await self._clear(devbox_id, folder)
        await asyncio.to_thread(self._cgroups.remove_empty)

    def report(self) -> DriverReport:
        absent = sorted(set(Capability) - self.capabilities)
        return DriverReport(
            mode=self.mode,
            tried={mode: error.message for mode, error in self.failed.items()},
            missing={name.value: _REMEDIES[name] for name in absent},
        )

    def _trees(self, mode: str) -> RootTrees | MappedTrees:
        if mode in (ids.ROOT_IDMAP, ids.ROOT):
            return RootTrees(self._zygote)
        return MappedTrees(self._zygote, mode)

    async def _try(self, mode: str) -> None:
        """Start and stop a devbox with an empty root: every step of a start, for real."""
        self.mode = mode
        folder = self._folder / "probe"
        layer = folder / "layer"
        # A server that was killed at this very moment may have left a running devbox.
        await asyncio.to_thread(devbox_index.clear_traces, folder)
        await asyncio.to_thread(self._cgroups.remove, "probe")
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("proc", "dev", "etc"):
            (layer / name).mkdir(parents=True)
        folder.chmod(0o700)
        spec = DevboxSpec(id="probe", folder=folder, rootfs=Rootfs(layers=(layer,)), tracing_switch=True)
        try:
            await self.start(spec)
            told, _none = await self._get("probe").ask({"op": "tracing", "allowed": False})
            self._means = {each for word, each in _MEANS.items() if told[word]}
        finally:
            await self.stop("probe")
            await self._trees(mode).remove(folder)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._let_go()
        await asyncio.gather(*self._letting_go)
        await asyncio.to_thread(self._cgroups.remove_empty)
        # In this order, so that the warden left behind by the zygote finds no server.
        self._roll.close()
        self._zygote.close()

    async def start(self, spec: DevboxSpec) -> None:
        if spec.id in self._running:
            return
        await self._start_once(spec.id, lambda: self._start(spec))

    async def _start(self, spec: DevboxSpec) -> None:
        slot = next(number for number in range(len(self._slots) + 1) if number not in self._slots)
        self._slots.add(slot)
        started = False
        warming = asyncio.ensure_future(asyncio.to_thread(self._cgroups.warm))
        try:
            groups, frozen = await self._make_ready(spec)
            with running_devbox.listen(spec.folder) as listener:
                async with (
                    asyncio.timeout(PATIENCE_SECONDS),
                    running_devbox.joined(spec, self._get) as network,
                ):
                    request = {**self._request(spec, slot), "joins": bool(network)}
                    request |= {"cgroups": groups, "freezer": str(frozen) if frozen else None}
                    answer = await self._zygote.ask(request, [listener.fileno(), *network], _STARTED)
            pid = answer.find("pid")
            if pid is not None and answer.find("ready"):
                begun, boot = processes.start_time(pid) or 0, processes.boot_id()
                held = running_devbox.FirstProcess(pid, begun, boot, slot, self.mode, self._lease, groups)
                held.save(spec.folder)
                self._hold(spec, held, answer.descriptors[0])
                started = True
            else:
                close_all(answer.descriptors)
                raise failure(answer, f"starting devbox {spec.id}")
        except TimeoutError as error:
            raise StartFailed(f"starting devbox {spec.id} took over {PATIENCE_SECONDS} seconds") from error
        finally:
            await warming
            if not started:
                await self._clear(spec.id, spec.folder)
                self._slots.discard(slot)

    async def _make_ready(self, spec: DevboxSpec) -> tuple[list[str], Path | None]:
        """Prepare a start; return the control groups, and the one that can be frozen, if any."""
        mounts.check_mounts(spec.mounts)
        if (spec.folder / "work").exists():
            await self._trees(self.mode).remove(spec.folder / "work")
        devbox_index.make_folders(spec)
        self._roll.add(spec.id, spec.folder)
        groups = [str(path) for path in self._cgroups.create(spec.id, spec.limits)]
        return groups, self._cgroups.add_inner(spec.id)

    async def _clear(self, devbox_id: str, folder: Path) -> None:
        """Clear the remains of a devbox that does not run."""
        await asyncio.to_thread(devbox_index.clear_traces, folder)
        await asyncio.to_thread(self._cgroups.remove, devbox_id)
        await self._trees(self.mode).remove(folder / "work")
        self._roll.drop(devbox_id)

    def _request(self, spec: DevboxSpec, slot: int) -> dict[str, Any]:
        return {
            "op": "start",
            "mode": self.mode,
            "slot": slot,
            "can_change_user": self.mode != ids.ROOTLESS_SINGLE,
            "no_new_privileges": self.mode == ids.ROOTLESS_SINGLE,
            "folder": str(spec.folder),
            "layers": [str(layer) for layer in spec.rootfs.layers],
            "host_dirs": list(spec.rootfs.host_dirs),
            "mounts": mounts.mount_places(spec.mounts),
            "network": Network(spec.network).value,
            "hostname": spec.hostname,
            "lease": self._lease,
            "tracing": spec.tracing,
            "tracing_switch": spec.tracing_switch,
        }

    def _hold(
        self, spec: DevboxSpec, held: running_devbox.FirstProcess, pidfd: int, delay: float = 0.0
    ) -> None:
        devbox = running_devbox.RunningDevbox(
            spec,
            held,
            pidfd,
            self._command_ended,
            self._devbox_ended,
            can_change_user=held.mode != ids.ROOTLESS_SINGLE,
        )
        devbox.open(delay)
        self._roll.add(spec.id, spec.folder)
        self._running[spec.id] = devbox

    async def find(self, spec: DevboxSpec) -> bool:
        if spec.id in self._running:
            return True
        held = running_devbox.FirstProcess.load(spec.folder)
        pidfd = held.open() if held else None
        if held is None or pidfd is None:
            await asyncio.to_thread(self._cgroups.remove, spec.id)
            return False
        has_commands = first_process_driver.has_commands(spec.folder)
        try:
            self._hold(
                spec, held, pidfd, 0.0 if has_commands else running_devbox.greeting_delay(len(self._running))
            )
        except OSError:
            # The process lives but does not listen: it cannot be used any more.
            await asyncio.to_thread(lease.end_devbox, pidfd, held.groups)
            os.close(pidfd)
            await self._clear(spec.id, spec.folder)
            return False
        self._slots.add(held.slot)
        devbox = self._running[spec.id]
        if devbox.was_frozen:
            await self.thaw(spec.id)
        return not has_commands or await self._take_up_commands(devbox)

    async def stop(self, devbox_id: str) -> None:
        await self._settled(devbox_id)
        devbox = self._running.pop(devbox_id, None)
        if devbox is None:
            return
        await asyncio.shield(asyncio.create_task(self._end(devbox)))

    async def _end(self, devbox: running_devbox.RunningDevbox) -> None:
        mounts = devbox.mounts()
        devbox.kill()
        if self._can_freeze():
            # Thaw in any recorded state: a frozen process does not act on SIGKILL.
            self._cgroups.release(devbox.spec.id)
        await devbox.ended.wait()
        if mounts is not None:
            # They are empty now, and take the longer to go, the more was written through them.
            self._letting_go.add(
                task := asyncio.create_task(asyncio.to_thread(running_devbox.release_mounts, mounts))
            )
            task.add_done_callback(self._letting_go.discard)
        await self._clean(devbox)

    async def _clean(self, devbox: running_devbox.RunningDevbox) -> None:
        devbox.close()
        await asyncio.gather(
            asyncio.to_thread(self._cgroups.remove, devbox.spec.id),
            self._trees(devbox.held.mode).remove(devbox.spec.folder / "work"),
        )
        for name in running_devbox.TRACES:
            (devbox.spec.folder / name).unlink(missing_ok=True)
        self._roll.drop(devbox.spec.id)
        self._slots.discard(devbox.held.slot)

    def _devbox_ended(self, devbox: running_devbox.RunningDevbox) -> None:
        """Handle the end of the first process; if it was not requested, report the reason and clear up."""
        if self._running.get(devbox.spec.id) is not devbox:
            return
        del self._running[devbox.spec.id]
        out_of_memory = self._cgroups.usage(devbox.spec.id).out_of_memory_kills > 0
        self._under_way(devbox.spec.id, self._clean(devbox))
        self._tell_end(devbox.spec.id, out_of_memory=out_of_memory)

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

    async def usage(self, devbox_id: str) -> DevboxUsage:
        return self._cgroups.usage(self._get(devbox_id).spec.id)
