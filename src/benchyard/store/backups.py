"""Backups of a data folder: the database, objects and keys in one archive, consistent while the server runs.

The database is copied first, by SQLite's own backup; then the contents of the objects that the copy names,
which are never changed. An object that was deleted in between is marked as deleted in the copy. The keys come
last, with the output of commands in devboxes that have ended.
"""

import contextlib
import gzip
import io
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from benchyard.errors import Conflict, NotFound, StoreError, UsageError, from_os
from benchyard.store.migrations import newest

DATABASE = "benchyard.db"
OBJECTS = "objects"
_MANIFEST = "backup.json"
_KEYS = ("secret-key", "api-key", "ssh-host-key")
_FOLDERS = ("tls", "logs")
_DEVBOXES = "host/devboxes"
_OF_ENDED = frozenset({"request.json", "executions"})
"""Entries of an ended devbox's folder: the output of its commands, such as agents."""
_FORMAT = 1
_MOST_MANIFEST_BYTES = 1024**2
_OF_NO_VALUE = ("lock", "server.log", "server.json")
"""Files that a server which never started may have left; restoring a backup there replaces them."""
_OF_A_DISK = "lost+found"

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Backup:
    """Description of a backup."""

    create_time_ms: int
    version: str
    schema: str
    objects: int
    has_database: bool
    size_bytes: int = 0


def write_backup(
    data: Path, target: IO[bytes], version: str, progress: Progress, *, database: bool
) -> Backup:
    """Write a backup of a data folder; raises NotFound, or UsageError if its database is elsewhere."""
    if not (data / "secret-key").is_file():
        raise NotFound(
            f"{data} is not the data folder of a server: it has no secret-key; name it with --data"
        )
    if database and not (data / DATABASE).is_file():
        raise UsageError(
            f"{data} has no {DATABASE}: the server's database is elsewhere. Dump it first (`pg_dump -Fc`), "
            "then back up the rest with --without-database"
        )
    with tempfile.TemporaryDirectory(prefix="benchyard-backup-", dir=data) as folder:
        copy = Path(folder) / DATABASE
        if database:
            _copy_database(data / DATABASE, copy)
            paths = _object_paths(copy)
        else:
            paths = sorted(
                path.relative_to(data / OBJECTS).as_posix()
                for path in (data / OBJECTS).rglob("*")
                if path.is_file()
            )
        with contextlib.ExitStack() as stack:
            # Python 3.11 has no compression level for streamed archives, so they are compressed here.
            packed = stack.enter_context(gzip.GzipFile("", "wb", compresslevel=1, fileobj=target))
            tar = stack.enter_context(tarfile.open(fileobj=packed, mode="w|"))
            missing = _add_objects(tar, data / OBJECTS, paths, progress)
            if database:
                _mark_deleted(copy, missing)
                _add_file(tar, copy, DATABASE, progress)
            for name in (*_key_files(data), *_outputs(data)):
                with contextlib.suppress(FileNotFoundError):  # deleted since
                    _add_file(tar, data / name, name, progress)
            backup = Backup(
                create_time_ms=time.time_ns() // 1_000_000,
                version=version,
                schema=_schema(copy) if database else newest(),
                objects=len(paths) - len(missing),
                has_database=database,
            )
            manifest = json.dumps({"format": _FORMAT, **vars(backup)}).encode()
            info = tarfile.TarInfo(_MANIFEST)
            info.size, info.mode, info.mtime = len(manifest), 0o600, int(time.time())
            tar.addfile(info, io.BytesIO(manifest))
    return backup


def read_backup(source: IO[bytes], data: Path, progress: Progress) -> Backup:
    """Make a data folder from a backup, whole or not at all; raises Conflict if the folder is not empty."""
    if data.exists() and {path.name for path in data.iterdir()} - {*_OF_NO_VALUE, _OF_A_DISK}:
        raise Conflict(f"{data} is not empty; a backup is restored into a new folder: name one with --data")
    data.parent.mkdir(parents=True, exist_ok=True)
    # A volume cannot be replaced by a folder, only filled.
    is_volume = data.is_mount()
    inside = data if is_volume else data.parent
    with tempfile.TemporaryDirectory(prefix=f".{data.name}-", dir=inside) as folder:
        restored = Path(folder) / "data"
        restored.mkdir(mode=0o700)
        backup = _unpack(source, restored, progress)
        if backup.has_database and backup.schema > newest():
            raise StoreError(
                f"the backup was made by a newer Benchyard ({backup.version}, schema {backup.schema}); "
                "install that version, or a later one"
            )
        for name in _OF_NO_VALUE:
            (data / name).unlink(missing_ok=True)
        if is_volume:
            for path in restored.iterdir():
                path.replace(data / path.name)
        else:
            restored.replace(data)
    return backup


