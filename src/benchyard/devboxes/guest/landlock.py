"""Landlock: limits on the files a process and its children may read or change, if the kernel has it."""

import ctypes
import os
import stat
import struct

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_FIRST = (1 << 13) - 1
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_SCOPE_SIGNALS = 1 << 1
SCOPES_SINCE = 6
"""The version that can confine signals."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE


def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def _require_success(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)
    return result


def version() -> int:
    """Return the kernel's Landlock version; 0 if there is none."""
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)))


def ruleset(readable: list[str], writable: list[str]) -> int:
    """Return a descriptor of rules: reading below `readable`, full access below `writable`, none elsewhere.

    If the kernel supports it, signals reach only processes bound by the same rules.
    """
    known = version()
    everything = _FIRST | (_REFER if known >= 2 else 0) | (_TRUNCATE if known >= 3 else 0)
    attributes = struct.pack("=Q", everything)
    if known >= SCOPES_SINCE:
        attributes = struct.pack("=QQQ", everything, 0, _SCOPE_SIGNALS)
    libc = _libc()
    size = ctypes.c_size_t(len(attributes))
    rules = _require_success(libc.syscall(_CREATE_RULESET, attributes, size, 0), "landlock_create_ruleset")
    for paths, access in ((readable, _READ), (writable, everything)):
        for path in paths:
            _allow(libc, rules, path, access)
    return rules


def _allow(libc: ctypes.CDLL, rules: int, path: str, access: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            access &= _OF_FILES
        rule = struct.pack("=Qi", access, place)
        _require_success(libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, rule, 0), f"landlock_add_rule {path}")
    finally:
        os.close(place)


def restrict(rules: int) -> None:
    """Bind this process and its future children to the rules; setuid files give no privileges then."""
    libc = _libc()
    _require_success(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")
    _require_success(libc.syscall(_RESTRICT_SELF, rules, 0), "landlock_restrict_self")
