"""Unpacking a layer: what it becomes, and what it can never do."""

import contextlib
import gzip
import io
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchyard.devboxes.layers.unpack import ArchiveLimits, unpack_layer

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")


def member(
    name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", **fields: object
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.size = len(content)
    info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
    info.uid, info.gid = os.geteuid(), os.getegid()
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes], compression: str = "") -> Path:
    mode: Any = f"w:{compression}"
    with tarfile.open(path, mode, format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content) if content else None)
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


@pytest.fixture
def unpack(tmp_path: Path, target: Path) -> Callable[..., Path]:
    def run(*members: tuple[tarfile.TarInfo, bytes], limits: ArchiveLimits | None = None) -> Path:
        unpack_layer(str(tar(tmp_path / "layer.tar", *members)), str(target), limits=limits)
        return target

    return run


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def is_whiteout(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


@pytest.mark.parametrize("compression", ["", "gz", "xz", "bz2"])
def test_any_usual_compression_is_read(tmp_path: Path, target: Path, compression: str) -> None:
    archive = tar(tmp_path / "a", member("etc/motd", content=b"hello"), compression=compression)
    unpack_layer(str(archive), str(target))
    assert (target / "etc/motd").read_bytes() == b"hello"


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs the zstd program")
def test_zstd_is_read_where_its_program_is_installed(tmp_path: Path, target: Path) -> None:
    archive = tar(tmp_path / "a.tar", member("etc/motd", content=b"hello"))
    subprocess.run(["zstd", "-q", str(archive)], check=True)
    unpack_layer(f"{archive}.zst", str(target))
    assert (target / "etc/motd").read_bytes() == b"hello"


def test_without_zstd_the_error_says_what_to_install(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"\x28\xb5\x2f\xfd rest")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ValueError, match="install the package zstd"):
        unpack_layer(str(tmp_path / "a"), str(target))


