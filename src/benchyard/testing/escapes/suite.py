"""The escape suite: attempts of code in a devbox to get out, which must fail.

Subclass it as the driver contract is subclassed. It is for drivers that claim isolation; others skip it.
"""

import asyncio
import ctypes
import json
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchyard.devboxes.base import Capability, Network, Stdin
from benchyard.testing.contracts.driver_fixture import DriverFixture, contract, eventually, processes_with
from benchyard.testing.escapes.files import FileEscapes
from benchyard.testing.escapes.runner import GOT_NOTHING, REFUSED

_HERE = Path(__file__).parent
_SCRIPTS = ("runner", "system_calls", "reaches", "shared_kernel", "sockets")
_PLACE = "/opt/attempts"
_CREATE, _REMOVE = 0o1000, 0
"""IPC_CREAT and IPC_RMID."""


class EscapeContract(FileEscapes):
    """Attempts by system call, by reaching outside, and through files that the host handles."""

    harmless: Mapping[str, str] = {}
    """Attempts that succeed with this driver, and the reason why that is no way out."""

    @contract(Capability.ISOLATION)
    async def test_no_system_call_leads_out(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await self._attempt(yard, devbox, "system_calls", {})

    @contract(Capability.ISOLATION)
    async def test_nothing_outside_is_in_reach(self, yard: DriverFixture) -> None:
        devbox, other = await yard.devbox(), await yard.devbox()
        marker = yard.marker()
        await yard.begin(other, f"echo {marker} > /opt/theirs; sleep {marker}")
        await eventually(lambda: bool(processes_with(marker)), "the other devbox's process")
        with ExitStack() as held:
            facts = _facts(yard, held, marker)
            facts["host_files"] += [f"{yard.specs[other].folder}/changes/opt/theirs", "/opt/theirs"]
            for script in ("reaches", "shared_kernel", "sockets"):
                await self._attempt(yard, devbox, script, facts)
        assert await yard.text(devbox, "echo still here") == "still here"
        assert await yard.text(other, "echo unharmed") == "unharmed"
        assert processes_with(marker)

    @contract(Capability.ISOLATION)
    async def test_the_hosts_network_does_not_bring_its_files(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(network=Network.HOST)
        resolver = Path("/etc/resolv.conf")
        before = (resolver.read_bytes(), resolver.stat().st_mode) if resolver.exists() else None
        for script in ("echo changed >> /etc/resolv.conf", "chmod 600 /etc/resolv.conf"):
            await yard.run(devbox, script)
        assert before is None or (resolver.read_bytes(), resolver.stat().st_mode) == before

    async def _attempt(self, yard: DriverFixture, devbox: str, script: str, facts: dict[str, Any]) -> None:
        """Carry out the attempts of a script as every user there is; fail naming those that succeed."""
        for name in _SCRIPTS:
            source = await asyncio.to_thread((_HERE / f"{name}.py").read_bytes)
            await yard.write(devbox, f"{_PLACE}/benchyard/testing/escapes/{name}.py", source)
        users = ["root", "user"] if Capability.USERS in yard.driver.capabilities else ["root"]
        for user in users:
            argv = ("/usr/bin/python3", "-m", f"benchyard.testing.escapes.{script}")
            environment = {"PYTHONPATH": _PLACE, "PYTHONDONTWRITEBYTECODE": "1"}
            options: dict[str, Any] = {"user": user, "env": environment, "cwd": "/", "attach_stdin": True}
            command = await yard.begin(devbox, argv=argv, **options)
            await yard.driver.control(devbox, command.id, Stdin(json.dumps(facts).encode(), close=True))
            result = await yard.finish(command)
            assert result.status.exit_status == 0, result
            outcomes = json.loads(result.stdout)
            gains = {name: came for name, came in outcomes.items() if came not in (REFUSED, GOT_NOTHING)}
            gains = {name: came for name, came in gains.items() if name not in self.harmless}
            text = f"{json.dumps(gains, indent=2)}\n{result.stderr.decode(errors='replace')}"
            assert not gains, f"as {user} in the devbox: {text}"
            assert outcomes


def _facts(yard: DriverFixture, held: ExitStack, marker: str) -> dict[str, Any]:
    """Return existing things of the host, as targets of the attempts."""
    secret = yard.folder / "secret"
    secret.write_text(marker)
    secret.chmod(0o644)
    abstract = f"benchyard-{os.getpid()}-{marker}"
    listening = held.enter_context(socket.socket(socket.AF_UNIX))
    listening.bind("\0" + abstract)
    listening.listen()
    server = held.enter_context(socket.create_server(("0.0.0.0", 0)))  # noqa: S104 - for a moment
    return {
        "secret": marker,
        "host_files": [str(secret)],
        "foreign_marker": marker,
        "foreign_pids": [os.getpid(), *processes_with(marker)],
        "abstract": abstract,
        "socket_files": [
            "/run/docker.sock",
            "/run/dbus/system_bus_socket",
            *map(str, yard.folder.rglob("*.sock")),
        ],
        "ports": [server.getsockname()[1]],
        "memory_key": _share_memory(held, marker),
        "queue": _make_queue(held, marker),
        "addresses": _addresses(),
    }


def _share_memory(held: ExitStack, marker: str) -> int:
    """Make a segment of System V memory on the host that every user may attach to; return its key."""
    key = 1 + hash(marker) % (2**31 - 2)
    libc = ctypes.CDLL(None, use_errno=True)
    segment = libc.shmget(key, 4096, _CREATE | 0o666)
    assert segment >= 0, os.strerror(ctypes.get_errno())
    held.callback(libc.shmctl, segment, _REMOVE, None)
    return key


def _make_queue(held: ExitStack, marker: str) -> str:
    """Make a POSIX message queue of the host that every user may open; return its name."""
    name = f"/benchyard-{marker}"
    libc = ctypes.CDLL(None, use_errno=True)
    queue = libc.mq_open(name.encode(), os.O_RDWR | os.O_CREAT, 0o666, None)
    assert queue >= 0, os.strerror(ctypes.get_errno())
    held.callback(libc.mq_unlink, name.encode())
    held.callback(os.close, queue)
    return name


def _addresses() -> list[str]:
    try:
        return sorted(
            {str(row[4][0]) for row in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
        )
    except OSError:
        return []
