"""Escape attempts through the host's handling of devbox files: reads, writes, snapshots, archives."""

import asyncio
import contextlib
import hashlib
import io
import os
import sys
import tarfile
from pathlib import Path

import pytest

from benchyard.devboxes.base import Capability
from benchyard.errors import BenchyardError, NotFound, UsageError
from benchyard.testing.contracts.driver_fixture import DriverFixture, DriverSuite, contract

_TRIES = 150
_SWAP = """
import os
os.makedirs("real", exist_ok=True)
open("real/file", "w").write("mine")
os.symlink({outside!r}, "way")
print("swapping", flush=True)
while True:
    for target in ("real", {outside!r}):
        os.symlink(target, "next")
        os.rename("next", "way")
    os.unlink("way")
    os.mkdir("way")
    open("way/file", "w").write("mine")
    os.rename("way", "old")
    os.symlink("real", "way")
    os.unlink("old/file")
    os.rmdir("old")
"""
_HOLD_OWN_PROGRAM = """
import os
held = os.open("/proc/self/exe", os.O_RDONLY)
os.set_inheritable(held, True)
later = f"import os; os.open('/proc/self/fd/{held}', os.O_WRONLY); print('GOT IT')"
os.execv("/usr/bin/python3", ["python3", "-c", later])
"""
_NOT_FILES = ("/proc/self/exe", "/proc/self/mem", "/proc/1/mem", "/proc/sys/kernel/hostname", "/dev/null")


