"""What tells one machine's system from another's, for images that show the host's own.

A fingerprint has three parts: a readable name, a hash of what makes it this very system (machine id,
distribution, architecture), and a hash of what changes as packages come and go. A snapshot on the host's
system is refused where the first two differ; a difference in the third only means that the default image is
made anew, since a snapshot holds whole files and goes on working over newer packages below it. A machine
without a machine id is told by distribution and architecture alone.
"""

import hashlib
import os
import shlex
from pathlib import Path

_SKELETON_VERSION = "1"
"""Raise it when the default image is made in another way."""

_WATCHED = (
    "etc/alternatives",
    "etc/apt",
    "etc/apt/sources.list",
    "etc/apt/sources.list.d",
    "etc/ld.so.cache",
    "etc/localtime",
    "etc/os-release",
    "etc/ssl/certs/ca-certificates.crt",
    "lib/apk/db/installed",
    "usr/bin/sudo",
    "usr/lib/sysimage/rpm/rpmdb.sqlite",
    "var/lib/dpkg/status",
    "var/lib/rpm/rpmdb.sqlite",
)


def host_fingerprint(root: Path) -> str:
    """The fingerprint of the system below `root`."""
    release = _os_release(root)
    name = f"{release.get('ID', 'linux')}-{release.get('VERSION_ID', 'rolling')}-{os.uname().machine}"
    system = _hash(name, _text(root / "etc/machine-id").strip())
    watched = [f"{path} {_state(root / path)}" for path in _WATCHED]
    return f"{name}:{system}:{_hash(_SKELETON_VERSION, _text(root / 'etc/resolv.conf'), *watched)}"


def same_system(one: str, other: str) -> bool:
    """Whether both are of the same machine and distribution, whatever is installed on it now."""
    return one.split(":")[:2] == other.split(":")[:2]


def system_name(fingerprint: str) -> str:
    """The readable part."""
    return fingerprint.split(":")[0]


def _os_release(root: Path) -> dict[str, str]:
    text = _text(root / "etc/os-release") or _text(root / "usr/lib/os-release")
    found = {}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        found[key.strip()] = "".join(shlex.split(value, comments=True)) if _balanced(value) else value
    return found


def _balanced(value: str) -> bool:
    return value.count('"') % 2 == 0 and value.count("'") % 2 == 0 and not value.endswith("\\")


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(65536).decode(errors="replace")
    except OSError:
        return ""


def _state(path: Path) -> str:
    try:
        status = path.lstat()
    except OSError:
        return "absent"
    return f"{status.st_mtime_ns} {status.st_size}"


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(("benchyard", *parts)).encode()).hexdigest()[:16]
