"""An image with nothing in it: no shell, no library, no Python."""

from pathlib import Path

from benchyard.devboxes.base import Driver, Rootfs
from benchyard.testing.contracts.scorer import GradingSuite

FOLDERS = ("dev", "etc", "proc", "root", "run", "sys", "tmp")


class InBareImage(GradingSuite):
    """Grades in devboxes from an image with nothing in it."""

    async def make_rootfs(self, driver: Driver, folder: Path) -> Rootfs:
        for name in FOLDERS:
            (folder / "bare" / name).mkdir(parents=True, exist_ok=True)
        (folder / "bare/etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        return Rootfs((folder / "bare",))
