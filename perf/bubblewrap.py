"""The baseline: `bwrap` over an overlay that the baseline itself mounts and removes, same cgroups joined."""

import os
import shutil
import subprocess
from pathlib import Path

from benchyard.devboxes.base import DevboxLimits, Rootfs
from benchyard.devboxes.guest import syscalls
from benchyard.devboxes.layers.trees import remove_tree
from benchyard.devboxes.shared import cgroups

_BIND = ["--dev", "/dev", "--proc", "/proc"]
_WALLS = ["--unshare-all", "--die-with-parent", "--hostname", "devbox", "--chdir", "/", "--clearenv"]
_ENV = ["--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/home/user"]


class Bubblewrap:
    """One devbox's worth of bwrap: mount, run, unmount, remove."""

    def __init__(self, folder: Path, rootfs: Rootfs) -> None:
        self._folder = folder
        self._rootfs = rootfs
        self._cgroups = cgroups.detect("benchyard-baseline")

    def cycle(self) -> None:
        """Create, run `bash -lc true`, remove."""
        box = self._folder / "bwrap"
        names = ["root", *self._rootfs.host_dirs]
        for name in names:
            for part in ("upper", "work", "root"):
                (box / name / part).mkdir(parents=True)
        root = box / "root" / "root"
        layers = [str(layer) for layer in self._rootfs.layers]
        groups = self._cgroups.create("bwrap", DevboxLimits())
        mounted = []
        try:
            syscalls.mount_overlay(layers, str(box / "root/upper"), str(box / "root/work"), str(root))
            mounted.append(root)
            for name in self._rootfs.host_dirs:
                upper, work = str(box / name / "upper"), str(box / name / "work")
                syscalls.mount_overlay([f"/{name}"], upper, work, str(root / name))
                mounted.append(root / name)
            self._run(root, groups)
        finally:
            for path in reversed(mounted):
                syscalls.unmount(str(path))
            self._cgroups.remove("bwrap")
            remove_tree(str(box))

    def _run(self, root: Path, groups: list[Path]) -> None:
        def join() -> None:
            for group in groups:
                (group / "cgroup.procs").write_text("0")

        program = shutil.which("bwrap") or "bwrap"
        command = [program, "--bind", str(root), "/", *_BIND, *_WALLS, *_ENV, "/bin/bash", "-lc", "true"]
        subprocess.run(command, check=True, preexec_fn=join, stdin=subprocess.DEVNULL)


def bare() -> None:
    """fork and exec of the same command, with nothing around it."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    subprocess.run(["/bin/bash", "-lc", "true"], check=True, env=environment, stdin=subprocess.DEVNULL)


def available() -> bool:
    """Whether the baseline can run here."""
    return os.getuid() == 0 and shutil.which("bwrap") is not None
