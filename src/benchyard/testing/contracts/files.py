"""Files of devboxes: bytes in are bytes out, no path leads out, and shown folders are read-only."""

import os
from pathlib import Path

import pytest

from benchyard.devboxes.base import Capability, HostFolder, OpenFile
from benchyard.errors import NotFound, NotSupported, StartFailed, UsageError
from benchyard.testing.contracts.driver_fixture import DriverFixture, DriverSuite, contract

_EVERY_BYTE = bytes(range(256))


class FileContract(DriverSuite):
    """Files of a devbox, opened from outside."""

    @contract()
    async def test_every_byte_written_is_read(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        data = _EVERY_BYTE * (5 * 1024 * 1024 // 256)
        await yard.write(devbox, "~/deep/er/file", data)
        assert await yard.read(devbox, "~/deep/er/file") == data
        assert await yard.text(devbox, "wc -c < deep/er/file") == str(len(data))

    @contract()
    async def test_paths_start_at_home(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.write(devbox, "relative", b"1")
        assert await yard.read(devbox, "~/relative") == b"1"
        home = await yard.text(devbox, "pwd")
        assert await yard.read(devbox, f"{home}/relative") == b"1"

    @contract()
    async def test_writing_again_replaces(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.write(devbox, "~/file", b"something long")
        await yard.write(devbox, "~/file", b"short")
        assert await yard.text(devbox, "cat file") == "short"

    @contract()
    async def test_a_new_file_has_the_mode_asked_for(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.write(devbox, "~/program", b"#!/bin/sh\necho ran\n", mode=0o755)
        assert await yard.text(devbox, "./program") == "ran"

    @contract()
    async def test_a_missing_file_is_not_found(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.write(devbox, "~/file", b"")
        for path in ("~/nothing", "/no/such/place", "~/file/below"):
            with pytest.raises(NotFound):
                await yard.read(devbox, path)

    @contract()
    async def test_only_regular_files_are_opened(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "mkdir folder; mkfifo fifo; ln -s loop loop; ln -s /dev/zero zero")
        for path in ("~/folder", "~", "/", "~/fifo", "~/loop"):
            for write in (False, True):
                with pytest.raises(UsageError):
                    os.close(await yard.driver.open_file(devbox, OpenFile(path, write=write)))
        for path in ("~/zero", "/dev/zero"):
            with pytest.raises(UsageError):
                os.close(await yard.driver.open_file(devbox, OpenFile(path)))
        for path in ("~/a\0b", "~/" + "x" * 5000):
            with pytest.raises(UsageError):
                os.close(await yard.driver.open_file(devbox, OpenFile(path)))

    @contract()
    async def test_no_link_leads_out_of_the_devbox(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        outside = yard.folder / "outside"
        outside.write_bytes(b"secret")
        await yard.text(devbox, f"ln -s {outside} link; ln -s {yard.folder} folder; ln -s / root")
        dots = "../" * 40
        for path in ("~/link", "~/folder/outside", f"~/root{outside}", f"~/{dots}{outside}", str(outside)):
            try:
                assert await yard.read(devbox, path) != b"secret"
            except UsageError:
                continue
        for path in ("~/link", "~/folder/outside", f"~/root{outside}", f"~/{dots}{outside}", str(outside)):
            try:
                await yard.write(devbox, path, b"changed")
            except UsageError:
                continue
        assert outside.read_bytes() == b"secret"

    @contract()
    async def test_a_file_can_be_changed_in_place(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.write(devbox, "~/file", b"0123456789")
        await yard.write(devbox, "~/file", b"abc", truncate=False)
        assert await yard.read(devbox, "~/file") == b"abc3456789"
        await yard.write(devbox, "~/new", b"abc", truncate=False)
        assert await yard.read(devbox, "~/new") == b"abc"

    @contract()
    async def test_several_files_are_opened_together_or_not_at_all(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        paths = ["~/first", "~/deep/second", "~/third"]
        requests = [OpenFile(path, write=True, mode=0o600, fresh=True) for path in paths]
        for path, descriptor in zip(paths, await yard.driver.open_files(devbox, requests), strict=True):
            os.write(descriptor, path.encode())
            os.close(descriptor)
        for path in paths:
            assert await yard.read(devbox, path) == path.encode()
        with pytest.raises(UsageError, match="/deep"):
            await yard.driver.open_files(devbox, [requests[0], OpenFile("~/deep", write=True)])
        with pytest.raises(NotFound, match="/nothing"):
            await yard.driver.open_files(devbox, [OpenFile("~/first"), OpenFile("~/nothing")])

    @contract()
    async def test_what_a_command_wrote_is_read(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "printf 'by a command' > 'a file'")
        assert await yard.read(devbox, "~/a file") == b"by a command"

    @contract(Capability.USERS)
    async def test_files_belong_to_who_opened_them(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.text(
            devbox, "mkdir -m 777 /shared; echo mine > /shared/of-root; chmod 600 /shared/of-root"
        )
        await yard.write(devbox, "/shared/file", b"x", user="1234")
        assert await yard.text(devbox, "stat -c %u /shared/file") == "1234"
        for request in (
            OpenFile("/shared/of-root", user="1234"),
            OpenFile("/etc/new", user="1234", write=True),
        ):
            with pytest.raises(UsageError):
                os.close(await yard.driver.open_file(devbox, request))


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


def _kit(yard: DriverFixture, name: str = "kit") -> Path:
    folder = yard.folder / name
    (folder / "deep").mkdir(parents=True)
    folder.chmod(0o755)
    (folder / "file").write_text("shown")
    (folder / "deep" / "program").write_text("#!/bin/sh\necho ran\n")
    (folder / "deep" / "program").chmod(0o755)
    return folder


def _facts(folder: Path) -> list[tuple[str, int, int, int, bytes]]:
    facts = []
    for path in sorted(folder.rglob("*")):
        status = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        facts.append((path.name, status.st_mode, status.st_uid, status.st_mtime_ns, content))
    return facts


class MountContract(DriverSuite):
    """Folders of the host in a devbox."""

    @contract(Capability.MOUNTS)
    async def test_a_shown_folder_is_read_by_every_user(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(mounts=(HostFolder(_kit(yard), _TARGET),))
        users = ("root", "1234") if Capability.USERS in yard.driver.capabilities else ("root",)
        for user in users:
            said = await yard.text(devbox, f"cat {_TARGET}/file; {_TARGET}/deep/program", user=user)
            assert said == "shownran"

    @contract(Capability.MOUNTS)
    async def test_a_shown_folder_cannot_be_changed(self, yard: DriverFixture) -> None:
        kit = _kit(yard)
        before = _facts(kit)
        devbox = await yard.devbox(mounts=(HostFolder(kit, _TARGET),))
        for script in _CHANGES:
            await yard.run(devbox, script.format(_TARGET))
            assert _facts(kit) == before, script
            assert await yard.text(devbox, f"cat {_TARGET}/file") == "shown", script

    @contract(Capability.MOUNTS)
    async def test_a_shown_folder_gives_nobody_rights(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(mounts=(HostFolder(_kit(yard), _TARGET),))
        options = await yard.text(devbox, f"grep ' {_TARGET} ' /proc/self/mountinfo")
        assert "ro" in options.split()[5].split(",")
        if yard.rootfs.host_dirs:
            assert {"nosuid", "nodev"} <= set(options.split()[5].split(","))

    @contract(Capability.MOUNTS)
    async def test_a_shown_folder_stays_over_restarts(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(mounts=(HostFolder(_kit(yard), _TARGET),))
        await yard.renew()
        assert await yard.driver.find(yard.specs[devbox])
        assert await yard.text(devbox, f"cat {_TARGET}/file") == "shown"
        await yard.driver.stop(devbox)
        await yard.driver.start(yard.specs[devbox])
        assert await yard.text(devbox, f"cat {_TARGET}/file") == "shown"

    @contract(Capability.MOUNTS, Capability.SNAPSHOTS)
    async def test_a_shown_folder_is_not_on_the_disk(self, yard: DriverFixture) -> None:
        kit = _kit(yard)
        devbox = await yard.devbox(mounts=(HostFolder(kit, _TARGET), HostFolder(kit, "/dev/kits/one")))
        assert await yard.text(devbox, "cat /dev/kits/one/file") == "shown"
        await yard.text(devbox, "echo mine > ~/own")
        copied = await yard.devbox(rootfs=yard.on_top(await yard.layer(devbox)))
        assert await yard.text(copied, "cat ~/own") == "mine"
        assert await yard.text(copied, f"ls -A {_TARGET}; ls -d /dev/kits 2>/dev/null || true") == ""

    @contract(Capability.MOUNTS, Capability.SNAPSHOTS)
    async def test_no_link_of_an_image_moves_a_shown_folder(self, yard: DriverFixture) -> None:
        kit = _kit(yard)
        first = await yard.devbox()
        await yard.text(
            first, "mkdir /opt /elsewhere 2>/dev/null; ln -s /etc /opt/kits; ln -s /etc /dev-link"
        )
        layer = await yard.layer(first)
        for target in (_TARGET, "/opt/kits", "/dev-link/one"):
            with pytest.raises(StartFailed, match=r"not a directory|a link or a file"):
                await yard.devbox(rootfs=yard.on_top(layer), mounts=(HostFolder(kit, target),))
        devbox = await yard.devbox(rootfs=yard.on_top(layer), mounts=(HostFolder(kit, "/made/kit"),))
        assert (
            await yard.text(devbox, "cat /made/kit/file; test -e /etc/file || echo ' clean'") == "shown clean"
        )
        await yard.text(devbox, "mv /made /elsewhere/made && ln -s /etc /made")
        await yard.driver.stop(devbox)
        with pytest.raises(StartFailed, match=r"not a directory|a link or a file"):
            await yard.driver.start(yard.specs[devbox])

    @contract(Capability.MOUNTS)
    async def test_places_that_cannot_be_are_refused(self, yard: DriverFixture) -> None:
        kit = _kit(yard)
        for target in ("", "relative", "/", "/dev", "/proc/x", "/sys", "/a/../b", "/a//b", "/a\0b", "/a/"):
            with pytest.raises(UsageError):
                await yard.devbox(mounts=(HostFolder(kit, target),))
        for targets in (("/a", "/a"), ("/a", "/a/b")):
            with pytest.raises(UsageError):
                await yard.devbox(mounts=tuple(HostFolder(kit, target) for target in targets))
        with pytest.raises(StartFailed, match="not there"):
            await yard.devbox(mounts=(HostFolder(yard.folder / "gone", _TARGET),))

    @contract()
    async def test_a_driver_that_cannot_show_folders_says_so(self, yard: DriverFixture) -> None:
        if Capability.MOUNTS in yard.driver.capabilities:
            pytest.skip("this driver can")
        with pytest.raises(NotSupported):
            await yard.devbox(mounts=(HostFolder(_kit(yard), _TARGET),))
