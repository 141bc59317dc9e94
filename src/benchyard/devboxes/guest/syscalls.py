"""Kernel calls that Python lacks, through ctypes: namespaces, mounts, capabilities."""

import ctypes
import errno
import os
import platform
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2

_FALLOC_FL_KEEP_SIZE = 1
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_MOUNT_ATTR_NODEV = 4
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 4
_MOUNT_ATTR_IDMAP = 0x00100000
_FSCONFIG_SET_FLAG = 0
_FSCONFIG_SET_STRING = 1
_FSCONFIG_CMD_CREATE = 6

# Calls added since 5.1 have one number on every architecture; only these three differ.
_NR_OPEN_TREE = 428
_NR_MOVE_MOUNT = 429
_NR_FSOPEN = 430
_NR_FSCONFIG = 431
_NR_FSMOUNT = 432
_NR_MOUNT_SETATTR = 442
_NR_PIVOT_ROOT, _NR_CAPGET, _NR_CAPSET = {"x86_64": (155, 125, 126), "aarch64": (41, 90, 91)}.get(
    platform.machine(), (0, 0, 0)
)

_CAPABILITY_VERSION_3 = 0x20080522


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def unshare(flags: int) -> None:
    """Leave the given namespaces for new ones."""
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """Enter the namespace behind a descriptor."""
    _check(_libc.setns(descriptor, kind), "setns")


def mount(source: str | None, target: str, kind: str | None, flags: int = 0, data: str | None = None) -> None:
    """Call mount(2), refusing options that would be cut off at the kernel's page of 4096 bytes."""
    options = data.encode() if data else None
    if options and len(options) >= 4096:
        raise OSError(
            7, "mount options exceed 4095 bytes; this kernel needs 6.5 or newer for so many layers", target
        )
    result = _libc.mount(
        source.encode() if source else None,
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options,
    )
    _check(result, f"mount {target}")


def unmount(target: str, flags: int = MNT_DETACH) -> None:
    """Call umount2(2)."""
    _check(_libc.umount2(target.encode(), flags), f"umount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    """Call pivot_root(2)."""
    _check(_syscall(_NR_PIVOT_ROOT, new_root.encode(), put_old.encode()), "pivot_root")


def prctl(option: int, value: int) -> None:
    """Call prctl(2) with one argument."""
    _check(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def set_hostname(name: str) -> None:
    """Call sethostname(2)."""
    raw = name.encode()
    _check(_libc.sethostname(raw, len(raw)), "sethostname")


def set_aside(descriptor: int, size: int) -> None:
    """Reserve disk space for the first bytes of a file, without changing its size."""
    result = _libc.fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(size))
    # A filesystem that cannot do this still accepts the file, only without the guarantee.
    if result < 0 and ctypes.get_errno() != errno.EOPNOTSUPP:
        _check(result, "fallocate")


def clone_tree(path: str) -> int:
    """Return a detached copy of one mount at `path`, without the mounts below it."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC
    return _check(_syscall(_NR_OPEN_TREE, _AT_FDCWD, path.encode(), flags), f"open_tree {path}")


def attach(tree: int, target: str) -> None:
    """Mount a detached tree at `target`."""
    moved = _syscall(_NR_MOVE_MOUNT, tree, b"", _AT_FDCWD, target.encode(), _MOVE_MOUNT_F_EMPTY_PATH)
    _check(moved, f"move_mount {target}")


def map_ids(tree: int, user_namespace: int) -> None:
    """Show a detached tree's ids shifted by the mapping of a user namespace."""
    attributes = struct.pack("QQQQ", _MOUNT_ATTR_IDMAP, 0, 0, user_namespace)
    result = _syscall(
        _NR_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, attributes, ctypes.c_size_t(len(attributes))
    )
    _check(result, "mount_setattr idmap")


def mount_overlay(layers: list[str], upper: str, work: str, target: str) -> None:
    """Mount an overlay over any number of layers (topmost first), volatile and with user.* marks."""
    context = _syscall(_NR_FSOPEN, b"overlay", 1)
    if context < 0:
        _mount_overlay_by_string(layers, upper, work, target)
        return
    try:
        try:
            for layer in layers:
                _configure(context, "lowerdir+", layer)
        except OSError as error:
            # Kernels before 6.5 take all layers as one string.
            if error.errno != 22:
                raise
            _mount_overlay_by_string(layers, upper, work, target)
            return
        _configure(context, "upperdir", upper)
        _configure(context, "workdir", work)
        for flag in ("userxattr", "volatile"):
            _configure(context, flag, None)
        _check(_syscall(_NR_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0), "mount overlay")
        tree = _check(_syscall(_NR_FSMOUNT, context, 1, _MOUNT_ATTR_NODEV), "fsmount overlay")
        try:
            attach(tree, target)
        finally:
            os.close(tree)
    finally:
        os.close(context)


def _configure(context: int, key: str, value: str | None) -> None:
    command = _FSCONFIG_SET_FLAG if value is None else _FSCONFIG_SET_STRING
    text = None if value is None else value.encode()
    _check(_syscall(_NR_FSCONFIG, context, command, key.encode(), text, 0), f"overlay {key}={value}")


def _mount_overlay_by_string(layers: list[str], upper: str, work: str, target: str) -> None:
    for path in (*layers, upper, work):
        if ":" in path or "," in path:
            raise OSError(22, "this kernel cannot mount folders whose path has ':' or ','", path)
    options = f"lowerdir={':'.join(layers)},upperdir={upper},workdir={work},userxattr,volatile"
    mount("overlay", target, "overlay", MS_NODEV, options)


def limit_capabilities(keep: frozenset[int]) -> None:
    """Drop every capability but `keep`, for this process and its children."""
    for number in range(64):
        if number not in keep and _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            break
    bits = sum(1 << number for number in keep)
    _set_capabilities(bits, bits, 0)


def has_capability(number: int) -> bool:
    """Tell whether this process may use a capability."""
    return bool(_capabilities()[1] >> number & 1)


def drop_capability(number: int) -> None:
    """Drop one capability, for this process and its children."""
    _check(_libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0), "prctl capbset")
    effective, permitted, inheritable = (bits & ~(1 << number) for bits in _capabilities())
    _set_capabilities(effective, permitted, inheritable)


def pass_on_capability(number: int) -> None:
    """Pass one of this process's capabilities on to all its children, whatever user they run as."""
    effective, permitted, inheritable = _capabilities()
    _set_capabilities(effective, permitted, inheritable | 1 << number)
    _check(_libc.prctl(PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number, 0, 0), "prctl ambient")


def _capabilities() -> tuple[int, int, int]:
    """Return this process's capabilities: effective, permitted and inheritable."""
    data = ctypes.create_string_buffer(24)
    _check(_syscall(_NR_CAPGET, struct.pack("Ii", _CAPABILITY_VERSION_3, 0), data), "capget")
    low, high = struct.unpack_from("III", data.raw), struct.unpack_from("III", data.raw, 12)
    effective, permitted, inheritable = (one | other << 32 for one, other in zip(low, high, strict=True))
    return effective, permitted, inheritable


def _set_capabilities(effective: int, permitted: int, inheritable: int) -> None:
    sets = (effective, permitted, inheritable)
    data = struct.pack("IIIIII", *(bits & 0xFFFFFFFF for bits in sets), *(bits >> 32 for bits in sets))
    _check(_syscall(_NR_CAPSET, struct.pack("Ii", _CAPABILITY_VERSION_3, 0), data), "capset")
