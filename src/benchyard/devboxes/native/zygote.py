"""The server's side of the zygote: starts it, sends it requests, and restarts it when it was killed."""

import asyncio
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import benchyard
from benchyard.devboxes.guest import processes, wire
from benchyard.errors import DevboxError, StartFailed

_ENTRY = (
    "import sys; sys.path.insert(0, sys.argv.pop()); from benchyard.devboxes.guest.zygote import main; main()"
)

_LOOK_SECONDS = 2.0
_END_SECONDS = 10.0
_NEVER = frozenset({"never"})
_FULL_SECONDS = 0.01

_REMEDIES = {
    "user namespace": "allow unprivileged user namespaces (`sysctl kernel.unprivileged_userns_clone=1`, "
    "on Ubuntu `sysctl kernel.apparmor_restrict_unprivileged_userns=0`), or run the server as root; "
    "for a range of ids install `uidmap` and add a line to /etc/subuid and /etc/subgid; "
    "start a container with `--cap-add SYS_ADMIN --cap-add SYS_PTRACE`",
    "idmapped layers": "id-mapped mounts need Linux 5.12 and a file system that has them "
    "(ext4, xfs, btrfs, tmpfs): put the data folder on one. The system of a container has none: start "
    "devboxes from images, or the server with `--driver-option mode=root`",
    "overlay": "overlayfs must be available and the data folder must not lie on an overlay itself: "
    "choose another with `--data`",
    "mounts": "show it at a place that is neither a link nor a file in the image, such as one below /dev",
    "proc": "a fresh /proc is refused: start the container with `--security-opt systempaths=unconfined`",
    "pivot_root": "pivot_root is refused: start the container with `--security-opt seccomp=unconfined`",
    "namespaces": "namespaces are refused: start the container with `--security-opt seccomp=unconfined` "
    "or `--privileged`, or ask for `--driver process`",
    "mount namespace": "CAP_SYS_ADMIN is missing: inside a container start it with `--privileged`",
    "loopback": "CAP_NET_ADMIN is missing: start the container with `--cap-add NET_ADMIN`",
    "cgroup": "the control groups under /sys/fs/cgroup are not writable",
    "seccomp": "the kernel has no system call filters (CONFIG_SECCOMP_FILTER)",
}


@dataclass
class ZygoteReply:
    """The answers of the zygote and its child to one request."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)

    def find(self, key: str) -> Any:
        """Return the value of a key from the message that has it."""
        return next((message[key] for message in self.messages if key in message), None)


class ZygoteProcess:
    """A running zygote, replaced when it is gone or was stopped by a signal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def _ensure(self) -> socket.socket:
        if self._process is not None and self._process.poll() is None and self._control is not None:
            return self._control
        self.close()
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        mine.setblocking(False)
        source = str(Path(benchyard.__file__).parent.parent)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _ENTRY, str(theirs.fileno()), str(self._folder), source],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
                cwd=self._folder,
                start_new_session=True,
            )
        self._control = mine
        return mine

    def begin(self) -> None:
        """Start it before the first request, for the warden that waits beside it."""
        self._ensure()

    async def ask(
        self, message: dict[str, Any], descriptors: list[int], until: frozenset[str]
    ) -> ZygoteReply:
        """Send a request and collect its answer until all keys of `until`, an error, or the end arrived."""
        answer = await self._ask(message, descriptors, until)
        if not answer.messages:
            # The zygote was killed with the request in hand, and with it every process that could answer.
            answer = await self._ask(message, descriptors, until)
        return answer

    async def _ask(
        self, message: dict[str, Any], descriptors: list[int], until: frozenset[str]
    ) -> ZygoteReply:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with mine:
            with theirs:
                await self._send(message, [theirs.fileno(), *descriptors])
            watching = asyncio.ensure_future(self._watch())
            try:
                return await _collect(mine, until)
            except asyncio.CancelledError:
                if message.get("can_be_stopped"):
                    await _stop(mine)
                raise
            finally:
                watching.cancel()

    async def _send(self, message: dict[str, Any], descriptors: list[int]) -> None:
        try:
            await self._put(message, descriptors)
        except OSError:
            self.close()
            await self._put(message, descriptors)

    async def _put(self, message: dict[str, Any], descriptors: list[int]) -> None:
        while True:
            try:
                return wire.send(self._ensure(), message, descriptors)
            except BlockingIOError:
                # Its queue is full: a server that waited here could not serve anything else.
                self._end_if_stopped()
                await asyncio.sleep(_FULL_SECONDS)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._end_if_stopped()

    def _end_if_stopped(self) -> None:
        """Kill a zygote that was stopped: it would never answer; waiting requests go to the next one."""
        if self._process is not None and processes.is_stopped(self._process.pid):
            self._process.kill()

    def close(self) -> None:
        """End the zygote; devboxes do not depend on it."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._end_if_stopped()
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


async def _stop(sock: socket.socket) -> None:
    """End the child that was to answer, and wait for its end: its files must not be cleared under it."""
    sock.shutdown(socket.SHUT_WR)
    await asyncio.shield(_collect(sock, _NEVER))


async def _collect(sock: socket.socket, until: frozenset[str]) -> ZygoteReply:
    loop = asyncio.get_running_loop()
    sock.setblocking(False)
    answer, heard = ZygoteReply(), set[str]()
    done = loop.create_future()

    def readable() -> None:
        try:
            message, descriptors = wire.receive(sock)
        except BlockingIOError:
            return
        except OSError:
            message, descriptors = None, []
        answer.descriptors.extend(descriptors)
        if message is not None:
            answer.messages.append(message)
            heard.update(message)
        if (message is None or "error" in message or until <= heard) and not done.done():
            done.set_result(None)

    loop.add_reader(sock.fileno(), readable)
    try:
        await done
    finally:
        loop.remove_reader(sock.fileno())
    return answer


def failure(answer: ZygoteReply, what: str) -> DevboxError:
    """Return the error of an answer, with the failed step and its remedy."""
    name = answer.find("step") or "zygote"
    text = answer.find("error") or "the process that does this ended without a message"
    remedy = _REMEDIES.get(name, "see `benchyard doctor`")
    return StartFailed(f"{what} failed at step '{name}': {text}. Remedy: {remedy}.", step=name, remedy=remedy)


def close_all(descriptors: list[int]) -> None:
    """Close received descriptors that are not needed."""
    for descriptor in descriptors:
        os.close(descriptor)
