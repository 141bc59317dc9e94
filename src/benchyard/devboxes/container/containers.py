"""The containers of devboxes in an engine: created, started, met, frozen, ended, removed."""

import asyncio
import contextlib
import errno
import json
import logging
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchyard.devboxes.base import DevboxSpec, Network
from benchyard.devboxes.container import interpreter
from benchyard.devboxes.container.engine_client import ContainerEngine, EngineInfo
from benchyard.devboxes.guest import freezer, seccomp, wire
from benchyard.devboxes.shared import cgroups, devbox_index, running_devbox
from benchyard.devboxes.shared.running_devbox import bind
from benchyard.errors import DevboxError, NotFound, StartFailed

_LOWER_HALF = 0xFFFFFFFF
"""The kernel looks at only these bits of the arguments here, so the filter must do the same."""
_FAMILIES = 46
_ON_PROCESSES = ("prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity")


def seccomp_profile(*, tracing: bool = True) -> str:
    """Return the profile, as JSON; without `tracing` no process can reach into another."""
    families = [number for number in range(_FAMILIES) if number not in seccomp.SOCKET_FAMILIES]
    rules = [
        _refuse([*seccomp.REFUSED, *(() if tracing else seccomp.TRACING)], errno.EPERM),
        _refuse(seccomp.ABSENT, errno.ENOSYS),
        *_if_bits("clone", seccomp.NAMESPACES),
        *_if_bits("unshare", seccomp.NAMESPACES | seccomp.TIME_NAMESPACE),
        *_if_equal(("socket", "socketpair"), 0, families),
        _refuse(("socket", "socketpair"), errno.EAFNOSUPPORT, _compare(0, "GE", _FAMILIES)),
        *_if_equal(("socket",), 2, seccomp.RARE_PROTOCOLS),
        *_if_equal(_ON_PROCESSES, 0, [seccomp.FIRST_PROCESS]),
        *_if_equal(("setpriority",), 0, [seccomp.PRIORITY_OF_A_USER]),
        *_if_equal(("setpriority",), 1, [seccomp.FIRST_PROCESS]),
        *_if_equal(("ioctl",), 1, seccomp.TERMINAL_POWERS),
    ]
    return json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules})


def _refuse(names: Iterable[str], number: int, *arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "names": list(names),
        "action": "SCMP_ACT_ERRNO",
        "errnoRet": number,
        "args": list(arguments),
    }


def _compare(index: int, how: str, value: int, second: int = 0) -> dict[str, Any]:
    return {"index": index, "op": f"SCMP_CMP_{how}", "value": value, "valueTwo": second}


def _if_equal(names: Iterable[str], index: int, values: Iterable[int]) -> list[dict[str, Any]]:
    known_names = list(names)
    return [
        _refuse(known_names, errno.EPERM, _compare(index, "MASKED_EQ", _LOWER_HALF, value))
        for value in values
    ]


def _if_bits(name: str, bits: int) -> list[dict[str, Any]]:
    single = [1 << number for number in range(32) if bits & 1 << number]
    return [_refuse([name], errno.EPERM, _compare(0, "MASKED_EQ", bit, bit)) for bit in single]


_log = logging.getLogger(__name__)

MEETING_FOLDER = "meeting"
"""Name of the folder, in a devbox's folder, of the socket for meeting the first process."""
MEETING_SOCKET = "socket"


@contextlib.contextmanager
def open_meeting_place(folder: Path) -> Iterator[socket.socket]:
    """Open the socket for meeting the first process of the devbox in `folder`; it is removed afterwards."""
    place = folder / MEETING_FOLDER
    place.mkdir(exist_ok=True)
    place.chmod(0o755)
    with bind(place, MEETING_SOCKET) as listener:
        # Root in the container may have another id on the host; other users cannot reach this folder.
        (place / MEETING_SOCKET).chmod(0o666)
        listener.setblocking(False)
        try:
            yield listener
        finally:
            (place / MEETING_SOCKET).unlink(missing_ok=True)


async def meet_first_process(meeting: socket.socket, request: dict[str, Any], listener: socket.socket) -> int:
    """Hand over the socket on which the first process takes requests; return its pid once it is ready."""
    await _readable(meeting)
    connection, _address = meeting.accept()
    with connection:
        connection.setblocking(False)
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid: int = struct.unpack("3i", credentials)[0]
        groups = await asyncio.to_thread(_enclose, pid)
        try:
            wire.send(connection, request, [listener.fileno(), *groups])
        finally:
            for descriptor in groups:
                os.close(descriptor)
        await _readable(connection)
        try:
            answer, _none = wire.receive(connection)
        except OSError:
            answer = None
        if not answer or not answer.get("ready"):
            raise StartFailed("the devbox's first process ended before it was ready", step="meeting")
    return pid


def _enclose(pid: int) -> list[int]:
    """Put a first process into a separate group; return descriptors with which it can freeze all others."""
    try:
        group = cgroups.enclose(pid)
        return freezer.open_group(str(group)) if group else []
    except OSError as error:
        _log.info("what runs in a container cannot be frozen by its group, only by signals: %s", error)
        return []