class FileEscapes(DriverSuite):
    """Links that point out, paths that change between looks, archives that climb, programs with rights."""

    @contract(Capability.ISOLATION)
    async def test_a_way_that_changes_under_a_reader_or_writer_stays_inside(
        self, yard: DriverFixture
    ) -> None:
        devbox, outside = await _with_swapper(yard)
        for number in range(_TRIES):
            with contextlib.suppress(NotFound, UsageError):
                assert await yard.read(devbox, "~/way/file") in (b"mine", b"written", b"")
            with contextlib.suppress(NotFound, UsageError):
                await yard.write(devbox, "~/way/file" if number % 2 else "~/way/new/file", b"written")
        assert _content(outside) == {"file": b"secret"}

    @contract(Capability.ISOLATION, Capability.SNAPSHOTS)
    async def test_a_snapshot_of_a_tree_that_changes_holds_nothing_of_the_host(
        self, yard: DriverFixture
    ) -> None:
        devbox, outside = await _with_swapper(yard)
        for number in range(_TRIES // 10):
            copy = yard.folder / f"copy_{number}"
            # A file that vanishes during a copy may fail it; real snapshots are taken of a still devbox.
            with contextlib.suppress(OSError, BenchyardError):
                await yard.driver.trees.copy(yard.specs[devbox].changes, copy)
            with contextlib.suppress(OSError, BenchyardError):
                await yard.driver.trees.usage(yard.specs[devbox].changes)
            assert not _files_with(copy, b"secret")
            await yard.driver.trees.remove(copy)
        layer = await yard.layer(devbox)
        assert not _files_with(layer, b"secret")
        assert _content(outside) == {"file": b"secret"}
        await yard.driver.trees.remove(layer)

    @contract(Capability.ISOLATION, Capability.SNAPSHOTS)
    async def test_links_in_a_snapshot_lead_nowhere_outside(self, yard: DriverFixture) -> None:
        outside = _outside(yard)
        first = await yard.devbox()
        await yard.text(first, f"ln -s {outside} ~/folder; ln -s {outside}/file ~/file; ln -s / ~/top")
        second = await yard.devbox(rootfs=yard.on_top(await yard.layer(first)))
        script = f"cat ~/folder/file ~/file ~/top{outside}/file; echo changed > ~/folder/file"
        assert (await yard.run(second, script)).stdout == b""
        assert _content(outside) == {"file": b"secret"}

    @contract(Capability.ISOLATION, Capability.IMAGES)
    async def test_a_layer_of_links_does_not_lead_mounts_out(self, yard: DriverFixture) -> None:
        outside = _outside(yard)
        for number, name in enumerate(("proc", "dev", "etc", "tmp", "usr")):
            layer = yard.folder / f"links_{number}"
            layer.mkdir()
            (layer / name).symlink_to(outside)
            with contextlib.suppress(BenchyardError):
                devbox = await yard.devbox(rootfs=yard.on_top(layer))
                result = await yard.run(
                    devbox, f"cat /{name}/file {outside}/file; echo changed > /{name}/new"
                )
                assert b"secret" not in result.stdout
            assert _content(outside) == {"file": b"secret"}

    @contract(Capability.ISOLATION, Capability.IMAGES)
    async def test_no_archive_writes_outside_its_layer(self, yard: DriverFixture) -> None:
        outside = _outside(yard)
        for number, members in enumerate(_archives(outside)):
            archive, layer = yard.folder / f"{number}.tar", yard.folder / f"unpacked_{number}"
            archive.write_bytes(members)
            layer.mkdir()
            with contextlib.suppress(BenchyardError):
                await yard.driver.trees.unpack(archive, layer)
            assert _content(outside) == {"file": b"secret"}
            assert not _files_with(layer, b"secret")
            assert not [path for path in layer.rglob("*") if path.is_block_device()]
            await yard.driver.trees.remove(layer)

    @contract(Capability.ISOLATION)
    async def test_uploads_reach_neither_the_hosts_programs_nor_the_kernel(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        before = _python()
        for number, path in enumerate(_NOT_FILES):
            await yard.text(devbox, f"ln -s {path} ~/link{number}")
            for way in (path, f"~/link{number}"):
                with pytest.raises(UsageError):
                    await yard.write(devbox, way, b"changed")
        assert _python() == before

    @contract(Capability.ISOLATION)
    async def test_the_program_the_machinery_runs_from_cannot_be_replaced(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        before = _python()
        await yard.text(devbox, "ln -s /proc/self/exe /opt/own; printf '#!/proc/self/exe\\n' > /opt/script")
        await yard.text(devbox, "chmod 755 /opt/script")
        for argv in (("/opt/own", "-c", _HOLD_OWN_PROGRAM), ("/opt/script", "-c", _HOLD_OWN_PROGRAM)):
            result = await yard.run(devbox, argv=argv, env={"PYTHONHOME": "/usr"})
            assert b"GOT IT" not in result.stdout
        assert _python() == before

    @contract(Capability.ISOLATION)
    async def test_a_setuid_program_of_a_devbox_is_closed_to_the_hosts_users(
        self, yard: DriverFixture
    ) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "cp /usr/bin/id /opt/id; chmod 6755 /opt/id")
        dropped = yard.specs[devbox].changes / "opt/id"
        assert yard.specs[devbox].folder.stat().st_mode & 0o077 == 0
        assert os.getuid() == 0 or dropped.stat().st_uid != 0
        if os.getuid() == 0:
            process = await asyncio.to_thread(_run_as_nobody, dropped)
            assert process != 0, "a user of the host ran a setuid program out of a devbox"

    @contract(Capability.ISOLATION)
    async def test_output_already_written_cannot_be_changed_or_found(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        earlier = await yard.begin(devbox, "echo kept")
        await yard.finish(earlier)
        folder = earlier.folder
        script = (
            f"echo one; ls {folder}; (: > {folder}/stdout); ln {folder}/stdout /opt/link; "
            "for n in 0 1 2; do (: > /proc/self/fd/$n); ln -L /proc/self/fd/$n /opt/fd$n; done; "
            "truncate -s 0 /dev/stdout; readlink /proc/self/fd/1; echo two"
        )
        result = await yard.run(devbox, script)
        one, way, two = result.stdout.split(b"\n")[:3]
        assert (one, two) == (b"one", b"two")
        assert way.startswith(b"pipe:")
        assert (folder / "stdout").read_bytes() == b"kept\n"


def _outside(yard: DriverFixture) -> Path:
    folder = yard.folder / "outside"
    folder.mkdir()
    (folder / "file").write_bytes(b"secret")
    return folder


async def _with_swapper(yard: DriverFixture) -> tuple[str, Path]:
    """Start a devbox in which `~/way` is now a folder, now a link inside, now a link out."""
    outside = _outside(yard)
    devbox = await yard.devbox()
    swapping = await yard.begin(devbox, argv=("/usr/bin/python3", "-c", _SWAP.format(outside=str(outside))))
    await yard.shows(swapping, b"swapping")
    return devbox, outside


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _files_with(folder: Path, content: bytes) -> list[Path]:
    paths = []
    for top, _folders, names in os.walk(folder):
        for path in (Path(top) / name for name in names):
            if path.is_file() and not path.is_symlink() and _read(path) == content:
                paths.append(path)
    return paths


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _archives(outside: Path) -> list[bytes]:
    climb = "../" * 20
    plain: list[list[tuple[str, bytes, str]]] = [
        [("../outside/new", tarfile.REGTYPE, "")],
        [(f"{climb}{outside}/new", tarfile.REGTYPE, "")],
        [("way", tarfile.SYMTYPE, str(outside)), ("way/new", tarfile.REGTYPE, "")],
        [("way", tarfile.SYMTYPE, "../outside"), ("way/file", tarfile.REGTYPE, "")],
        [
            ("a", tarfile.SYMTYPE, "."),
            ("a/b", tarfile.SYMTYPE, "../.."),
            ("a/b/outside/new", tarfile.REGTYPE, ""),
        ],
        [("link", tarfile.LNKTYPE, str(outside / "file")), ("link", tarfile.REGTYPE, "")],
        [("link", tarfile.LNKTYPE, "../outside/file")],
        [
            ("way", tarfile.DIRTYPE, ""),
            ("way", tarfile.SYMTYPE, str(outside)),
            ("way/.wh.file", tarfile.REGTYPE, ""),
        ],
        [(".wh...", tarfile.REGTYPE, "")],
        [("../outside/.wh..wh..opq", tarfile.REGTYPE, "")],
        [("disk", tarfile.BLKTYPE, "")],
    ]
    return [_archive(members) for members in plain]


def _archive(members: list[tuple[str, bytes, str]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind, link in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, link, 3 if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(b"new"))
    return buffer.getvalue()


def _python() -> tuple[str, int]:
    program = Path(sys.executable).resolve()
    return hashlib.sha256(program.read_bytes()).hexdigest(), program.stat().st_mode


def _run_as_nobody(program: Path) -> int:
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        try:
            os.execv(program, [str(program)])
        except OSError:
            os._exit(1)
    return os.waitpid(pid, 0)[1]
