"""A machine made of a few files, so that a store opens at once and holds nothing of the real one."""

from pathlib import Path

import pytest

from benchyard.devboxes.local_trees import LocalTrees
from benchyard.images.store import ImageStore


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The root of a small usrmerged system."""
    return make_machine(tmp_path / "machine")


def make_machine(root: Path) -> Path:
    """Lay out such a system."""
    files = {
        "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
        "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
        "etc/resolv.conf": "nameserver 192.0.2.1\n",
        "etc/apt/sources.list": "deb http://deb.example/debian bookworm main\n",
        "etc/pam.d/sudo": "auth required pam_krb5.so\n",
        "usr/bin/bash": "#!",
        "usr/bin/sudo": "#!",
        "var/lib/dpkg/status": "Package: bash\nStatus: install ok installed\n",
        "var/lib/dpkg/info/bash.list": "/usr/bin/bash\n",
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        (root / path).chmod(0o644)
    (root / "bin").symlink_to("usr/bin")
    (root / "lib64").mkdir()
    return root


@pytest.fixture
def store(tmp_path: Path, machine: Path) -> ImageStore:
    """A store that is not open yet."""
    return ImageStore(tmp_path / "store", LocalTrees(), root=machine)
