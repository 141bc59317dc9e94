"""Copies that come as a tar."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from benchyard.benchmarks.sources import local_copies
from benchyard.benchmarks.sources.local_copies import unpack
from benchyard.errors import DatasetError, TooLarge

Member = tuple[str, bytes, bytes | str]


def tar(path: Path, *members: Member, mode: str = "w:gz") -> Path:
    """A tar of (name, type, content or target)."""
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.mode = 0o4755
            if isinstance(content, bytes):
                info.size = len(content)
            else:
                info.linkname = content
            archive.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return path


@pytest.mark.parametrize(
    ("name", "mode"), [("a.tar", "w"), ("a.tar.gz", "w:gz"), ("A.TGZ", "w:gz"), ("a.tar.xz", "w:xz")]
)
def test_an_archive_becomes_a_folder(tmp_path: Path, name: str, mode: str) -> None:
    given = tar(
        tmp_path / name,
        ("./", tarfile.DIRTYPE, b""),
        ("./tasks/empty", tarfile.DIRTYPE, b""),
        ("./tasks/one/link", tarfile.SYMTYPE, "../two/file"),
        ("./tasks/two/file", tarfile.REGTYPE, b"content"),
        ("./.git/hooks/post-checkout", tarfile.REGTYPE, b"content"),
        ("./tasks/two/same", tarfile.LNKTYPE, "./tasks/two/file"),
        mode=mode,
    )
    folder = unpack(given, tmp_path / "work")
    assert (folder / "tasks/one/link").read_bytes() == b"content"
    assert (folder / "tasks/two/same").read_bytes() == b"content"
    assert (folder / "tasks/empty").is_dir()
    assert not (folder / ".git").exists()
    assert (folder / "tasks/two/file").stat().st_mode & 0o7777 == 0o755


def test_plain_folder_or_file_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    assert unpack(tmp_path, tmp_path / "work") == tmp_path
    assert unpack(tmp_path / "a.jsonl", tmp_path / "work") == tmp_path / "a.jsonl"
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([("../out", tarfile.REGTYPE, b"x")], "not a path inside"),
        ([("/tmp/out", tarfile.REGTYPE, b"x")], "not a path inside"),
        ([("link", tarfile.SYMTYPE, "/etc/passwd")], "leads out"),
        ([("a/link", tarfile.SYMTYPE, "../../out")], "leads out"),
        ([("a/up", tarfile.SYMTYPE, ".."), ("out", tarfile.SYMTYPE, "a/up/../..")], "leads out"),
        (
            [("a/b/up", tarfile.SYMTYPE, "../.."), ("a/b/up/out", tarfile.SYMTYPE, "../../../out")],
            "below another link",
        ),
        ([("hard", tarfile.LNKTYPE, "../../etc/passwd")], "not a path inside"),
        ([("hard", tarfile.LNKTYPE, "lost")], "No such file"),
        ([("pipe", tarfile.FIFOTYPE, b"")], "neither a file nor a folder"),
        ([("twice", tarfile.REGTYPE, b"x"), ("twice", tarfile.REGTYPE, b"y")], "File exists"),
        ([("d", tarfile.SYMTYPE, "other"), ("d/x", tarfile.REGTYPE, b"x")], "File exists"),
    ],
)
def test_member_that_leads_out_is_refused(tmp_path: Path, members: list[Member], said: str) -> None:
    given = tar(tmp_path / "a.tar", *members, mode="w")
    with pytest.raises(DatasetError, match=said):
        unpack(given, tmp_path / "in/work")
    assert {path.name for path in tmp_path.iterdir()} == {"a.tar", "in"}


@pytest.mark.parametrize(("name", "mode"), [("a.tar", "w"), ("a.tar.gz", "w:gz"), ("a.tar.xz", "w:xz")])
def test_half_an_archive_is_reported(tmp_path: Path, name: str, mode: str) -> None:
    given = tar(tmp_path / name, ("file", tarfile.REGTYPE, os.urandom(100_000)), mode=mode)
    given.write_bytes(given.read_bytes()[:50_000])
    with pytest.raises(DatasetError, match="half-downloaded"):
        unpack(given, tmp_path / "work")
    given.write_bytes(b"nothing of this kind")
    with pytest.raises(DatasetError, match="half-downloaded"):
        unpack(given, tmp_path / "other")


def test_there_is_a_largest_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_copies, "MOST_BYTES", 10)
    with pytest.raises(TooLarge):
        unpack(tar(tmp_path / "a.tgz", ("file", tarfile.REGTYPE, b"x" * 11)), tmp_path / "work")


def test_a_folder_with_nothing_but_an_archive_is_that_archive(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "LICENSE").write_text("free")
    (given / "README.md").write_text("read")
    tar(given / "all.tar.gz", ("inner", tarfile.REGTYPE, b"x"))
    assert [each.name for each in unpack(given, tmp_path / "work").iterdir()] == ["inner"]
    (given / "rows.jsonl").touch()
    assert unpack(given, tmp_path / "other") == given