def test_modes_times_and_kinds_are_kept(unpack: Callable[..., Path]) -> None:
    target = unpack(
        member("usr", tarfile.DIRTYPE, mode=0o755, mtime=1000),
        member("usr/sudo", content=b"x", mode=0o4755, mtime=12.5),
        member("usr/closed", tarfile.DIRTYPE, mode=0o500),
        member("usr/closed/inside", content=b"y"),
        member("usr/link", tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("usr/again", tarfile.LNKTYPE, linkname="usr/sudo"),
        member("fifo", tarfile.FIFOTYPE),
    )
    assert stat.S_IMODE((target / "usr/sudo").stat().st_mode) == 0o4755
    assert (target / "usr/sudo").stat().st_mtime_ns == 12_500_000_000
    assert (target / "usr").stat().st_mtime == 1000
    assert stat.S_IMODE((target / "usr/closed").stat().st_mode) == 0o500
    assert (target / "usr/link").readlink() == Path("/etc/passwd")
    assert (target / "usr/again").stat().st_ino == (target / "usr/sudo").stat().st_ino
    assert stat.S_ISFIFO((target / "fifo").lstat().st_mode)


@as_root
def test_owners_are_applied_by_default(tmp_path: Path, target: Path) -> None:
    archive = tar(
        tmp_path / "a",
        member("d", tarfile.DIRTYPE, uid=1000, gid=1001),
        member("d/f", uid=7, gid=8),
        member("d/l", tarfile.SYMTYPE, linkname="f", uid=9, gid=10),
    )
    unpack_layer(str(archive), str(target))
    owners = [
        ((target / name).lstat().st_uid, (target / name).lstat().st_gid) for name in ("d", "d/f", "d/l")
    ]
    assert owners == [(1000, 1001), (7, 8), (9, 10)]

    (tmp_path / "mine").mkdir()
    unpack_layer(str(archive), str(tmp_path / "mine"), keep_owner=False)
    assert (tmp_path / "mine/d/f").stat().st_uid == 0


def test_the_top_folder_keeps_its_own_mode(unpack: Callable[..., Path], target: Path) -> None:
    target.chmod(0o750)
    unpack(member("./", tarfile.DIRTYPE, mode=0o555))
    assert stat.S_IMODE(target.stat().st_mode) == 0o750


def test_whiteouts_become_devices_and_opaque_marks(unpack: Callable[..., Path]) -> None:
    target = unpack(
        member("etc/.wh.motd"),
        member("var/lib/.wh..wh..opq"),
        member("var/lib/new", content=b"n"),
        member(".wh..wh.plnk", tarfile.DIRTYPE),
        member("old", tarfile.CHRTYPE, devmajor=0, devminor=0),
    )
    assert is_whiteout(target / "etc/motd")
    assert is_whiteout(target / "old")
    assert os.getxattr(target / "var/lib", "user.overlay.opaque") == b"y"
    assert names(target) == ["etc", "old", "var"]
    assert names(target / "var/lib") == ["new"]


@pytest.mark.parametrize("whiteout_first", [True, False])
def test_a_directory_replaced_in_one_layer_hides_the_old_one(
    unpack: Callable[..., Path], *, whiteout_first: bool
) -> None:
    members = [member("etc/.wh.conf"), member("etc/conf", tarfile.DIRTYPE), member("etc/conf/new")]
    target = unpack(*(members if whiteout_first else members[1:] + members[:1]))
    assert os.getxattr(target / "etc/conf", "user.overlay.opaque") == b"y"
    assert names(target / "etc/conf") == ["new"]


def test_a_file_in_a_directory_that_was_whited_out_makes_it_new(unpack: Callable[..., Path]) -> None:
    target = unpack(member(".wh.conf"), member("conf/new", content=b"n"))
    assert os.getxattr(target / "conf", "user.overlay.opaque") == b"y"


def test_attributes_come_along_and_overlay_marks_are_made_user_marks(unpack: Callable[..., Path]) -> None:
    target = unpack(
        member("d", tarfile.DIRTYPE, pax_headers={"SCHILY.xattr.trusted.overlay.opaque": "y"}),
        member(
            "f",
            pax_headers={"SCHILY.xattr.user.note": "n", "SCHILY.xattr.user.overlay.redirect": "/etc"},
        ),
    )
    assert os.getxattr(target / "d", "user.overlay.opaque") == b"y"
    assert os.listxattr(target / "f") == ["user.note"]


@as_root
def test_devices_are_left_out(unpack: Callable[..., Path]) -> None:
    target = unpack(
        member("null", tarfile.CHRTYPE, devmajor=1, devminor=3),
        member("disk", tarfile.BLKTYPE, devmajor=8, devminor=0),
    )
    assert names(target) == []


@pytest.mark.parametrize("form", ["gnu", "pax"])
def test_holes_of_a_sparse_archive_stay_holes(tmp_path: Path, target: Path, form: str) -> None:
    with (tmp_path / "disk").open("wb") as file:
        file.truncate(64 << 20)
        file.seek(32 << 20)
        file.write(b"middle")
    command = ["tar", f"--format={form}", "--sparse", "-cf", "a.tar", "disk"]
    subprocess.run(command, cwd=tmp_path, check=True)
    unpack_layer(str(tmp_path / "a.tar"), str(target))
    unpacked = target / "disk"
    assert unpacked.stat().st_size == 64 << 20
    assert unpacked.stat().st_blocks * 512 < 4 << 20
    with unpacked.open("rb") as file:
        file.seek(32 << 20)
        assert file.read(7) == b"middle\0"


def test_the_last_member_of_a_name_wins(unpack: Callable[..., Path]) -> None:
    target = unpack(
        member("a/b/c", content=b"1"),
        member("a/b", content=b"now a file"),
        member("x", content=b"1"),
        member("x", tarfile.DIRTYPE),
        member("x/y", content=b"2"),
    )
    assert (target / "a/b").read_bytes() == b"now a file"
    assert (target / "x/y").read_bytes() == b"2"


def test_absolute_paths_are_taken_as_below_the_target(unpack: Callable[..., Path]) -> None:
    assert (unpack(member("/etc/motd", content=b"m")) / "etc/motd").read_bytes() == b"m"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([member("../evil", content=b"x")], "leave the target"),
        ([member("a/../../evil", content=b"x")], "leave the target"),
        ([member("l", tarfile.SYMTYPE, linkname=".."), member("l/evil", content=b"x")], "not one"),
        ([member("l", tarfile.SYMTYPE, linkname="/etc"), member("l/.wh.passwd")], "not one"),
        ([member("h", tarfile.LNKTYPE, linkname="/etc/passwd")], "not a file in it"),
        ([member("h", tarfile.LNKTYPE, linkname="../secret")], "leave the target"),
        (
            [member("l", tarfile.SYMTYPE, linkname=".."), member("h", tarfile.LNKTYPE, linkname="l/secret")],
            "not a file in it",
        ),
        ([member("h", tarfile.LNKTYPE, linkname="h")], "not a file in it"),
        ([member("a/.wh.")], "deletes a file without a name"),
        ([member("a/.wh...", content=b"x")], "deletes a file without a name"),
        ([member("", content=b"x")], "target folder itself"),
        ([member("f", uid=2**32)], "impossible owner"),
        ([member("x/" * 2100 + "f")], "longer than 4096"),
    ],
)
def test_member_outside_the_target_is_refused(
    unpack: Callable[..., Path], tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]], message: str
) -> None:
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(ValueError, match=message):
        unpack(*members)
    assert names(tmp_path) == ["layer.tar", "secret", "target"]
    assert (tmp_path / "secret").stat().st_nlink == 1