def _copy_database(source: Path, target: Path) -> None:
    try:
        with (
            contextlib.closing(sqlite3.connect(source.as_uri() + "?mode=ro", uri=True)) as here,
            contextlib.closing(sqlite3.connect(target)) as there,
        ):
            # Copy in one step: each write of the server restarts a copy, so that one in steps might never
            # end.
            here.backup(there)
            # Leave a single file, without a log beside it.
            there.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise StoreError(f"the database {source} could not be copied: {error}") from error
    target.chmod(0o600)


def _object_paths(database: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT json_extract(body, '$.path') FROM objects WHERE status != 'DELETED'"
        )
        return sorted(path for (path,) in rows if path)


def _mark_deleted(database: Path, paths: list[str]) -> None:
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.executemany(
            "UPDATE objects SET status = 'DELETED', "
            "body = json_set(body, '$.state', 'DELETED', '$.path', NULL) "
            "WHERE json_extract(body, '$.path') = ?",
            [(path,) for path in paths],
        )


def _schema(database: Path) -> str:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def _add_objects(tar: tarfile.TarFile, folder: Path, paths: list[str], progress: Progress) -> list[str]:
    missing = []
    for path in paths:
        try:
            _add_file(tar, folder / path, f"{OBJECTS}/{path}", progress)
        except FileNotFoundError:
            missing.append(path)
    return missing


def _key_files(data: Path) -> Iterator[str]:
    yield from (name for name in _KEYS if (data / name).is_file())
    for folder in _FOLDERS:
        yield from sorted(
            path.relative_to(data).as_posix() for path in (data / folder).rglob("*") if path.is_file()
        )


def _outputs(data: Path) -> Iterator[str]:
    """Yield the output files of commands in ended devboxes; live devboxes are not in a backup."""
    for devbox in sorted((data / _DEVBOXES).glob("*")):
        if {path.name for path in devbox.glob("*")} <= _OF_ENDED:
            files = (path for path in devbox.rglob("*") if path.is_file() and not path.is_symlink())
            yield from sorted(file.relative_to(data).as_posix() for file in files)


def _add_file(tar: tarfile.TarFile, path: Path, name: str, progress: Progress) -> None:
    with path.open("rb") as content:
        status = os.fstat(content.fileno())
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = status.st_size, status.st_mode & 0o700, int(status.st_mtime)
        tar.addfile(info, content)
    progress(info.size)


def _unpack(source: IO[bytes], folder: Path, progress: Progress) -> Backup:
    """Unpack the expected files of a backup; raises UsageError for any other file in the archive."""
    manifest: object = None
    size = 0
    try:
        with gzip.GzipFile(fileobj=source) as packed, tarfile.open(fileobj=packed, mode="r|") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                if content is None or not _is_expected(member.name):
                    raise UsageError(f"this is not a backup of Benchyard: it has {member.name[:200]!r}")
                if member.name == _MANIFEST:
                    manifest = json.loads(content.read(_MOST_MANIFEST_BYTES))
                    continue
                path = folder / member.name
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with path.open("xb") as file:
                    shutil.copyfileobj(content, file, 1024**2)
                path.chmod(0o600)
                size += member.size
                progress(member.size)
            # Read to the very end, where the checksum is compared.
            while packed.read(1024**2):
                pass
    except (tarfile.TarError, EOFError, ValueError, gzip.BadGzipFile, zlib.error) as error:
        raise UsageError(
            f"the backup cannot be read to its end ({error}); it may be cut short or damaged"
        ) from error
    except OSError as error:
        raise from_os(error) from error
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise UsageError(
            "this is not a complete backup of Benchyard: its list of contents is missing at its end"
        )
    try:
        return Backup(
            create_time_ms=int(str(manifest["create_time_ms"])),
            version=str(manifest["version"]),
            schema=str(manifest["schema"]),
            objects=int(str(manifest["objects"])),
            has_database=bool(manifest["has_database"]),
            size_bytes=size,
        )
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"this is not a complete backup of Benchyard: its description lacks {error}"
        ) from error


def _is_expected(name: str) -> bool:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or name != path.as_posix():
        return False
    if len(path.parts) == 1:
        return name in (_MANIFEST, DATABASE, *_KEYS)
    if path.is_relative_to(_DEVBOXES):
        return len(path.parts) > 3 and path.parts[3] in _OF_ENDED
    return path.parts[0] in (OBJECTS, *_FOLDERS)
