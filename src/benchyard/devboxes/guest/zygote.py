"""The process that forks devboxes: small, single-threaded, with everything already imported.

It takes requests over one socket and ends with it; the devboxes it forked live on, and with them a warden
that waited beside it. Each request brings its own socket for the answer, so that many can be under way.
"""

import contextlib
import fcntl
import gc
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from benchyard.devboxes.guest import (
    confinement,
    freezer,
    ids,
    lease,
    pid1,
    processes,
    rootfs,
    seccomp,
    syscalls,
    wire,
)
from benchyard.devboxes.guest.start_steps import StartStepFailed, start_step
from benchyard.devboxes.layers import trees

_NAMESPACES = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWPID
_TREE_CALLS: dict[str, Callable[..., Any]] = {
    "copy": trees.copy_tree,
    "remove": trees.remove_tree,
    "remove_slowly": trees.remove_tree_slowly,
    "usage": trees.tree_usage,
    "sync": trees.sync_tree,
}
_RARE_CALLS = {
    "unpack": ("layers.unpack", "unpack_layer"),
    "merge": ("layers.merge", "merge_layers"),
    "pack": ("layers.pack", "pack_layer"),
    "carry": ("layers.carry", "carry_paths"),
    "carry_work": ("layers.carry", "carry_work"),
    "watch": ("guest.open_watches", "add_watches"),
    "note": ("layers.changes", "note_tree"),
    "compare": ("layers.changes", "compare_tree"),
    "examine": ("layers.work_changes", "examine_work"),
}
"""Module and function of calls imported only by the child that needs them, to keep devboxes small."""


class Zygote:
    """Main loop that hands every request to a child forked ahead of it."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.namespaces = ids.UserNamespaces()
        self.filters = {
            "filter": seccomp.program_here(),
            "untraced": seccomp.untraced_here(),
            "asking": seccomp.asking_here(),
        }
        self.child: socket.socket | None = None

    def run(self) -> None:
        """Serve until the other side closes."""
        while True:
            if self.child is None:
                self.child = self._fork()
            message, descriptors = wire.receive(self.control)
            if message is None:
                return
            self._serve(message, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

    def _serve(self, message: dict[str, Any], descriptors: list[int]) -> None:
        try:
            with start_step("user namespace"):
                namespace = self.namespaces.get(message["mode"], message["slot"])
            self._hand_over({**message, "namespaced": namespace is not None}, descriptors, namespace)
        except (OSError, StartStepFailed) as error:
            with socket.socket(fileno=os.dup(descriptors[0])) as answer:
                _complain(answer, error)

    def _hand_over(self, message: dict[str, Any], descriptors: list[int], namespace: int | None) -> None:
        carried = descriptors if namespace is None else [*descriptors, namespace]
        child, self.child = self.child or self._fork(), None
        with child:
            try:
                wire.send(child, message, carried)
                return
            except OSError:
                # The child was killed while it waited.
                pass
        with self._fork() as another:
            wire.send(another, message, carried)

    def _fork(self) -> socket.socket:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            mine.close()
            self.control.close()
            _wait(theirs, self.filters)
        theirs.close()
        return mine


def _wait(requests: socket.socket, filters: dict[str, bytes]) -> NoReturn:
    """Take one request and carry it out (in a forked child)."""
    message, descriptors = wire.receive(requests)
    requests.close()
    if message is None:
        os._exit(0)
    namespace = descriptors.pop() if message["namespaced"] else None
    if message["op"] == "start":
        _start({**message, **filters}, descriptors, namespace)
    _call(message, descriptors, namespace)


def _complain(answer: socket.socket, error: BaseException) -> None:
    name, cause = (error.name, error.error) if isinstance(error, StartStepFailed) else ("fork", error)
    number = cause.errno if isinstance(cause, OSError) else None
    wire.send(answer, {"error": str(cause), "step": name, "errno": number, "kind": type(cause).__name__})


def _call(message: dict[str, Any], descriptors: list[int], namespace: int | None) -> NoReturn:
    """Run one tree function under the ids of the mode; received descriptors are its last arguments."""
    answer = socket.socket(fileno=descriptors[0])
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if message.get("can_be_stopped"):
            _die_with(answer)
        if namespace is not None and message["mode"] != ids.ROOT_IDMAP:
            with start_step("user namespace"):
                ids.enter(namespace, can_change_user=message["can_change_user"])
        call = _TREE_CALLS.get(message["call"]) or _rare_call(message["call"])
        result = call(*message["arguments"], *descriptors[1:], **message["options"])
        wire.send(answer, {"result": result})
    except (OSError, ValueError, StartStepFailed) as error:
        _complain(answer, error)
    finally:
        os._exit(0)


def _die_with(answer: socket.socket) -> None:
    """Have this process killed when the requester closes its end."""
    fcntl.fcntl(answer, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(answer, fcntl.F_SETFL, fcntl.fcntl(answer, fcntl.F_GETFL) | os.O_ASYNC)


def _rare_call(name: str) -> Callable[..., Any]:
    module, function = _RARE_CALLS[name]
    found: Callable[..., Any] = getattr(importlib.import_module(f"benchyard.devboxes.{module}"), function)
    return found


def _start(message: dict[str, Any], descriptors: list[int], namespace: int | None) -> NoReturn:
    """Make the namespaces, fork the devbox's first process into them, and put it into its cgroups."""
    answer = socket.socket(fileno=descriptors[0])
    try:
        groups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in _joined(message)]
        # Now, while this process still has the rights for it.
        held = freezer.open_group(message["freezer"]) if message["freezer"] else []
        _separate(message, namespace, descriptors.pop() if message["joins"] else None)
        limited, release = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            os.close(release)
            _become_first(message, descriptors, limited, held)
        # Beside the first process's mounting: joining waits for the kernel, not for the processor.
        with start_step("cgroup"):
            for group in groups:
                os.write(group, str(pid).encode())
        wire.send(answer, {"pid": pid}, [os.pidfd_open(pid)])
        os.write(release, b"x")
    except (OSError, StartStepFailed) as error:
        _complain(answer, error)
    finally:
        os._exit(0)


