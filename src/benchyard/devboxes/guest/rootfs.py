"""A devbox's own file system: layers under a copy-on-write root, with its own /proc and /dev."""

import errno
import os
import stat
from typing import Any

from benchyard.devboxes.guest import syscalls
from benchyard.devboxes.guest.start_steps import start_step
from benchyard.devboxes.guest.syscalls import MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY, MS_REMOUNT

_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def show_host_folders(request: dict[str, Any]) -> None:
    """Mount the requested folders below the working directory, the new root, before it becomes the root."""
    sources = request.get("mount_places") or [source for source, _target in request["mounts"]]
    for source, (_source, target) in zip(sources, request["mounts"], strict=True):
        _bind(source, _point(target, make=True))
        point = _point(target, make=False)
        try:
            path = f"/proc/self/fd/{point}"
            # Restrictions of the host's mount must be kept here.
            flag = os.fstatvfs(point).f_flag & MS_NOEXEC
            syscalls.mount(None, path, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | flag)
        finally:
            os.close(point)


def _bind(source: str, point: int) -> None:
    try:
        syscalls.mount(source, f"/proc/self/fd/{point}", None, MS_BIND)
    finally:
        os.close(point)


def _point(target: str, *, make: bool) -> int:
    """Return a descriptor of the place, reached one step at a time so that no link is followed."""
    here = os.open(".", _PLACE)
    for part in target.split("/")[1:]:
        try:
            there = _step(part, here, make=make)
        except NotADirectoryError as error:
            message = f"{part!r} on the way to it is a link or a file in this image"
            raise OSError(errno.ENOTDIR, message, target) from error
        finally:
            os.close(here)
        here = there
    return here


def _step(part: str, here: int, *, make: bool) -> int:
    try:
        return os.open(part, _PLACE, dir_fd=here)
    except FileNotFoundError:
        if not make:
            raise
    os.mkdir(part, 0o755, dir_fd=here)
    return os.open(part, _PLACE, dir_fd=here)


_STAGE = "/tmp"  # noqa: S108 - a mount point that exists everywhere, in a private namespace
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = (
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
)
_HIDDEN = ("kcore", "keys", "sysrq-trigger", "timer_list")
_READ_ONLY = ("sys",)
# Where root inside is not root outside, the kernel itself refuses these.
_HIDDEN_FROM_ROOT = (
    "kmsg",
    "kallsyms",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "mtrr",
    "sched_debug",
    "slabinfo",
    "vmallocinfo",
    "vmcore",
)
_READ_ONLY_FOR_ROOT = ("irq", "bus", "fs", "acpi", "scsi", "driver", "dynamic_debug")
_KEPT_FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC


