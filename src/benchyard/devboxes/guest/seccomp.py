"""The system calls a devbox may not make: a filter program for the kernel, made by hand.

Refused calls answer EPERM, as for an unprivileged user; calls for which programs have a fallback (clone3,
io_uring, io_setup, all newer than this list) answer ENOSYS, so that they use it. Sockets are of the common
families only: others, such as those that reach a hypervisor, know no network namespaces.
"""

import ctypes
import errno
import platform
import struct

from benchyard.devboxes.guest import syscalls

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_ASK = 0x7FC00000
"""SECCOMP_RET_USER_NOTIF: the holder of the listener decides."""
_SET_FILTER, _NEW_LISTENER = 1, 8

_LOAD, _JUMP_EQUAL, _JUMP_GE, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENT_0, _AT_ARGUMENT_1, _AT_ARGUMENT_2 = 0, 4, 16, 24, 32

NAMESPACES = (
    syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWCGROUP
    | syscalls.CLONE_NEWUTS
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWUSER
    | syscalls.CLONE_NEWPID
    | syscalls.CLONE_NEWNET
)
TIME_NAMESPACE = 0x80
"""For unshare only: in clone, these bits are a signal's number."""
SOCKET_FAMILIES = (1, 2, 10, 16)
"""Unix, both internet protocols, netlink."""
RARE_PROTOCOLS = (33, 115, 132, 136)
"""DCCP, L2TP, SCTP, UDP-Lite: opening one makes the kernel load rarely reviewed code."""
TERMINAL_POWERS = (0x5412, 0x541C, 0x5423)
"""TIOCSTI and TIOCLINUX type into another process's terminal; TIOCSETD makes the kernel load drivers."""

# name: (x86_64, aarch64); None where the architecture never had it.
REFUSED: dict[str, tuple[int | None, int | None]] = {
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
    "fanotify_init": (300, 262),
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
TRACING: dict[str, tuple[int, int]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
}
"""Calls by which one process reaches into another: debuggers and leak checkers use them, and so would a
hostile answer.
"""
ABSENT: dict[str, tuple[int, int]] = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # The machine has a fixed number of these, and does not count them per user.
    "io_setup": (206, 0),
}
_CLONE, _UNSHARE, _IOCTL, _SECCOMP = (56, 220), (272, 97), (16, 29), (317, 277)
_SET_PRIORITY = (141, 140)
PRIORITY_OF_A_USER = 2
FIRST_PROCESS = 1
_ON_PROCESSES = ((302, 261), (144, 119), (142, 118), (314, 274), (203, 122))
"""prlimit64, sched_setscheduler, _setparam, _setattr, _setaffinity: not on the process that keeps time."""
_SOCKET, _SOCKETPAIR = (41, 198), (53, 199)
_FIRST_UNKNOWN = 467
"""The first call, on every architecture, that was added after this list was made (Linux 6.15)."""
_X32 = 0x40000000
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


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


def _refuse_unless_argument(call: int, offset: int, values: tuple[int, ...], number: int) -> list[bytes]:
    """Refuse `call` unless its argument is one of `values`; leaves the call's number loaded."""
    body = [_instruction(_LOAD, offset)]
    for left, value in zip(range(len(values), 0, -1), values, strict=True):
        body.append(_instruction(_JUMP_EQUAL, value, left, 0))
    body += [_refuse(number), _instruction(_LOAD, _AT_NUMBER)]
    return [_instruction(_JUMP_EQUAL, call, 0, len(body)), *body]