def _joined(message: dict[str, Any]) -> list[str]:
    """Return the files through which a first process joins its groups."""
    inner = f"/{freezer.INNER}"
    paths = [f"{path}{inner if path == message['freezer'] else ''}" for path in message["cgroups"]]
    return [f"{path}/cgroup.procs" for path in paths]


def _separate(message: dict[str, Any], namespace: int | None, network: int | None) -> None:
    """Leave the host's namespaces; `network` is the network namespace of a devbox to share, if any.

    The host's root joins it before it leaves its user namespace; other users join it once they are root of
    all their devboxes.
    """
    mode = message["mode"]
    if network is not None and mode in (ids.ROOT_IDMAP, ids.ROOT):
        _join(network)
    if mode == ids.ROOT_IDMAP:
        assert namespace is not None
        with start_step("mount namespace"):
            syscalls.unshare(syscalls.CLONE_NEWNS)
            syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
        with start_step("idmapped layers"):
            rootfs.shift_ids(message, namespace)
    if namespace is not None:
        with start_step("user namespace"):
            ids.enter(namespace, can_change_user=message["can_change_user"])
    if network is not None and mode not in (ids.ROOT_IDMAP, ids.ROOT):
        _join(network)
    with start_step("namespaces"):
        is_apart = message["network"] == "none" and network is None
        syscalls.unshare(_NAMESPACES | (syscalls.CLONE_NEWNET if is_apart else 0))
        syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)


def _join(network: int) -> None:
    with start_step("shared network"):
        syscalls.setns(network, syscalls.CLONE_NEWNET)
        os.close(network)


def _become_first(message: dict[str, Any], descriptors: list[int], limited: int, held: list[int]) -> NoReturn:
    answer = socket.socket(fileno=descriptors[0])
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.umask(0o022)
        os.setsid()
        rootfs.enter(message)
        with start_step("cgroup"):
            if os.read(limited, 1) != b"x":
                raise OSError(5, "the devbox was not put into its cgroups")
            os.close(limited)
            syscalls.unshare(syscalls.CLONE_NEWCGROUP)
        tracing = confinement.confine(message)
        listeners = [] if tracing is None or tracing.listener is None else [tracing.listener]
        confinement.close_all_but({descriptors[0], descriptors[1], *held, *listeners})
        first = pid1.Pid1(
            socket.socket(fileno=descriptors[1]),
            freezer.make_freezer(held, everybody=True),
            can_change_user=message["can_change_user"],
            lease=message["lease"],
            tracing=tracing,
        )
        wire.send(answer, {"ready": True})
        answer.close()
    except (OSError, StartStepFailed) as error:
        _complain(answer, error)
        os._exit(1)
    first.run()
    os._exit(0)


def main() -> None:
    """Run the zygote: the arguments are the control socket's descriptor and the driver's folder."""
    control = socket.socket(fileno=int(sys.argv[1]))
    folder = sys.argv[2]
    processes.set_title("benchyard")
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    gc.disable()
    pid = os.fork()
    if pid == 0:
        lease.run_warden(folder)
    waiting = os.pidfd_open(pid)
    Zygote(control).run()
    if not lease.living_devboxes(folder):
        _dismiss(waiting)


def _dismiss(process: int) -> None:
    """End the warden, which is not needed."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(process, signal.SIGKILL)
    gone = select.poll()
    gone.register(process, select.POLLIN)
    gone.poll()
