"""What a container engine is asked for when it is to hold a devbox."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchyard.devboxes.base import DevboxSpec, Network
from benchyard.devboxes.parts import interpreter, meeting

OWNER = "benchyard.owner"
DEVBOX = "benchyard.devbox"
FOLDER = "benchyard.folder"
_PLACE = "/dev/.benchyard"
"""Below /dev, which engines make anew for each container: nothing of it gets onto the devbox's disk."""
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
"""What `box.tracing` gives to commands that others are not to reach."""
_MASKED = ("/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/kallsyms", "/proc/slabinfo")
"""What tells of the machine's memory to everybody who is root, beyond what engines mask by themselves."""
_MASKED_BY_DOCKER = (
    *("/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi"),
    *("/sys/firmware", "/sys/devices/virtual/powercap"),
)
"""Its own list, which ours takes the place of."""
_LOG_BYTES = "65536"


@dataclass(frozen=True)
class Ways:
    """What all containers of a driver have in common."""

    owner: str
    python: Path
    """The folder of our own Python."""
    runtime: str | None
    seccomp: str
    """The filter of system calls, as this engine takes it."""
    untraced: str
    """The same for devboxes in which no process may trace another."""
    is_podman: bool
    marks: bool = False
    """Whether a first process can be given what commands are marked with that others are not to reach."""

    def name(self, devbox_id: str) -> str:
        """What the container of a devbox is called."""
        return f"{self.owner}-{devbox_id}"


def container(spec: DevboxSpec, image: str, ways: Ways) -> dict[str, Any]:
    """The body that creates the container of a devbox."""
    command = interpreter.command(f"{_PLACE}/python", f"{_PLACE}/meeting/{meeting.SOCKET}")
    body: dict[str, Any] = {
        "Image": image,
        "Entrypoint": command,
        "Cmd": [],
        "User": "0:0",
        "WorkingDir": "/",
        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "Labels": {OWNER: ways.owner, DEVBOX: spec.id, FOLDER: str(spec.folder)},
        "HostConfig": _host_config(spec, ways),
    }
    if spec.network is Network.NONE and spec.network_of is None:
        body["Hostname"] = spec.hostname
    return body


def _network(spec: DevboxSpec, ways: Ways) -> str:
    if spec.network_of is not None and spec.network is Network.NONE:
        return f"container:{ways.name(spec.network_of)}"
    return Network(spec.network).value


def _host_config(spec: DevboxSpec, ways: Ways) -> dict[str, Any]:
    limits = spec.limits
    folders = {ways.python: "python", spec.folder / meeting.FOLDER: "meeting"}
    targets = [(source, f"{_PLACE}/{name}") for source, name in folders.items()]
    targets += [(each.source, each.target) for each in spec.mounts]
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
