"""Devboxes held by a container engine of this machine: Docker, Podman, or any with their interface.

The engine gives image, disk, walls and limits; the devbox's first process in the container is our own agent,
run by our own Python, which is mounted read-only. So commands are as fast, and end as surely, as those of the
native driver, and neither they nor their output depend on the server or on the engine once they run.

Options:

    socket    the engine's unix socket; else DOCKER_HOST, else where Docker and Podman usually listen
    runtime   the engine's runtime for devboxes; else the engine's own default
    image     the image for devboxes that name none: one of the store, or one the engine has
    lease     the seconds after which a devbox ends if its server does not come back
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchyard.devboxes.base import Capability, DevboxSpec, DevboxUsage, DriverReport, Trees
from benchyard.devboxes.container import interpreter
from benchyard.devboxes.container.containers import (
    Containers,
    ContainerSettings,
    check_runtime,
    seccomp_profile,
)
from benchyard.devboxes.container.engine_client import ContainerEngine, EngineInfo, find_socket
from benchyard.devboxes.container.images import NO_DEFAULT_IMAGE, NO_LAYERS, ContainerImages, ContainerStorage
from benchyard.devboxes.container.leftovers import note_engine
from benchyard.devboxes.guest import processes, tracing
from benchyard.devboxes.local_trees import LocalTrees
from benchyard.devboxes.native.zygote import ZygoteProcess
from benchyard.devboxes.shared import cgroups, devbox_index, mounts, running_devbox
from benchyard.devboxes.shared.first_process_driver import FirstProcessDriver
from benchyard.errors import BenchyardError, DevboxError, NotFound, StartFailed

_logger = logging.getLogger(__name__)

_MODE = "container"
_ALWAYS = {
    Capability.ISOLATION,
    Capability.USERS,
    Capability.NO_NETWORK,
    Capability.SHARED_NETWORK,
    Capability.IMAGES,
    Capability.FREEZE,
    Capability.PTY,
    Capability.MOUNTS,
    Capability.NO_TRACING,
}
_LIMITS = "the engine cannot limit this on this machine: see `docker info`, or `podman info`"
_REMEDIES = {
    Capability.SUDO: "use an image that has `sudo`; it works in devboxes",
    Capability.HOST_VIEW: NO_DEFAULT_IMAGE,
    Capability.SNAPSHOTS: NO_LAYERS,
    Capability.LIMIT_DISK: NO_LAYERS,
    Capability.REFUSE_TRACING: (
        "a container gets no filter of system calls later; use the native driver for `live` scenarios whose "
        "answers are not to trace their scorers"
    ),
    Capability.OUT_OF_REACH: "run server and engine with the capability WAKE_ALARM",
    Capability.LIMIT_CPU: _LIMITS,
    Capability.LIMIT_MEMORY: _LIMITS,
    Capability.LIMIT_PIDS: _LIMITS,
}


class ContainerDriver(FirstProcessDriver):
    """Devboxes in containers of an engine."""

    trees: Trees

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        super().__init__()
        self._folder = folder
        self._options = options
        self._lease = devbox_index.lease_from_options(options)
        self._roll = devbox_index.DevboxIndex(folder)
        self._zygote = ZygoteProcess(folder)
        self._groups: dict[str, list[cgroups.Hierarchy]] = {}
        self._about: EngineInfo | None = None
        self.trees = LocalTrees()

    async def __aenter__(self) -> Self:
        _check_user()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._engine = ContainerEngine(find_socket(self._options.get("socket"), os.environ))
        self._images = ContainerImages(self._engine, self._folder / "loading")
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(self._engine.close)
            self._about = await self._engine.open()
            self._settle(self._about)
            ways = ContainerSettings(
                owner=cgroups.owner(self._folder),
                python=self._folder / "python",
                runtime=self._options.get("runtime"),
                seccomp=self._profile(self._about, "seccomp.json", traced=True),
                untraced=self._profile(self._about, "untraced.json", traced=False),
                is_podman=self._about.name == "podman",
                marks=Capability.OUT_OF_REACH in self.capabilities,
            )
            self._containers = Containers(self._engine, ways)
            self.storage = ContainerStorage(self._engine, self._containers, self._options.get("image"))
            await asyncio.to_thread(self._roll.open)
            undo.callback(self._roll.close)
            note_engine(self._folder, self._engine.path)
            await asyncio.to_thread(interpreter.prepare, ways.python)
            await self._containers.sweep()
            for devbox_id, place in self._roll.dead().items():
                await self._clear(devbox_id, place)
            await self._images.open()
            undo.pop_all()
        self._zygote.begin()
        self._tidying = asyncio.create_task(self._images.keep_tidy())
        return self

    def _request(self, spec: DevboxSpec) -> dict[str, Any]:
        """Return the settings sent to the first process when it is met."""
        return {"lease": self._lease, "tracing_switch": spec.tracing_switch}

    def _profile(self, about: EngineInfo, name: str, *, traced: bool) -> str:
        """Return the filter of system calls: its text for Docker, the path of its file for Podman."""
        text = seccomp_profile(tracing=traced)
        path = self._folder / name
        path.write_text(text)
        return str(path) if about.name == "podman" else text

    def _settle(self, about: EngineInfo) -> None:
        if about.shifts_ids:
            message = (
                "this engine gives containers other user ids than their files have (it is rootless, or "
                "remaps users), so its disks cannot become layers; use one of root's, or the native driver"
            )
            raise StartFailed(message, step="engine")
        check_runtime(about, self._options.get("runtime"))
        capabilities = set(_ALWAYS) | {Capability(name) for name, can in about.can_limit.items() if can}
        if about.has_plain_layers:
            capabilities |= {Capability.SNAPSHOTS, Capability.LIMIT_DISK}
        if tracing.can_mark():
            capabilities.add(Capability.OUT_OF_REACH)
        self.capabilities = frozenset(capabilities)

    def report(self) -> DriverReport:
        absent = sorted(set(Capability) - self.capabilities)
        about = self._about
        mode = f"{about.name} {about.version}" if about else ""
        if about:
            runtime = self._options.get("runtime") or about.default_runtime
            mode += f", runtime {runtime}, storage {about.storage}, at {self._engine.path}"
        return DriverReport(mode=mode, missing={name.value: _REMEDIES[name] for name in absent})

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tidying.cancel()
        await self._let_go()
        await self._images.close()
        await self._engine.close()
        # In this order, so that the warden left behind by the zygote finds no server.
        self._roll.close()
        self._zygote.close()

    async def start(self, spec: DevboxSpec) -> None:
        if spec.id in self._running:
            return
        had_disk = spec.changes.exists()
        try:
            await self._start_once(spec.id, lambda: self._start(spec, is_new=not had_disk))
        except asyncio.CancelledError:
            if not had_disk:
                await self._forget_disk(spec)
            raise

    async def _start(self, spec: DevboxSpec, *, is_new: bool) -> None:
        mounts.check_mounts(spec.mounts)
        self._roll.add(spec.id, spec.folder)
        try:
            if is_new:
                await self._create(spec)
            else:
                await self._containers.reset(spec.id)
            if spec.mounts:
                await self._check_points(spec)
            held = _first_process_of(await self._containers.run(spec, self._request(spec)), self._lease)
            held.save(spec.folder)
            self._hold(spec, held)
        except BaseException:
            await asyncio.shield(self._undo(spec, is_new=is_new))
            raise

    async def _create(self, spec: DevboxSpec) -> None:
        if spec.rootfs.host_dirs:
            message = "an engine cannot hold a view of this machine's system"
            raise StartFailed(f"{message}: {NO_DEFAULT_IMAGE}", step="image")
        if spec.network_of is not None:
            self._get(spec.network_of)
        await self._containers.create(spec, await self._images.ensure(spec.rootfs))
        spec.changes.mkdir(exist_ok=True)

    async def _check_points(self, spec: DevboxSpec) -> None:
        """Refuse links on the way to mount points: runtimes follow those of an image or a disk."""
        changes = await self._containers.changes(spec.id)
        layers = [*([changes] if changes and changes.is_dir() else []), *spec.rootfs.layers]
        await asyncio.to_thread(mounts.check_mount_points, layers, spec.mounts)

    async def _undo(self, spec: DevboxSpec, *, is_new: bool) -> None:
        """Remove all traces of a failed start, but the disk of a devbox that was to be resumed."""
        if is_new:
            await self._forget_disk(spec)
        else:
            await self._containers.kill(spec.id)
        await self._clear(spec.id, spec.folder)

    async def _forget_disk(self, spec: DevboxSpec) -> None:
        await self._containers.remove(spec.id)
        await self.trees.remove(spec.changes)

    async def _clear(self, devbox_id: str, folder: Path) -> None:
        """Clear the remains of a devbox that does not run."""
        await asyncio.to_thread(devbox_index.clear_traces, folder)
        self._roll.drop(devbox_id)

    def _hold(self, spec: DevboxSpec, held: running_devbox.FirstProcess) -> None:
        pidfd = held.open()
        if pidfd is None:
            raise StartFailed(f"devbox {spec.id} ended as soon as it had started", step="container")
        devbox = running_devbox.RunningDevbox(spec, held, pidfd, self._command_ended, self._devbox_ended)
        try:
            devbox.open()
        except OSError as error:
            os.close(pidfd)
            raise StartFailed(f"devbox {spec.id} does not listen: {error}", step="container") from error
        self._roll.add(spec.id, spec.folder)
        self._groups[spec.id] = cgroups.groups_around(held.pid)
        self._running[spec.id] = devbox

    async def find(self, spec: DevboxSpec) -> bool:
        if spec.id in self._running:
            return True
        held = running_devbox.FirstProcess.load(spec.folder)
        if held is None or not devbox_index.is_alive(held):
            return False
        try:
            self._hold(spec, held)
        except StartFailed:
            # The process lives but does not listen: it cannot be used any more.
            await self._containers.kill(spec.id)
            await self._clear(spec.id, spec.folder)
            return False
        devbox = self._running[spec.id]
        if devbox.was_frozen:
            await self.thaw(spec.id)
        return await self._take_up_commands(devbox)

    async def stop(self, devbox_id: str) -> None:
        await self._settled(devbox_id)
        self._groups.pop(devbox_id, None)
        devbox = self._running.pop(devbox_id, None)
        if devbox is not None:
            await asyncio.shield(asyncio.create_task(self._end(devbox)))

    async def _end(self, devbox: running_devbox.RunningDevbox) -> None:
        devbox.kill()
        # A frozen process dies when it is thawed, before it can do anything else.
        if devbox.frozen:
            with contextlib.suppress(DevboxError, NotFound):
                await self._containers.thaw(devbox.spec.id)
        await devbox.ended.wait()
        await self._clean(devbox)

    async def _clean(self, devbox: running_devbox.RunningDevbox) -> None:
        devbox.close()
        await self._containers.wait_until_ended(devbox.spec.id)
        await self._clear(devbox.spec.id, devbox.spec.folder)

    def _devbox_ended(self, devbox: running_devbox.RunningDevbox) -> None:
        """Handle the end of the first process; if it was not requested, report the reason and clear up."""
        if self._running.get(devbox.spec.id) is not devbox:
            return
        del self._running[devbox.spec.id]
        # Read now, before the engine removes the groups.
        kills = cgroups.usage_of(self._groups.pop(devbox.spec.id)).out_of_memory_kills
        self._under_way(devbox.spec.id, self._mourn(devbox, out_of_memory=kills > 0))

    async def _mourn(self, devbox: running_devbox.RunningDevbox, *, out_of_memory: bool) -> None:
        try:
            await self._clean(devbox)
            out_of_memory = out_of_memory or await self._containers.was_out_of_memory(devbox.spec.id)
        except BenchyardError as error:
            _logger.warning("what is left of devbox %s was not cleared: %s", devbox.spec.id, error.message)
        self._tell_end(devbox.spec.id, out_of_memory=out_of_memory)

    async def freeze(self, devbox_id: str) -> None:
        devbox = self._get(devbox_id)
        devbox.note_frozen(frozen=True)
        await self._containers.freeze(devbox_id)

    async def thaw(self, devbox_id: str) -> None:
        devbox = self._get(devbox_id)
        await self._containers.thaw(devbox_id)
        devbox.note_frozen(frozen=False)

    async def usage(self, devbox_id: str) -> DevboxUsage:
        self._get(devbox_id)
        return await asyncio.to_thread(cgroups.usage_of, self._groups[devbox_id])


def _check_user() -> None:
    if os.geteuid() != 0:
        raise StartFailed(
            "the container driver needs a server that runs as root: layers hold files of many owners; "
            "run it with sudo, or use the native driver, which needs no root",
            step="user",
        )


def _first_process_of(pid: int, lease: float) -> running_devbox.FirstProcess:
    begun = processes.start_time(pid) if pid else None
    if begun is None:
        raise StartFailed(
            "the devbox's first process cannot be seen from here: run the server where the engine runs, "
            "outside of other containers, and with a runtime that shares this machine's kernel",
            step="container",
        )
    return running_devbox.FirstProcess(
        pid, begun, processes.boot_id(), 0, _MODE, lease, cgroups.groups_to_thaw(cgroups.groups_around(pid))
    )
