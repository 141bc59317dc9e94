"""Backups: what is in one comes back, and nothing else that an archive could bring."""

import contextlib
import io
import json
import sqlite3
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchyard.cli.server import backup
from benchyard.errors import BenchyardError, Conflict, UsageError
from benchyard.store.backups import DATABASE, read_backup, write_backup
from benchyard.store.migrations import newest

TOLD = {
    "format": 1,
    "create_time_ms": 1,
    "version": "1",
    "schema": newest(),
    "objects": 0,
    "has_database": False,
}


def unwatched(_: int) -> None:
    """Progress that nobody looks at."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with two objects, of which the contents of one are gone."""
    folder = tmp_path / "data"
    (folder / "objects/ab").mkdir(parents=True)
    (folder / "secret-key").write_text("the key")
    (folder / "objects/ab/kept").write_bytes(b"contents")
    with contextlib.closing(sqlite3.connect(folder / DATABASE)) as connection, connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES (?)", [newest()])
        connection.execute("CREATE TABLE objects (status TEXT, body TEXT)")
        for name in ("kept", "gone"):
            connection.execute("INSERT INTO objects VALUES ('x', ?)", [json.dumps({"path": f"ab/{name}"})])
    return folder


def packed(members: dict[str, bytes], *others: tarfile.TarInfo) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for member in others:
            tar.addfile(member)
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    made.seek(0)
    return made


def test_backup_is_restored_whole(data: Path, tmp_path: Path) -> None:
    made = io.BytesIO()
    assert write_backup(data, made, "1", unwatched, database=True).objects == 1
    made.seek(0)
    target = tmp_path / "restored"
    target.mkdir()
    for name in ("lock", "server.log", "server.json"):
        (target / name).write_text("of a server that was here")
    assert read_backup(made, target, unwatched).objects == 1
    assert sorted(each.name for each in target.iterdir()) == [DATABASE, "objects", "secret-key"]
    assert (target / "objects/ab/kept").read_bytes() == b"contents"
    assert (target / "secret-key").stat().st_mode & 0o777 == 0o600
    with contextlib.closing(sqlite3.connect(target / DATABASE)) as connection:
        assert connection.execute("SELECT count(*) FROM objects WHERE status = 'DELETED'").fetchone() == (1,)
    with pytest.raises(Conflict):
        read_backup(io.BytesIO(), target, unwatched)


@pytest.mark.parametrize(
    "name",
    ["../out", "/out", "objects/../../out", "objects//x", "./secret-key", "other", "server.json", "objects"],
)
def test_members_that_no_backup_has_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_backup(packed({name: b"x", "backup.json": json.dumps(TOLD).encode()}), tmp_path / "d", unwatched)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(kind: bytes, tmp_path: Path) -> None:
    member = tarfile.TarInfo("objects/link")
    member.type, member.linkname = kind, "/etc"
    content = packed({"objects/link/x": b"x", "backup.json": json.dumps(TOLD).encode()}, member)
    with pytest.raises(BenchyardError):
        read_backup(content, tmp_path / "d", unwatched)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("told", [None, [], {}, {"format": 1}, {**TOLD, "objects": "many"}], ids=str)
def test_a_backup_without_a_description_is_refused(told: object, tmp_path: Path) -> None:
    members = {"secret-key": b"x"} | ({"backup.json": json.dumps(told).encode()} if told is not None else {})
    with pytest.raises(UsageError, match="not a complete backup"):
        read_backup(packed(members), tmp_path / "d", unwatched)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_link", [False, True])
def test_prepared_file_does_not_receive_a_backup(data: Path, tmp_path: Path, is_link: bool) -> None:
    """It holds every key: what lies where it is written first is not written to."""
    prepared, theirs = tmp_path / ".all.tgz.part", tmp_path / "theirs"
    theirs.write_text("theirs")
    theirs.chmod(0o644)
    if is_link:
        prepared.symlink_to(theirs)
    else:
        prepared.hardlink_to(theirs)
    ran = CliRunner().invoke(backup, [str(tmp_path / "all.tgz"), "--data", str(data)])
    assert ran.exit_code == 0, ran.output
    assert theirs.read_text() == "theirs"
    assert (tmp_path / "all.tgz").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "all.tgz").is_symlink()
