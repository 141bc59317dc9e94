"""Sends and receives folders as tar streams; a received tar is hostile and only writes below its folder."""

import os
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from benchyard.errors import UsageError

CHUNK = 1024 * 1024


@contextmanager
def folder_tar(folder: Path, *, keep_owners: bool = False) -> Iterator[BinaryIO]:
    """Yield the folder's content as a tar stream, packed while it is read."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as pipe, tarfile.open(fileobj=pipe, mode="w|") as tar:
            tar.add(folder, arcname=".", filter=None if keep_owners else _anonymous)

    with _beside(write, f"cannot read all of {folder}"), os.fdopen(reading, "rb") as pipe:
        yield pipe


@contextmanager
def tar_writer(folder: Path) -> Iterator[BinaryIO]:
    """Yield a file to write a tar to; the tar is unpacked below the folder while it arrives."""
    reading, writing = os.pipe()

    def read() -> None:
        with os.fdopen(reading, "rb") as pipe:
            unpack(pipe, folder)

    with _beside(read, f"cannot unpack into {folder}"), os.fdopen(writing, "wb") as pipe:
        yield pipe


def unpack(tar_stream: BinaryIO, folder: Path) -> None:
    """Write a tar below a folder; links are made last, so that no file is ever written through one."""
    folder.mkdir(parents=True, exist_ok=True)
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    links: list[tarfile.TarInfo] = []
    try:
        with tarfile.open(fileobj=tar_stream, mode="r|") as tar:
            for member in tar:
                if member.issym():
                    links.append(member)
                else:
                    _unpack_one(tar, member, root)
        for member in links:
            _unpack_link(member, root)
    finally:
        os.close(root)


def _unpack_one(tar: tarfile.TarFile, member: tarfile.TarInfo, root: int) -> None:
    parts = _parts(member.name)
    if member.isdir():
        with _open_folder(root, parts) as directory:
            os.fchmod(directory, member.mode & 0o777 | 0o700)
        return
    if not parts or not (member.isreg() or member.islnk()):
        raise UsageError(f"{member.name!r} is neither a file, a folder nor a link; leave it out")
    with _open_folder(root, parts[:-1]) as directory:
        _make_room(parts[-1], directory)
        if member.islnk():
            _link_again(_parts(member.linkname), parts[-1], root, directory)
        else:
            _write_file(tar, member, parts[-1], directory)


def _write_file(tar: tarfile.TarFile, member: tarfile.TarInfo, name: str, directory: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    source = tar.extractfile(member)
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=directory), "wb") as file:
        while source is not None and (chunk := source.read(CHUNK)):
            file.write(chunk)
        os.fchmod(file.fileno(), member.mode & 0o777)
        file.flush()
        os.utime(file.fileno(), (member.mtime, member.mtime))


def _link_again(existing: tuple[str, ...], name: str, root: int, directory: int) -> None:
    with _open_folder(root, existing[:-1]) as holder:
        os.link(existing[-1], name, src_dir_fd=holder, dst_dir_fd=directory, follow_symlinks=False)


def _unpack_link(member: tarfile.TarInfo, root: int) -> None:
    *folders, name = _parts(member.name)
    with _open_folder(root, tuple(folders)) as directory:
        _make_room(name, directory)
        os.symlink(member.linkname, name, dir_fd=directory)


def _make_room(name: str, directory: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


@contextmanager
def _open_folder(root: int, parts: tuple[str, ...]) -> Iterator[int]:
    """Open a folder below the root, made if it is missing, without following any link."""
    here = os.dup(root)
    try:
        for part in parts:
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=here)
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _parts(name: str) -> tuple[str, ...]:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise UsageError(f"the archive names a path outside of its folder: {name!r}")
    return path.parts


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


@contextmanager
def _beside(work: Callable[[], None], complaint: str) -> Iterator[None]:
    """Run the work in a thread during the block; its error counts more than the broken pipe it leads to."""
    failures: list[OSError | tarfile.TarError | UsageError] = []

    def attempt() -> None:
        try:
            work()
        except BrokenPipeError:
            return
        except (OSError, tarfile.TarError, UsageError) as error:
            failures.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    try:
        with suppress(BrokenPipeError):
            yield
    finally:
        thread.join()
    if failures:
        raise UsageError(f"{complaint}: {failures[0]}") from failures[0]