async def _readable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sock.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sock.fileno())


OWNER_LABEL = "benchyard.owner"
DEVBOX_LABEL = "benchyard.devbox"
FOLDER_LABEL = "benchyard.folder"
_PLACE = "/dev/.benchyard"
"""Below /dev, which engines make anew for each container: none of it gets onto the devbox's disk."""
_CAPABILITIES = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
_MARK = "WAKE_ALARM"
"""Capability with which `guest.tracing` marks commands that others must not reach."""
_MASKED = ("/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/kallsyms", "/proc/slabinfo")
"""Files about the machine's memory, readable for every root, that engines do not mask by themselves."""
_MASKED_BY_DOCKER = (
    *("/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi"),
    *("/sys/firmware", "/sys/devices/virtual/powercap"),
)
"""Docker's own list of masked paths, which ours replaces."""
_LOG_BYTES = "65536"


@dataclass(frozen=True)
class ContainerSettings:
    """Settings that all containers of a driver share."""

    owner: str
    python: Path
    """The folder of our own Python."""
    runtime: str | None
    seccomp: str
    """The filter of system calls, in this engine's format."""
    untraced: str
    """The filter for devboxes in which no process may trace another."""
    is_podman: bool
    marks: bool = False
    """A first process can get the capability that marks commands others must not reach."""

    def name(self, devbox_id: str) -> str:
        """Return the name of a devbox's container."""
        return f"{self.owner}-{devbox_id}"


def container_request(spec: DevboxSpec, image: str, ways: ContainerSettings) -> dict[str, Any]:
    """Return the request body that creates the container of a devbox."""
    command = interpreter.command(f"{_PLACE}/python", f"{_PLACE}/meeting/{MEETING_SOCKET}")
    body: dict[str, Any] = {
        "Image": image,
        "Entrypoint": command,
        "Cmd": [],
        "User": "0:0",
        "WorkingDir": "/",
        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "Labels": {OWNER_LABEL: ways.owner, DEVBOX_LABEL: spec.id, FOLDER_LABEL: str(spec.folder)},
        "HostConfig": _host_config(spec, ways),
    }
    if spec.network is Network.NONE and spec.network_of is None:
        body["Hostname"] = spec.hostname
    return body


def _network(spec: DevboxSpec, ways: ContainerSettings) -> str:
    if spec.network_of is not None and spec.network is Network.NONE:
        return f"container:{ways.name(spec.network_of)}"
    return Network(spec.network).value


