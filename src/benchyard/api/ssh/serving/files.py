"""Files of a devbox over SFTP (and scp): contents by descriptor, everything else by asking a shell inside.

Every verb of asyncssh's own server is replaced, because those work on the files of this machine.
"""

import asyncio
import os
import posixpath
from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncssh
from asyncssh.constants import FXF_CREAT, FXF_EXCL, FXF_TRUNC, FXF_WRITE

from benchyard.api.ssh.serving.file_shell import FileShell, path_word, quoted
from benchyard.api.ssh.serving.listing import FORMAT, attributes, entries
from benchyard.api.ssh.serving.sessions import Place
from benchyard.errors import BenchyardError, Forbidden, NotFound

_ANY_NAME = b'[ -e %b ] || [ -L %b ] && { echo "it is there already: File exists"; exit 1; }\n'
_NOT_HERE = "not possible over sftp here; use ssh"


@dataclass
class OpenFile:
    """An open file: a descriptor of this machine, and the path it has in the devbox."""

    descriptor: int
    path: bytes


class Files(asyncssh.SFTPServer):
    """The files of one devbox, for one client, as its user."""

    def __init__(self, channel: "asyncssh.SSHServerChannel[bytes]", place: Place, most_bytes: int) -> None:
        super().__init__(channel)
        self._place = place
        self._most_bytes = most_bytes
        self._shell = FileShell(place)
        self._home = b""
        self._opened: set[int] = set()

    async def exit(self) -> None:
        for descriptor in self._opened:
            os.close(descriptor)
        self._opened.clear()
        await self._shell.close()
        if self.channel.get_subsystem() and not self.channel.is_closing():
            # Without it, a client takes the end for a failure.
            self.channel.exit(0)

    async def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> OpenFile:
        path = await self.realpath(path)
        host, devbox_id = self._place.host, self._place.devbox_id
        if pflags & FXF_WRITE:
            await self._check_target(path, pflags)
        try:
            if pflags & FXF_WRITE:
                given = attrs.permissions
                mode = 0o644 if given is None else given & 0o777
                opening = host.open_write if pflags & FXF_TRUNC else host.open_change
                descriptor = await opening(devbox_id, os.fsdecode(path), mode=mode)
            else:
                descriptor = await host.open_read(devbox_id, os.fsdecode(path))
        except BenchyardError as error:
            raise _as_sftp(error) from error
        self._opened.add(descriptor)
        return OpenFile(descriptor, path)

    async def _check_target(self, path: bytes, pflags: int) -> None:
        """Refuse what opening would do beyond what was asked for: it makes files, and folders for them."""
        folder = path_word(posixpath.dirname(path))
        word = path_word(path)
        told = await self._shell.ask(
            b"[ -d %b ] || { echo 'No such file or directory'; exit 1; }\n" % folder
            + b"if [ -e %b ]; then echo there; fi" % word
        )
        if not told.strip() and not pflags & FXF_CREAT:
            raise asyncssh.SFTPNoSuchFile("No such file or directory")
        if told.strip() and pflags & FXF_EXCL:
            raise asyncssh.SFTPFailure("File exists")

    async def open56(
        self, path: bytes, desired_access: int, flags: int, attrs: asyncssh.SFTPAttrs
    ) -> OpenFile:
        raise asyncssh.SFTPOpUnsupported(_NOT_HERE)

    async def close(self, file_obj: object) -> None:
        assert isinstance(file_obj, OpenFile)
        if file_obj.descriptor in self._opened:
            self._opened.discard(file_obj.descriptor)
            os.close(file_obj.descriptor)

    async def read(self, file_obj: object, offset: int, size: int) -> bytes:
        assert isinstance(file_obj, OpenFile)
        return await asyncio.to_thread(os.pread, file_obj.descriptor, size, offset)

    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        assert isinstance(file_obj, OpenFile)
        if offset + len(data) > self._most_bytes:
            raise asyncssh.SFTPFailure(f"a file may have {self._most_bytes} bytes here, not more")
        return await asyncio.to_thread(_write_all, file_obj.descriptor, data, offset)

    async def stat(self, path: bytes) -> asyncssh.SFTPAttrs:
        return attributes(await self._shell.ask(b"stat -L -c %b %b" % (FORMAT, path_word(path))))

    async def lstat(self, path: bytes) -> asyncssh.SFTPAttrs:
        return attributes(await self._shell.ask(b"stat -c %b %b" % (FORMAT, path_word(path))))

    async def fstat(self, file_obj: object) -> asyncssh.SFTPAttrs:
        assert isinstance(file_obj, OpenFile)
        return await self.stat(file_obj.path)

    async def setstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        await self._change(path, attrs, b"")

    async def lsetstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        await self._change(path, attrs, b"-h ")

    async def fsetstat(self, file_obj: object, attrs: asyncssh.SFTPAttrs) -> None:
        assert isinstance(file_obj, OpenFile)
        await self._change(file_obj.path, attrs, b"")

    async def _change(self, path: bytes, attrs: asyncssh.SFTPAttrs, option: bytes) -> None:
        word = path_word(path)
        steps = []
        if attrs.size is not None:
            steps.append(b"truncate -s %d %b" % (min(attrs.size, self._most_bytes), word))
        if attrs.uid is not None and attrs.gid is not None:
            steps.append(b"chown %b%d:%d %b" % (option, attrs.uid, attrs.gid, word))
        if attrs.permissions is not None and not option:
            steps.append(b"chmod %o %b" % (attrs.permissions & 0o7777, word))
        if attrs.atime is not None:
            steps.append(b"touch -c -a %b-d @%d %b" % (option, attrs.atime, word))
        if attrs.mtime is not None:
            steps.append(b"touch -c -m %b-d @%d %b" % (option, attrs.mtime, word))
        if steps:
            await self._shell.ask(b" && ".join(steps))

    async def scandir(self, path: bytes) -> AsyncIterator[asyncssh.SFTPName]:
        shown = b"stat -c '/'%b' '%%n" % FORMAT
        told = await self._shell.ask(
            b"cd %b && %b ./. ./.. && " % (path_word(path), shown)
            + b"find . -mindepth 1 -maxdepth 1 -exec %b {} +" % shown
        )
        for entry in entries(told):
            yield entry

    async def remove(self, path: bytes) -> None:
        word = path_word(path)
        await self._shell.ask(
            b"[ -d %b ] && [ ! -L %b ] && { echo 'it is a directory'; exit 1; }\nrm %b" % (word, word, word)
        )

    async def mkdir(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        mode = b"" if attrs.permissions is None else b"-m %o " % (attrs.permissions & 0o777)
        await self._shell.ask(b"mkdir %b%b" % (mode, path_word(path)))

    async def rmdir(self, path: bytes) -> None:
        await self._shell.ask(b"rmdir %b" % path_word(path))

    async def realpath(self, path: bytes) -> bytes:
        if not self._home:
            self._home = (await self._shell.ask(b"pwd")).removesuffix(b"\n")
        return posixpath.normpath(posixpath.join(self._home, path))

    async def rename(self, oldpath: bytes, newpath: bytes) -> None:
        old, new = path_word(oldpath), path_word(newpath)
        await self._shell.ask(_ANY_NAME % (new, new) + b"mv %b %b" % (old, new))

    async def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        old, new = path_word(oldpath), path_word(newpath)
        away = b"if [ -d %b ] && [ ! -L %b ]; then rmdir %b || exit 1; fi\n" % (new, new, new)
        await self._shell.ask(away + b"mv -f %b %b" % (old, new))

    async def readlink(self, path: bytes) -> bytes:
        return await self._shell.ask(b"readlink -n %b" % path_word(path))

    async def symlink(self, oldpath: bytes, newpath: bytes) -> None:
        new = path_word(newpath)
        await self._shell.ask(_ANY_NAME % (new, new) + b"ln -s -- %b %b" % (quoted(oldpath), new))

    async def link(self, oldpath: bytes, newpath: bytes) -> None:
        new = path_word(newpath)
        await self._shell.ask(_ANY_NAME % (new, new) + b"ln %b %b" % (path_word(oldpath), new))

    def lock(self, file_obj: object, offset: int, length: int, flags: int) -> None:
        raise asyncssh.SFTPOpUnsupported(_NOT_HERE)

    def unlock(self, file_obj: object, offset: int, length: int) -> None:
        raise asyncssh.SFTPOpUnsupported(_NOT_HERE)

    def statvfs(self, path: bytes) -> asyncssh.SFTPVFSAttrs:
        raise asyncssh.SFTPOpUnsupported(_NOT_HERE)

    def fstatvfs(self, file_obj: object) -> asyncssh.SFTPVFSAttrs:
        raise asyncssh.SFTPOpUnsupported(_NOT_HERE)

    async def fsync(self, file_obj: object) -> None:
        assert isinstance(file_obj, OpenFile)
        await asyncio.to_thread(os.fsync, file_obj.descriptor)

    def map_path(self, path: bytes) -> bytes:
        raise asyncssh.SFTPOpUnsupported(_NOT_HERE)

    def reverse_map_path(self, path: bytes) -> bytes:
        raise asyncssh.SFTPOpUnsupported(_NOT_HERE)

    def format_user(self, uid: int | None) -> str:
        return "" if uid is None else str(uid)

    def format_group(self, gid: int | None) -> str:
        return "" if gid is None else str(gid)


def _write_all(descriptor: int, data: bytes, offset: int) -> int:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
    return len(data)


def _as_sftp(error: BenchyardError) -> asyncssh.SFTPError:
    if isinstance(error, NotFound):
        return asyncssh.SFTPNoSuchFile("No such file or directory")
    if isinstance(error, Forbidden):
        return asyncssh.SFTPPermissionDenied("Permission denied")
    return asyncssh.SFTPFailure(error.message)