def program(machine: str) -> bytes:
    """Return the filter for one architecture."""
    column, architecture = _ARCHITECTURES[machine]
    code = [
        _instruction(_LOAD, _AT_ARCHITECTURE),
        _instruction(_JUMP_EQUAL, architecture, 1, 0),
        _refuse(errno.EPERM),
        _instruction(_LOAD, _AT_NUMBER),
        # Numbers of the x32 architecture are above all others.
        _instruction(_JUMP_GE, _FIRST_UNKNOWN, 0, 1),
        _refuse(errno.ENOSYS),
    ]
    for numbers in REFUSED.values():
        number = numbers[column]
        if number is not None:
            code += [_instruction(_JUMP_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    for pair in ABSENT.values():
        code += [_instruction(_JUMP_EQUAL, pair[column], 0, 1), _refuse(errno.ENOSYS)]
    for call, flags in ((_CLONE, NAMESPACES), (_UNSHARE, NAMESPACES | TIME_NAMESPACE)):
        code += _refuse_if_argument(call[column], _AT_ARGUMENT_0, _JUMP_BITS, (flags,))
    for call in (_SOCKET, _SOCKETPAIR):
        code += _refuse_unless_argument(call[column], _AT_ARGUMENT_0, SOCKET_FAMILIES, errno.EAFNOSUPPORT)
    code += _refuse_if_argument(_SOCKET[column], _AT_ARGUMENT_2, _JUMP_EQUAL, RARE_PROTOCOLS)
    for call in _ON_PROCESSES:
        code += _refuse_if_argument(call[column], _AT_ARGUMENT_0, _JUMP_EQUAL, (FIRST_PROCESS,))
    whose = _SET_PRIORITY[column]
    code += _refuse_if_argument(whose, _AT_ARGUMENT_0, _JUMP_EQUAL, (PRIORITY_OF_A_USER,))
    code += _refuse_if_argument(whose, _AT_ARGUMENT_1, _JUMP_EQUAL, (FIRST_PROCESS,))
    code += _refuse_if_argument(_IOCTL[column], _AT_ARGUMENT_1, _JUMP_EQUAL, TERMINAL_POWERS)
    code.append(_instruction(_RETURN, _ALLOW))
    return b"".join(code)


def untraced(machine: str) -> bytes:
    """Return the filter, for use on top of another, that lets no process reach into another."""
    return _on_tracing(machine, _refuse(errno.EPERM))


def asking(machine: str) -> bytes:
    """Return the filter, for use on top of another, that asks whether a process may reach into another."""
    return _on_tracing(machine, _instruction(_RETURN, _ASK))


def _on_tracing(machine: str, decision: bytes) -> bytes:
    column, architecture = _ARCHITECTURES[machine]
    code = [
        _instruction(_LOAD, _AT_ARCHITECTURE),
        _instruction(_JUMP_EQUAL, architecture, 1, 0),
        _refuse(errno.EPERM),
        _instruction(_LOAD, _AT_NUMBER),
    ]
    if machine == "x86_64":
        # The same calls have other numbers in the x32 architecture.
        code += [_instruction(_JUMP_GE, _X32, 0, 1), _refuse(errno.ENOSYS)]
    for pair in TRACING.values():
        code += [_instruction(_JUMP_EQUAL, pair[column], 0, 1), decision]
    code.append(_instruction(_RETURN, _ALLOW))
    return b"".join(code)


def program_here() -> bytes:
    """Return the filter for this machine; empty if none is known."""
    machine = platform.machine()
    return program(machine) if machine in _ARCHITECTURES else b""


def untraced_here() -> bytes:
    """Return the filter against tracing for this machine; empty if none is known."""
    machine = platform.machine()
    return untraced(machine) if machine in _ARCHITECTURES else b""


def asking_here() -> bytes:
    """Return the filter that asks about tracing for this machine; empty if none is known."""
    machine = platform.machine()
    return asking(machine) if machine in _ARCHITECTURES else b""


def install(code: bytes) -> None:
    """Install the filter for this process and its children; needs CAP_SYS_ADMIN or no-new-privileges."""
    _program, header = _arranged(code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(header), 0, 0) < 0:
        raise _refusal()


def install_listener(code: bytes) -> int:
    """Install a filter that asks for this process and its children; return the descriptor at which it asks.

    Only one of a process's filters can ask: if another already does, this raises OSError.
    """
    _program, header = _arranged(code)
    libc = ctypes.CDLL(None, use_errno=True)
    number = _SECCOMP[_ARCHITECTURES[platform.machine()][0]]
    call = (ctypes.c_long(number), ctypes.c_long(_SET_FILTER), ctypes.c_long(_NEW_LISTENER))
    descriptor: int = libc.syscall(*call, ctypes.byref(header))
    if descriptor < 0:
        raise _refusal()
    return descriptor


def _arranged(code: bytes) -> tuple[ctypes.Array[ctypes.c_char], ctypes.Array[ctypes.c_char]]:
    """Return a program, which must stay in memory until it is installed, and the header that points to it."""
    if not code:
        raise OSError(errno.ENOSYS, "no system call filter is known for this architecture", "seccomp")
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    return buffer, ctypes.create_string_buffer(header, len(header))


def _refusal() -> OSError:
    return OSError(ctypes.get_errno(), "the system call filter was refused", "seccomp")