def _host_config(spec: DevboxSpec, ways: ContainerSettings) -> dict[str, Any]:
    limits = spec.limits
    folders = {ways.python: "python", spec.folder / MEETING_FOLDER: "meeting"}
    targets = [(source, f"{_PLACE}/{name}") for source, name in folders.items()]
    targets += [(mount.source, mount.target) for mount in spec.mounts]
    config: dict[str, Any] = {
        "Mounts": [
            {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": True}
            for source, target in targets
        ],
        "NetworkMode": _network(spec, ways),
        "CapDrop": ["ALL"],
        "CapAdd": [*_CAPABILITIES, *([_MARK] if spec.tracing_switch and ways.marks else [])],
        "SecurityOpt": [f"seccomp={ways.seccomp if spec.tracing else ways.untraced}"],
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,
        "NanoCpus": int(limits.cpus * 1e9),
        "PidsLimit": limits.pids,
        "LogConfig": {"Type": "json-file", "Config": {"max-size": _LOG_BYTES}},
        "RestartPolicy": {"Name": "no"},
    }
    if ways.is_podman:
        config["SecurityOpt"].append(f"mask={':'.join(_MASKED)}")
    else:
        config["MaskedPaths"] = [*_MASKED_BY_DOCKER, *_MASKED]
    if ways.runtime:
        config["Runtime"] = ways.runtime
    return config


_PATIENCE_SECONDS = 120
_RUNTIME = "It needs a runtime that shares this machine's kernel, such as runc or crun; not runsc or kata"
_OWN_KERNEL = ("runsc", "gvisor", "kata", "krun", "io.containerd.runsc", "io.containerd.kata")


def check_runtime(about: EngineInfo, wanted: str | None) -> None:
    """Refuse a runtime that the engine lacks or does not accept, or with which no devbox can start."""
    known = ", ".join(about.runtimes)
    used = wanted or about.default_runtime
    if wanted and about.runtimes and wanted not in about.runtimes:
        raise StartFailed(f"the engine has no runtime {wanted!r}; it has: {known}", step="runtime")
    if used.startswith(_OWN_KERNEL):
        message = (
            f"with the runtime {used!r} a devbox's first process has a kernel of its own, where the server "
            "cannot reach it: take runc or crun, or give the whole server a virtual machine"
        )
        raise StartFailed(message, step="runtime")
    if about.name == "podman" and used != about.default_runtime:
        message = (
            f"Podman takes no runtime over its socket, and would use {about.default_runtime!r}: "
            f'write runtime = "{used}" into [engine] of its containers.conf, start its service again, '
            "and leave the option out"
        )
        raise StartFailed(message, step="runtime")


class Containers:
    """The containers of an owner's devboxes, each named after owner and devbox."""

    def __init__(self, engine: ContainerEngine, ways: ContainerSettings) -> None:
        self._engine = engine
        self._ways = ways

    def name(self, devbox_id: str) -> str:
        """Return the name of a devbox's container."""
        return self._ways.name(devbox_id)

    async def create(self, spec: DevboxSpec, image: str) -> None:
        """Create the container of a new devbox."""
        (spec.folder / MEETING_FOLDER).mkdir(exist_ok=True)
        body = container_request(spec, image, self._ways)
        await self.remove(spec.id)
        await self._ask("/containers/create", body, {"name": self.name(spec.id)})

    async def reset(self, devbox_id: str) -> None:
        """End the container of a devbox with a disk, if it runs; raise StartFailed if it is gone."""
        view = await self._engine.inspect(self.name(devbox_id))
        if view is None:
            message = f"the disk of devbox {devbox_id} is gone: its container was removed from the engine"
            raise StartFailed(message, step="container")
        if view["State"]["Running"]:
            await self.kill(devbox_id)

    async def run(self, spec: DevboxSpec, request: dict[str, Any]) -> int:
        """Start the container and meet its first process, which then takes requests; return its pid."""
        name = self.name(spec.id)
        with running_devbox.listen(spec.folder) as listener, open_meeting_place(spec.folder) as place:
            await self._begin(name)
            ended = asyncio.ensure_future(self._engine.wait(name))
            met = asyncio.ensure_future(meet_first_process(place, request, listener))
            try:
                await asyncio.wait(
                    [ended, met], timeout=_PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                if not met.done():
                    said = await self._engine.end_of_output(name) or "it said nothing"
                    message = f"the devbox's first process did not start: {said}. {_RUNTIME}"
                    raise StartFailed(message, step="container")
                return met.result()
            finally:
                for task in (ended, met):
                    task.cancel()
                await asyncio.wait([ended, met])

    async def _begin(self, name: str) -> None:
        try:
            await self._ask(f"/containers/{name}/start")
        except StartFailed as error:
            if self._ways.runtime is None:
                raise
            message = f"{error.message} (with the runtime {self._ways.runtime!r}). {_RUNTIME}"
            raise StartFailed(message, step="container") from error

    async def _ask(self, path: str, body: Any = None, query: Mapping[str, str] | None = None) -> None:
        try:
            await self._engine.ask("POST", path, body, query)
        except (DevboxError, NotFound) as error:
            raise StartFailed(error.message, step="container") from error

    async def kill(self, devbox_id: str) -> None:
        """End all processes of a container in whatever state it is, if it exists."""
        for action in ("unpause", "kill"):
            # The engine refuses unless the container is paused, or runs.
            with contextlib.suppress(DevboxError, NotFound):
                await self._engine.ask("POST", f"/containers/{self.name(devbox_id)}/{action}")
        await self.wait_until_ended(devbox_id)

    async def wait_until_ended(self, devbox_id: str) -> None:
        """Return when the engine, too, has noticed the end of a container."""
        await self._engine.wait(self.name(devbox_id))

    async def remove(self, devbox_id: str) -> None:
        """Remove a container with its disk, if it exists."""
        await self._engine.remove(self.name(devbox_id))

    async def freeze(self, devbox_id: str) -> None:
        """Freeze every process."""
        await self._engine.ask("POST", f"/containers/{self.name(devbox_id)}/pause")

    async def thaw(self, devbox_id: str) -> None:
        """Let the processes continue."""
        await self._engine.ask("POST", f"/containers/{self.name(devbox_id)}/unpause")

    async def changes(self, devbox_id: str) -> Path | None:
        """Return the folder of a container's changes, if the engine has one."""
        view = await self._engine.inspect(self.name(devbox_id)) or {}
        folder = ((view.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir")
        return Path(folder) if folder else None

    async def was_out_of_memory(self, devbox_id: str) -> bool:
        """Tell whether an ended container was killed for lack of memory."""
        view = await self._engine.inspect(self.name(devbox_id)) or {}
        return bool(view.get("State", {}).get("OOMKilled"))

    async def sweep(self) -> None:
        """Remove the leftovers of an earlier server: containers without a disk, and half-started ones."""
        for container in await self._engine.containers(f"{OWNER_LABEL}={self._ways.owner}"):
            folder = Path(container["Labels"][FOLDER_LABEL])
            held = running_devbox.FirstProcess.load(folder)
            if not (folder / "changes").exists():
                await self._engine.remove(container["Id"])
            elif container["State"] in ("running", "paused") and (
                held is None or not devbox_index.is_alive(held)
            ):
                await self.kill(folder.name)
