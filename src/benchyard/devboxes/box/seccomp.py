"""The system calls a devbox may not make: a filter program for the kernel, made by hand.

What is refused answers EPERM, as it would for an unprivileged user; calls that programs try first and
then do without (clone3, io_uring) answer ENOSYS, so that they take their other way.
"""

import ctypes
import errno
import platform
import struct

from benchyard.devboxes.box import syscalls

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000

_LOAD, _JUMP_EQUAL, _JUMP_GE, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENT_0, _AT_ARGUMENT_1 = 0, 4, 16, 24

_NAMESPACES = (
    syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWCGROUP
    | syscalls.CLONE_NEWUTS
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWUSER
    | syscalls.CLONE_NEWPID
    | syscalls.CLONE_NEWNET
)
_TERMINAL_INJECTIONS = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: typing into somebody else's terminal."""
_OUTSIDE_FAMILIES = (40, 38)
"""AF_VSOCK, which reaches the machine's own host from within every network namespace, and AF_ALG."""

# name: (x86_64, aarch64); None where the architecture never had it.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "perf_event_open": (298, 241),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "setns": (308, 268),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "move_pages": (279, 239),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
}
_ABSENT: dict[str, tuple[int, int]] = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_CLONE, _UNSHARE, _IOCTL, _SOCKET = (56, 220), (272, 97), (16, 29), (41, 198)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32_BIT = 0x40000000


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _refuse(number: int) -> bytes:
    return _instruction(_RETURN, _ERRNO | number)


def _refuse_if_argument(call: int, offset: int, test: int, values: tuple[int, ...]) -> list[bytes]:
    """Refuse `call` when its argument matches any of `values`; leaves the call's number loaded."""
    body = [_instruction(_LOAD, offset)]
    for value in values:
        body += [_instruction(test, value, 0, 1), _refuse(errno.EPERM)]
    body.append(_instruction(_LOAD, _AT_NUMBER))
    return [_instruction(_JUMP_EQUAL, call, 0, len(body)), *body]


def program(machine: str) -> bytes:
    """The filter for one architecture."""
    column, architecture = _ARCHITECTURES[machine]
    code = [
        _instruction(_LOAD, _AT_ARCHITECTURE),
        _instruction(_JUMP_EQUAL, architecture, 1, 0),
        _refuse(errno.EPERM),
        _instruction(_LOAD, _AT_NUMBER),
        _instruction(_JUMP_GE, _X32_BIT, 0, 1),
        _refuse(errno.ENOSYS),
    ]
    for numbers in _REFUSED.values():
        number = numbers[column]
        if number is not None:
            code += [_instruction(_JUMP_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    for pair in _ABSENT.values():
        code += [_instruction(_JUMP_EQUAL, pair[column], 0, 1), _refuse(errno.ENOSYS)]
    for call in (_CLONE, _UNSHARE):
        code += _refuse_if_argument(call[column], _AT_ARGUMENT_0, _JUMP_BITS, (_NAMESPACES,))
    code += _refuse_if_argument(_IOCTL[column], _AT_ARGUMENT_1, _JUMP_EQUAL, _TERMINAL_INJECTIONS)
    code += _refuse_if_argument(_SOCKET[column], _AT_ARGUMENT_0, _JUMP_EQUAL, _OUTSIDE_FAMILIES)
    code.append(_instruction(_RETURN, _ALLOW))
    return b"".join(code)


def program_here() -> bytes:
    """The filter for this machine; empty where none is known."""
    machine = platform.machine()
    return program(machine) if machine in _ARCHITECTURES else b""


def install(code: bytes) -> None:
    """Put the filter on this process and all it starts; needs CAP_SYS_ADMIN or no-new-privileges."""
    if not code:
        raise OSError(errno.ENOSYS, "no system call filter is known for this architecture", "seccomp")
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    raw = ctypes.create_string_buffer(header, len(header))
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(raw), 0, 0) < 0:
        number = ctypes.get_errno()
        raise OSError(number, "the system call filter was refused", "seccomp")
