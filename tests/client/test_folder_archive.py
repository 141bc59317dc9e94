"""Folders that go out as a tar, and hostile tars that come in."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from benchyard.client.folder_archive import folder_tar, tar_writer, unpack
from benchyard.errors import UsageError

Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> Member:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(content)
    return info, content


def tar_of(*members: Member) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    stream.seek(0)
    return stream


def test_a_folder_goes_out_and_comes_back_the_same(tmp_path: Path) -> None:
    origin, copy = tmp_path / "origin", tmp_path / "copy"
    (origin / "deep" / "er").mkdir(parents=True)
    (origin / "deep" / "er" / "data").write_bytes(os.urandom(3_000_000))
    (origin / "run.sh").write_text("#!/bin/sh\n")
    (origin / "run.sh").chmod(0o755)
    (origin / "link").symlink_to("deep/er/data")
    os.link(origin / "run.sh", origin / "twin")
    (origin / "empty").mkdir()
    with folder_tar(origin) as tar, tar_writer(copy) as target:
        while chunk := tar.read(100_000):
            target.write(chunk)
    assert sorted(path.relative_to(copy).as_posix() for path in copy.rglob("*")) == sorted(
        path.relative_to(origin).as_posix() for path in origin.rglob("*")
    )
    assert (copy / "link").readlink() == Path("deep/er/data")
    assert (copy / "link").read_bytes() == (origin / "deep" / "er" / "data").read_bytes()
    assert (copy / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (copy / "twin").stat().st_ino == (copy / "run.sh").stat().st_ino


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../out", ".."])
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="outside"):
        unpack(tar_of(member(name, b"evil")), tmp_path / "in")
    assert not (tmp_path / "out").exists()


def test_nothing_is_written_through_a_link_of_the_archive(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    evil = tar_of(
        member("door", kind=tarfile.SYMTYPE, link=str(tmp_path / "out")), member("door/file", b"evil")
    )
    with pytest.raises((UsageError, OSError)):
        unpack(evil, tmp_path / "in")
    assert list((tmp_path / "out").iterdir()) == []


def test_nothing_is_written_through_a_link_of_an_earlier_archive(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    unpack(tar_of(member("door", kind=tarfile.SYMTYPE, link=str(tmp_path / "out"))), tmp_path / "in")
    with pytest.raises(OSError, match="door"):
        unpack(tar_of(member("door/file", b"evil")), tmp_path / "in")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_link_in_the_place_of_a_file_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    unpack(tar_of(member("name", kind=tarfile.SYMTYPE, link=str(tmp_path / "out"))), tmp_path / "in")
    unpack(tar_of(member("name", b"new")), tmp_path / "in")
    assert (tmp_path / "out").read_text() == "mine"
    assert (tmp_path / "in" / "name").read_text() == "new"


def test_a_hard_link_cannot_reach_out(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine")
    with pytest.raises(UsageError, match="outside"):
        unpack(tar_of(member("name", kind=tarfile.LNKTYPE, link="../secret")), tmp_path / "in")


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_are_refused(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(UsageError, match="neither"):
        unpack(tar_of(member("name", kind=kind)), tmp_path / "in")


def test_no_file_becomes_another_user(tmp_path: Path) -> None:
    info, content = member("tool", b"x")
    info.mode = 0o6755
    unpack(tar_of((info, content)), tmp_path / "in")
    assert (tmp_path / "in" / "tool").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("content", [b"", b"no tar at all" * 100])
def test_invalid_tar_is_an_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UsageError, match="cannot unpack"), tar_writer(tmp_path / "in") as target:
        target.write(content)


def test_the_error_that_stopped_the_copy_is_the_one_that_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="first"), tar_writer(tmp_path / "in"):
        raise RuntimeError("first")