def shift_ids(request: dict[str, Any], user_namespace: int) -> None:
    """Mount id-mapped copies of every folder the devbox is made of, in this process's mount namespace.

    They are mounted where the devbox's root can reach them, because it has no rights on the folders above the
    originals; the request is changed to name the copies.
    """
    host_dirs = [f"/{name}" for name in request["host_dirs"]]
    shown = [source for source, _target in request["mounts"]]
    sources = [request["folder"], *request["layers"], *host_dirs, *shown]
    copies = [syscalls.clone_tree(path) for path in sources]
    unshifted = len(sources) - len(shown)
    syscalls.mount("tmpfs", _STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    places = []
    for number, tree in enumerate(copies):
        place = f"{_STAGE}/{number}"
        os.mkdir(place)
        try:
            syscalls.map_ids(tree, user_namespace)
        except OSError:
            # A host folder may lie on a filesystem without id mapping: its owners then show as nobody.
            if number < unshifted:
                raise
        syscalls.attach(tree, place)
        os.close(tree)
        places.append(place)
    layers_end = 1 + len(request["layers"])
    request["folder"] = places[0]
    request["layers"] = places[1:layers_end]
    request["host_places"] = places[layers_end:unshifted]
    request["mount_places"] = places[unshifted:]


def enter(request: dict[str, Any]) -> None:
    """Mount everything and make it this process's root (its mount namespace is the devbox's)."""
    folder = request["folder"]
    root = f"{folder}/root"
    with start_step("overlay"):
        layers = request["layers"]
        syscalls.mount_overlay(layers, f"{folder}/changes", f"{folder}/work/root", root)
        places = request.get("host_places") or [f"/{name}" for name in request["host_dirs"]]
        for name, place in zip(request["host_dirs"], places, strict=True):
            _overlay_host_dir(request, name, place)
    os.chdir(root)
    with start_step("proc"):
        syscalls.mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        if request["network"] == "none" and not request["joins"]:
            _open_low_ports()
    with start_step("dev"):
        _mount_devices()
    if request["network"] == "host":
        _share_resolver()
    with start_step("mounts"):
        show_host_folders(request)
    with start_step("pivot_root"):
        syscalls.pivot_root(".", ".")
        syscalls.unmount(".")
        os.chdir("/")
    with start_step("masks"):
        if request["mode"] == "root":
            _mask_proc(_HIDDEN + _HIDDEN_FROM_ROOT, _READ_ONLY + _READ_ONLY_FOR_ROOT)
        else:
            _mask_proc(_HIDDEN, _READ_ONLY)


def _open_low_ports() -> None:
    """Let all users of the devbox, or of one sharing its network, listen on any port: there are no others."""
    descriptor = os.open("proc/sys/net/ipv4/ip_unprivileged_port_start", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, b"0")
    finally:
        os.close(descriptor)


def _overlay_host_dir(request: dict[str, Any], name: str, place: str) -> None:
    folder = request["folder"]
    upper = f"{folder}/changes/{name}"
    layers = [path for layer in request["layers"] if _is_folder(path := f"{layer}/{name}")]
    _make_like(place, upper)
    syscalls.mount_overlay([*layers, place], upper, f"{folder}/work/{name}", f"{folder}/root/{name}")


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode) and bool(os.listdir(path))
    except FileNotFoundError:
        return False


def _make_like(model: str, path: str) -> None:
    try:
        os.mkdir(path, stat.S_IMODE(os.stat(model).st_mode))
    except FileExistsError:
        return


def _mount_devices() -> None:
    syscalls.mount("tmpfs", "dev", "tmpfs", MS_NOSUID, "mode=755,size=1m")
    for name in _DEVICES:
        os.close(os.open(f"dev/{name}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
        _bind_read_only(f"/dev/{name}", f"dev/{name}")
    os.mkdir("dev/pts")
    syscalls.mount(
        "devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,max=256"
    )
    os.mkdir("dev/shm")
    syscalls.mount("tmpfs", "dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=64m")
    for target, name in _DEVICE_LINKS:
        os.symlink(target, f"dev/{name}")


def _share_resolver() -> None:
    """Show the host's resolver settings in a devbox that has the host's network."""
    if os.path.isfile("/etc/resolv.conf") and os.path.isfile("etc/resolv.conf"):
        _bind_read_only("/etc/resolv.conf", "etc/resolv.conf")


def _bind_read_only(source: str, target: str) -> None:
    """Show a file of the host: a device can still be written to, but its mode and owner cannot be changed."""
    syscalls.mount(source, target, None, MS_BIND)
    # Restrictions of the host's mount must be kept here; statvfs uses the same names for these bits.
    flags = os.statvfs(target).f_flag & _KEPT_FLAGS
    syscalls.mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | flags)


def _mask_proc(hidden: tuple[str, ...], read_only: tuple[str, ...]) -> None:
    for name in hidden:
        if os.path.exists(f"/proc/{name}"):
            syscalls.mount("/dev/null", f"/proc/{name}", None, MS_BIND)
    for name in read_only:
        path = f"/proc/{name}"
        if os.path.isdir(path):
            syscalls.mount(path, path, None, MS_BIND)
            flags = MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
            syscalls.mount(None, path, None, flags)
