"""The default image: a view of this machine's own system, as one small layer over its /usr and friends."""

import os
from pathlib import Path

from benchyard.errors import ImageError
from benchyard.images.host_files import HOST_DIRS, host_entries, leads_into_view
from benchyard.images.layer_tar import LayerTar
from benchyard.images.own_files import USER_ID, own_files

_LARGEST_RESOLV_CONF = 64 * 1024
_MOST_PACKAGES = 20_000
_PLAIN = (
    "etc",
    "etc/apt",
    "etc/apt/apt.conf.d",
    "etc/pam.d",
    "etc/profile.d",
    "etc/security",
    "etc/skel",
    "etc/ssl",
    "etc/sudoers.d",
    "home",
    "media",
    "mnt",
    "opt",
    "run",
    "srv",
    "var",
    "var/backups",
    "var/cache",
    "var/cache/apt/archives/partial",
    "var/cache/debconf",
    "var/cache/ldconfig",
    "var/lib",
    "var/lib/apt/lists/partial",
    "var/lib/dpkg/alternatives",
    "var/lib/dpkg/info",
    "var/lib/dpkg/triggers",
    "var/lib/dpkg/updates",
    "var/lib/misc",
    "var/local",
    "var/log",
    "var/log/apt",
    "var/opt",
    "var/spool",
)
_SPECIAL = {
    "dev": 0o755,
    "proc": 0o555,
    "root": 0o700,
    "run/lock": 0o1777,
    "sys": 0o555,
    "tmp": 0o1777,
    "var/tmp": 0o1777,
}
_LINKS = {"var/run": "/run", "var/lock": "/run/lock", "etc/mtab": "/proc/self/mounts"}


def write_host_layer(root: Path, target: Path) -> tuple[str, ...]:
    """Write the layer's tar over the system below `root`; returns the directories of it that lie below.

    The package database says what is installed but not which package owns which file, so that `apt install`
    works in a devbox while the layer stays small.
    """
    with LayerTar(target) as tar:
        host_dirs = _add_host_dirs(root, tar)
        for path in _PLAIN:
            tar.directory(path)
        for path, mode in _SPECIAL.items():
            tar.directory(path, mode)
        for path, link in _LINKS.items():
            tar.link(path, link)
        tar.directory("var/mail", 0o2775, (0, 8))
        tar.directory("home/user", 0o755, (USER_ID, USER_ID))
        _add_host_files(root, tar)
        for own in own_files(root):
            tar.file(own.path, own.text.encode(), own.mode, own.owner)
    return host_dirs


def resolv_conf(root: Path) -> bytes:
    """How the host resolves names, for devboxes on its network."""
    try:
        with (root / "etc/resolv.conf").open("rb") as file:
            return file.read(_LARGEST_RESOLV_CONF)
    except OSError:
        return b""


def _add_host_dirs(root: Path, tar: LayerTar) -> tuple[str, ...]:
    found = []
    for name in HOST_DIRS:
        path = root / name
        if path.is_symlink():
            link = os.readlink(path)  # noqa: PTH115  the text as it is
            if leads_into_view(name, link):
                tar.link(name, link)
        elif path.is_dir():
            tar.directory(name)
            found.append(name)
    if "usr" not in found:
        raise ImageError(f"the default image needs {root / 'usr'} to be a directory; import an image instead")
    return tuple(found)


def _add_host_files(root: Path, tar: LayerTar) -> None:
    for entry in host_entries(root):
        if entry.target is not None:
            tar.link(entry.path, entry.target)
        elif entry.content is not None:
            tar.file(entry.path, entry.content, 0o755 if entry.executable else 0o644)
        else:
            tar.directory(entry.path)
    for name in _packages(root):
        tar.file(f"var/lib/dpkg/info/{name}", b"")
    tar.file("etc/resolv.conf", resolv_conf(root))


def _packages(root: Path) -> list[str]:
    """Names of the package database's file lists: dpkg complains about each one that is missing."""
    found = sorted(path.name for path in (root / "var/lib/dpkg/info").glob("*.list"))
    return found[:_MOST_PACKAGES]
