"""What every driver owes to folders that are shown in a devbox: they are read, and nothing else."""

from pathlib import Path

import pytest

from benchyard.devboxes.base import Capability, Shown
from benchyard.errors import NotSupported, StartFailed, UsageError
from benchyard.testing.yard import Makes, Yard, contract

_TARGET = "/opt/kits/one"
_CHANGES = (
    "echo x > {0}/file",
    "echo x > {0}/new",
    "chmod 777 {0}/file",
    "chmod 777 {0}",
    "chown 1:1 {0}/file",
    "touch {0}/file",
    "rm -f {0}/file",
    "mv {0} {0}-moved",
    "rmdir {0}",
    "umount {0}",
    "umount -l {0}",
    "mount -o remount,rw {0}",
    "mount -o remount,bind,rw {0}",
    "mount --bind /tmp {0}",
    "unshare -rm sh -c 'umount {0} || mount -o remount,bind,rw {0}'",
)


def _kit(yard: Yard, name: str = "kit") -> Path:
    folder = yard.folder / name
    (folder / "deep").mkdir(parents=True)
    folder.chmod(0o755)
    (folder / "file").write_text("shown")
    (folder / "deep" / "program").write_text("#!/bin/sh\necho ran\n")
    (folder / "deep" / "program").chmod(0o755)
    return folder


def _facts(folder: Path) -> list[tuple[str, int, int, int, bytes]]:
    found = []
    for path in sorted(folder.rglob("*")):
        status = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        found.append((path.name, status.st_mode, status.st_uid, status.st_mtime_ns, content))
    return found


class MountContract(Makes):
    """Folders of the host in a devbox."""

    @contract(Capability.MOUNTS)
    async def test_a_shown_folder_is_read_by_every_user(self, yard: Yard) -> None:
        devbox = await yard.devbox(mounts=(Shown(_kit(yard), _TARGET),))
        users = ("root", "1234") if Capability.USERS in yard.driver.capabilities else ("root",)
        for user in users:
            said = await yard.text(devbox, f"cat {_TARGET}/file; {_TARGET}/deep/program", user=user)
            assert said == "shownran"

    @contract(Capability.MOUNTS)
    async def test_a_shown_folder_cannot_be_changed(self, yard: Yard) -> None:
        kit = _kit(yard)
        before = _facts(kit)
        devbox = await yard.devbox(mounts=(Shown(kit, _TARGET),))
        for script in _CHANGES:
            await yard.run(devbox, script.format(_TARGET))
            assert _facts(kit) == before, script
            assert await yard.text(devbox, f"cat {_TARGET}/file") == "shown", script

    @contract(Capability.MOUNTS)
    async def test_a_shown_folder_gives_nobody_rights(self, yard: Yard) -> None:
        devbox = await yard.devbox(mounts=(Shown(_kit(yard), _TARGET),))
        options = await yard.text(devbox, f"grep ' {_TARGET} ' /proc/self/mountinfo")
        assert "ro" in options.split()[5].split(",")
        if yard.rootfs.host_dirs:
            assert {"nosuid", "nodev"} <= set(options.split()[5].split(","))

    @contract(Capability.MOUNTS)
    async def test_a_shown_folder_stays_over_restarts(self, yard: Yard) -> None:
        devbox = await yard.devbox(mounts=(Shown(_kit(yard), _TARGET),))
        await yard.renew()
        assert await yard.driver.find(yard.specs[devbox])
        assert await yard.text(devbox, f"cat {_TARGET}/file") == "shown"
        await yard.driver.stop(devbox)
        await yard.driver.start(yard.specs[devbox])
        assert await yard.text(devbox, f"cat {_TARGET}/file") == "shown"

    @contract(Capability.MOUNTS, Capability.SNAPSHOTS)
    async def test_a_shown_folder_is_not_on_the_disk(self, yard: Yard) -> None:
        kit = _kit(yard)
        devbox = await yard.devbox(mounts=(Shown(kit, _TARGET), Shown(kit, "/dev/kits/one")))
        assert await yard.text(devbox, "cat /dev/kits/one/file") == "shown"
        await yard.text(devbox, "echo mine > ~/own")
        copied = await yard.devbox(rootfs=yard.on_top(await yard.layer(devbox)))
        assert await yard.text(copied, "cat ~/own") == "mine"
        assert await yard.text(copied, f"ls -A {_TARGET}; ls -d /dev/kits 2>/dev/null || true") == ""

    @contract(Capability.MOUNTS, Capability.SNAPSHOTS)
    async def test_no_link_of_an_image_moves_a_shown_folder(self, yard: Yard) -> None:
        kit = _kit(yard)
        first = await yard.devbox()
        await yard.text(
            first, "mkdir /opt /elsewhere 2>/dev/null; ln -s /etc /opt/kits; ln -s /etc /dev-link"
        )
        layer = await yard.layer(first)
        for target in (_TARGET, "/opt/kits", "/dev-link/one"):
            with pytest.raises(StartFailed, match=r"not a directory|a link or a file"):
                await yard.devbox(rootfs=yard.on_top(layer), mounts=(Shown(kit, target),))
        devbox = await yard.devbox(rootfs=yard.on_top(layer), mounts=(Shown(kit, "/made/kit"),))
        assert (
            await yard.text(devbox, "cat /made/kit/file; test -e /etc/file || echo ' clean'") == "shown clean"
        )
        await yard.text(devbox, "mv /made /elsewhere/made && ln -s /etc /made")
        await yard.driver.stop(devbox)
        with pytest.raises(StartFailed, match=r"not a directory|a link or a file"):
            await yard.driver.start(yard.specs[devbox])

    @contract(Capability.MOUNTS)
    async def test_places_that_cannot_be_are_refused(self, yard: Yard) -> None:
        kit = _kit(yard)
        for target in ("", "relative", "/", "/dev", "/proc/x", "/sys", "/a/../b", "/a//b", "/a\0b", "/a/"):
            with pytest.raises(UsageError):
                await yard.devbox(mounts=(Shown(kit, target),))
        for targets in (("/a", "/a"), ("/a", "/a/b")):
            with pytest.raises(UsageError):
                await yard.devbox(mounts=tuple(Shown(kit, target) for target in targets))
        with pytest.raises(StartFailed, match="not there"):
            await yard.devbox(mounts=(Shown(yard.folder / "gone", _TARGET),))

    @contract()
    async def test_a_driver_that_cannot_show_folders_says_so(self, yard: Yard) -> None:
        if Capability.MOUNTS in yard.driver.capabilities:
            pytest.skip("this driver can")
        with pytest.raises(NotSupported):
            await yard.devbox(mounts=(Shown(_kit(yard), _TARGET),))
