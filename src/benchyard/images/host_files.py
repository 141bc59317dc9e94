"""Which files of the host's own /etc and /var the default image shows: an allow-list, and never a secret."""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HOST_DIRS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Top-level directories of the host that lie below the default image."""

ALLOWED = (
    "etc/adduser.conf",
    "etc/alpine-release",
    "etc/alternatives",
    "etc/apk/keys",
    "etc/apk/repositories",
    "etc/apt/apt.conf",
    "etc/apt/apt.conf.d",
    "etc/apt/keyrings",
    "etc/apt/preferences",
    "etc/apt/preferences.d",
    "etc/apt/sources.list",
    "etc/apt/sources.list.d",
    "etc/apt/trusted.gpg",
    "etc/apt/trusted.gpg.d",
    "etc/ca-certificates",
    "etc/ca-certificates.conf",
    "etc/crypto-policies",
    "etc/debconf.conf",
    "etc/debian_version",
    "etc/deluser.conf",
    "etc/dpkg",
    "etc/ethertypes",
    "etc/fedora-release",
    "etc/fonts",
    "etc/gai.conf",
    "etc/host.conf",
    "etc/inputrc",
    "etc/java*",
    "etc/ld.so.cache",
    "etc/ld.so.conf",
    "etc/ld.so.conf.d",
    "etc/locale.alias",
    "etc/locale.conf",
    "etc/locale.gen",
    "etc/localtime",
    "etc/login.defs",
    "etc/lsb-release",
    "etc/magic",
    "etc/magic.mime",
    "etc/mime.types",
    "etc/mke2fs.conf",
    "etc/networks",
    "etc/os-release",
    "etc/perl",
    "etc/pip.conf",
    "etc/pki/ca-trust/extracted",
    "etc/pki/tls/cert.pem",
    "etc/pki/tls/certs",
    "etc/pki/tls/openssl.cnf",
    "etc/protocols",
    "etc/python3*",
    "etc/redhat-release",
    "etc/rpc",
    "etc/services",
    "etc/shells",
    "etc/ssl/certs",
    "etc/ssl/openssl.cnf",
    "etc/terminfo",
    "etc/timezone",
    "etc/vim",
    "etc/wgetrc",
    "var/lib/apt/extended_states",
    "var/lib/dpkg/alternatives",
    "var/lib/dpkg/arch",
    "var/lib/dpkg/diversions",
    "var/lib/dpkg/info/format",
    "var/lib/dpkg/status",
)
"""Files and folders by name; `*` at the end stands for versions."""

_LARGEST_FILE = 16 * 1024**2
_MOST_ENTRIES = 20_000
_DEEPEST = 12
_SECRET = re.compile(rb"PRIVATE KEY|://[^/\s@]+@")
_SETTING = re.compile(rb"^[^#\n]*(password|passwd|secret|token|api.?key)[^\n=:\"]*[=:\s\"]+\S", re.I | re.M)
_WITH_SETTINGS = ("etc/apt/", "etc/pip.conf", "etc/wgetrc")


@dataclass(frozen=True)
class HostEntry:
    """One thing of the host that may be shown; a directory has neither content nor target."""

    path: str
    content: bytes | None = None
    target: str | None = None
    executable: bool = False


def host_entries(root: Path) -> Iterator[HostEntry]:
    """Everything of the allow-list that is there, that everybody may read, and that looks like no secret."""
    left = _MOST_ENTRIES
    for allowed in ALLOWED:
        for entry in _allowed(root, allowed):
            left -= 1
            if left < 0:
                return
            yield entry


def _allowed(root: Path, allowed: str) -> Iterator[HostEntry]:
    parent, name = os.path.split(allowed)
    if any((root / each).is_symlink() for each in (parent, *map(str, Path(parent).parents))):
        return
    if not name.endswith("*"):
        yield from _entries(root, allowed, _DEEPEST)
        return
    pattern = re.compile(re.escape(name[:-1]) + r"[-.\w]*")
    for found in sorted(_names(root / parent)):
        if pattern.fullmatch(found):
            yield from _entries(root, f"{parent}/{found}", _DEEPEST)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  names, not paths
    except OSError:
        return []


def _entries(root: Path, path: str, depth: int) -> Iterator[HostEntry]:
    try:
        status = (root / path).lstat()
    except OSError:
        return
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(root / path)  # noqa: PTH115  the text as it is
        if leads_into_view(path, target):
            yield HostEntry(path, target=target)
    elif stat.S_ISDIR(status.st_mode):
        if status.st_mode & 0o005 != 0o005 or depth == 0:
            return
        yield HostEntry(path)
        for name in sorted(_names(root / path)):
            yield from _entries(root, f"{path}/{name}", depth - 1)
    elif (content := _content(root / path)) is not None and not _is_secret(path, content):
        yield HostEntry(path, content=content, executable=bool(status.st_mode & 0o001))


def leads_into_view(path: str, target: str) -> bool:
    """Whether a link leads to something that the default image may show."""
    place = os.path.normpath(os.path.join("/", os.path.dirname(path), target))  # noqa: PTH118, PTH120
    return place.split("/")[1] in (*HOST_DIRS, "etc")


def _content(path: Path) -> bytes | None:
    """The content of a small regular file that everybody may read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o004 or status.st_size > _LARGEST_FILE:
            return None
        return file.read(_LARGEST_FILE)


def _is_secret(path: str, content: bytes) -> bool:
    if _SECRET.search(content):
        return True
    return path.startswith(_WITH_SETTINGS) and _SETTING.search(content) is not None