def test_a_link_can_be_replaced_but_not_written_through(unpack: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("safe")
    target = unpack(
        member("f", tarfile.SYMTYPE, linkname="../victim"),
        member("f", content=b"mine", mode=0o777),
    )
    assert (tmp_path / "victim").read_text() == "safe"
    assert (target / "f").read_bytes() == b"mine"


def test_limits_are_enforced(unpack: Callable[..., Path]) -> None:
    with pytest.raises(ValueError, match="more than 2 entries"):
        unpack(member("a"), member("b"), member("c"), limits=ArchiveLimits(entries=2))
    with pytest.raises(ValueError, match="more than 100000 bytes"):
        unpack(member("a", content=b"x" * 100_001), limits=ArchiveLimits(bytes=100_000))


def test_a_header_that_would_fill_the_memory_is_refused(tmp_path: Path, target: Path) -> None:
    info, _ = member("x", tarfile.XHDTYPE, size=1 << 30)
    with gzip.open(tmp_path / "bomb", "wb", compresslevel=1) as archive:
        archive.write(info.tobuf(tarfile.USTAR_FORMAT))
        archive.write(b"\0" * (8 << 20))
    with pytest.raises(ValueError, match="header of more than"):
        unpack_layer(str(tmp_path / "bomb"), str(target))


@pytest.mark.parametrize("content", [b"", b"x" * 10, b"x" * 5000, b"\x1f\x8bgarbage", b"BZh9garbage"])
def test_invalid_tar_is_refused(tmp_path: Path, target: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ValueError, match="not a readable tar"):
        unpack_layer(str(tmp_path / "a"), str(target))


def test_an_archive_cut_short_or_broken_in_the_middle_is_refused(tmp_path: Path, target: Path) -> None:
    whole = tar(
        tmp_path / "a", member("a", content=b"x" * 2000), member("b", content=b"y" * 2000)
    ).read_bytes()
    for number, broken in enumerate((whole[:1000], whole[:2700], whole[:2560] + b"junk" * 2000)):
        (tmp_path / "cut").write_bytes(broken)
        folder = tmp_path / f"target{number}"
        folder.mkdir()
        with pytest.raises(ValueError, match=r"cut short|ends inside|broken|not a readable"):
            unpack_layer(str(tmp_path / "cut"), str(folder))


COMPONENTS = st.sampled_from(
    ["a", "b", "c", "..", ".", "", "link", ".wh.a", ".wh..wh..opq", ".wh...", "out", "é"]
)
PATHS = st.builds(
    lambda prefix, parts: prefix + "/".join(parts),
    st.sampled_from(["", "/", "./", "../", "//"]),
    st.lists(COMPONENTS, max_size=4),
)
KINDS = st.sampled_from(
    [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
MEMBERS = st.lists(st.tuples(PATHS, KINDS, PATHS, st.binary(max_size=3)), max_size=8)


def listing(folder: Path) -> list[tuple[str, int, int, int]]:
    found = []
    for parent, directories, files in os.walk(folder):
        for name in directories + files:
            path = Path(parent, name)
            status = path.lstat()
            found.append((str(path), status.st_ino, status.st_nlink, status.st_mtime_ns))
    return sorted(found)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MEMBERS)
def test_nothing_is_ever_made_or_changed_outside_the_target(
    entries: list[tuple[str, bytes, str, bytes]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        outer = Path(name)
        (outer / "around" / "out").mkdir(parents=True)
        (outer / "around" / "a").write_text("a")
        (outer / "around" / "out" / "b").write_text("b")
        before = listing(outer)
        target = outer / "around" / "target"
        target.mkdir()
        archive = tar(
            outer / "archive",
            *(member(path, kind, content, linkname=link) for path, kind, link, content in entries),
        )
        with contextlib.suppress(ValueError):
            unpack_layer(str(archive), str(target))
        shutil.rmtree(target)
        archive.unlink()
        after = listing(outer)
        assert [entry for entry in after if entry[0] != str(outer / "around")] == [
            entry for entry in before if entry[0] != str(outer / "around")
        ]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=2000), st.integers(0, 3000), MEMBERS)
def test_broken_archives_end_in_a_clear_error_or_in_files(
    junk: bytes, position: int, entries: list[tuple[str, bytes, str, bytes]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        outer = Path(name)
        (outer / "target").mkdir()
        archive = tar(
            outer / "archive",
            *(member(path, kind, content, linkname=link) for path, kind, link, content in entries),
        )
        whole = archive.read_bytes()
        archive.write_bytes(whole[:position] + junk + whole[position + len(junk) :])
        with contextlib.suppress(ValueError, OSError):
            unpack_layer(str(archive), str(outer / "target"))
        assert names(outer) == ["archive", "target"]


def test_plain_archive_loses_whiteouts_and_special_rights(tmp_path: Path, target: Path) -> None:
    archive = tar(
        tmp_path / "plain.tar",
        member("folder", tarfile.DIRTYPE, mode=0o2700),
        member("folder/.wh.name", content=b"a name like any other"),
        member("program", content=b"x", mode=0o6711, pax_headers={"SCHILY.xattr.user.mark": "1"}),
        member("text", content=b"y", mode=0o600, uid=12345),
        member("again", tarfile.LNKTYPE, linkname="program"),
        member("link", tarfile.SYMTYPE, linkname="/etc/shadow"),
        member("pipe", tarfile.FIFOTYPE),
        member("hole", tarfile.CHRTYPE, devmajor=0, devminor=0),
        member("disk", tarfile.BLKTYPE, devmajor=7, devminor=0),
    )
    unpack_layer(str(archive), str(target), keep_owner=False, plain=True)
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in target.rglob("*")}
    assert modes.pop("link") == 0o777
    program = 0o755
    assert modes == {
        "folder": program,
        ".wh.name": 0o644,
        "program": program,
        "text": 0o644,
        "again": program,
    }
    assert os.listxattr(target / "program") == []
    assert (target / "text").stat().st_uid == os.geteuid()
    with pytest.raises(ValueError, match="would leave"):
        unpack_layer(str(tar(tmp_path / "up.tar", member("../up"))), str(target), plain=True)
