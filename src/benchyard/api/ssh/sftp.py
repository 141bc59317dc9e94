"""Files of a devbox over SFTP and scp: contents by descriptor, all else through a shell inside.

Every operation of asyncssh's own server is replaced, because those work on the files of this machine.
"""

import asyncio
import os
import posixpath
import re
import secrets
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

import asyncssh
from asyncssh import constants
from asyncssh.constants import FXF_CREAT, FXF_EXCL, FXF_TRUNC, FXF_WRITE

from benchyard.api.ssh.sessions import LiveOutput, SshTarget
from benchyard.devboxes.base import Stdin
from benchyard.engine.devboxes.commands import SSH_PREFIX
from benchyard.engine.ids import random_id
from benchyard.errors import BenchyardError, Forbidden, NotFound
from benchyard.hosts.host import ExecRequest

_ANSWER_SECONDS = 60.0
_MOST_BYTES = 32 * 1024**2
_Error = Callable[[str], asyncssh.SFTPError]
_ERRORS: tuple[tuple[bytes, _Error], ...] = (
    (b"No such file", asyncssh.SFTPNoSuchFile),
    (b"Not a directory", asyncssh.SFTPNoSuchFile),
    (b"ermission denied", asyncssh.SFTPPermissionDenied),
    (b"not permitted", asyncssh.SFTPPermissionDenied),
)
_SHELL = "cd; exec /bin/sh"
_LEADING = re.compile(rb"^[^:\n]{1,64}: (line \d+: )?")


def quote_word(data: bytes) -> bytes:
    """Quote bytes without NUL as one word of the shell."""
    if b"\0" in data:
        raise asyncssh.SFTPBadMessage("a path cannot hold a NUL byte")
    return b"'" + data.replace(b"'", b"'\\''") + b"'"


def path_word(path: bytes) -> bytes:
    """Quote a path as one word that no program takes for an option."""
    return quote_word(path if path.startswith(b"/") else b"./" + path)


class FileShell:
    """A shell in a devbox, started at the first question, that answers questions in sequence."""

    def __init__(self, place: SshTarget) -> None:
        self._place = place
        self._id = random_id(SSH_PREFIX)
        self._following = LiveOutput(place.host, place.devbox_id, self._id)
        self._asking = asyncio.Lock()
        self._offset = 0
        self._is_begun = False

    async def ask(self, question: bytes) -> bytes:
        """Run commands and return their output; raises SFTPError if they fail."""
        async with self._asking:
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await self._begin()
                    answer, status = await self._exchange(question)
            except TimeoutError as error:
                await self.close()
                raise asyncssh.SFTPFailure("the devbox did not answer in time") from error
            except BenchyardError as error:
                raise asyncssh.SFTPFailure(error.message) from error
        if status:
            raise _error(answer)
        return answer

    async def _begin(self) -> None:
        place = self._place
        await place.engine.devboxes.running(place.devbox_id)
        if not self._is_begun:
            request = ExecRequest(id=self._id, command=_SHELL, attach_stdin=True, env={"LC_ALL": "C"})
            await place.host.exec(place.devbox_id, request)
            self._is_begun = True
            # Output of the login comes before the first answer.
            await self._exchange(b":")

    async def _exchange(self, question: bytes) -> tuple[bytes, int]:
        mark = secrets.token_hex(16).encode()
        # Errors go to the same stream; the answer ends with a mark that cannot be predicted.
        script = b"( %b\n) 2>&1 </dev/null; printf '%%s %%d\\n' %b $?\n" % (question, mark)
        await self._place.host.control(self._place.devbox_id, self._id, Stdin(script))
        self._following.fed()
        return await self._answer(mark)

    async def _answer(self, mark: bytes) -> tuple[bytes, int]:
        output = bytearray()
        end = re.compile(mark + rb" (\d+)\n")
        async for piece in self._following.output("stdout", self._offset):
            self._offset += len(piece)
            output += piece
            if match := end.search(output, max(0, len(output) - len(piece) - len(mark) - 8)):
                return bytes(output[: match.start()]), int(match[1])
            if len(output) > _MOST_BYTES:
                break
        await self.close()
        raise asyncssh.SFTPFailure("the devbox's answer is incomplete")

    async def close(self) -> None:
        """End the shell."""
        if self._is_begun:
            await self._place.engine.ssh_keys.hang_up(self._place.devbox_id, self._id)


def _error(said: bytes) -> asyncssh.SFTPError:
    line = said.strip().splitlines()[-1:] or [b"it failed"]
    text = _LEADING.sub(b"", line[0])[:500].decode(errors="replace")
    for part, kind in _ERRORS:
        if part in line[0]:
            return kind(text)
    return asyncssh.SFTPFailure(text)


STAT_FORMAT = b"'%f %s %u %g %X %Y'"
"""Mode in hexadecimal, size, owner, group, and times of the last access and change."""

_FACTS = re.compile(rb"([0-9a-f]{1,8}) (\d{1,19}) (\d{1,10}) (\d{1,10}) (-?\d{1,12}) (-?\d{1,12})")
_KINDS = {
    stat.S_IFREG: constants.FILEXFER_TYPE_REGULAR,
    stat.S_IFDIR: constants.FILEXFER_TYPE_DIRECTORY,
    stat.S_IFLNK: constants.FILEXFER_TYPE_SYMLINK,
    stat.S_IFSOCK: constants.FILEXFER_TYPE_SOCKET,
    stat.S_IFCHR: constants.FILEXFER_TYPE_CHAR_DEVICE,
    stat.S_IFBLK: constants.FILEXFER_TYPE_BLOCK_DEVICE,
    stat.S_IFIFO: constants.FILEXFER_TYPE_FIFO,
}
_LARGEST = 2**32 - 1


def attributes_from_stat(told: bytes) -> asyncssh.SFTPAttrs:
    """Parse a line of `stat -c FORMAT`; raises SFTPFailure if it is malformed."""
    match = _FACTS.fullmatch(told.strip())
    if match is None:
        raise asyncssh.SFTPFailure("the output of `stat` in the devbox cannot be read")
    mode = int(match[1], 16)
    size, owner, group, read, changed = (max(0, int(each)) for each in match.groups()[1:])
    return asyncssh.SFTPAttrs(
        type=_KINDS.get(stat.S_IFMT(mode), constants.FILEXFER_TYPE_UNKNOWN),
        size=size,
        uid=min(owner, _LARGEST),
        gid=min(group, _LARGEST),
        permissions=mode,
        atime=min(read, _LARGEST),
        mtime=min(changed, _LARGEST),
    )


def entries_from_stat(told: bytes) -> Iterator[asyncssh.SFTPName]:
    """Yield the entries of a directory, each printed as `/FACTS ./NAME` and a line end.

    No name contains a slash, so every second piece between slashes is a name.
    """
    pieces = told.split(b"/")[1:]
    for facts, name in zip(pieces[::2], pieces[1::2], strict=False):
        yield asyncssh.SFTPName(
            name.removesuffix(b"\n"), attrs=attributes_from_stat(facts.removesuffix(b"."))
        )


_ANY_NAME = b'[ -e %b ] || [ -L %b ] && { echo "it is there already: File exists"; exit 1; }\n'
_NOT_HERE = "not possible over sftp here; use ssh"


@dataclass
class SftpFile:
    """An open file: a descriptor of this machine, and its path in the devbox."""

    descriptor: int
    path: bytes


class SftpFiles(asyncssh.SFTPServer):
    """The files of one devbox, for one client, with the rights of the devbox's user."""

    def __init__(
        self, channel: "asyncssh.SSHServerChannel[bytes]", place: SshTarget, most_bytes: int
    ) -> None:
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
            # Without an exit status, a client takes the end for a failure.
            self.channel.exit(0)

    async def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> SftpFile:
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
        return SftpFile(descriptor, path)

    async def _check_target(self, path: bytes, pflags: int) -> None:
        """Refuse targets for which opening would do more than asked, such as creating files or folders."""
        folder = path_word(posixpath.dirname(path))
        word = path_word(path)
        answer = await self._shell.ask(
            b"[ -d %b ] || { echo 'No such file or directory'; exit 1; }\n" % folder
            + b"if [ -e %b ]; then echo there; fi" % word
        )
        if not answer.strip() and not pflags & FXF_CREAT:
            raise asyncssh.SFTPNoSuchFile("No such file or directory")
        if answer.strip() and pflags & FXF_EXCL:
            raise asyncssh.SFTPFailure("File exists")

    async def open56(
        self, path: bytes, desired_access: int, flags: int, attrs: asyncssh.SFTPAttrs
    ) -> SftpFile:
        raise asyncssh.SFTPOpUnsupported(_NOT_HERE)

    async def close(self, file_obj: object) -> None:
        assert isinstance(file_obj, SftpFile)
        if file_obj.descriptor in self._opened:
            self._opened.discard(file_obj.descriptor)
            os.close(file_obj.descriptor)

    async def read(self, file_obj: object, offset: int, size: int) -> bytes:
        assert isinstance(file_obj, SftpFile)
        return await asyncio.to_thread(os.pread, file_obj.descriptor, size, offset)

    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        assert isinstance(file_obj, SftpFile)
        if offset + len(data) > self._most_bytes:
            raise asyncssh.SFTPFailure(f"a file has at most {self._most_bytes} bytes here")
        return await asyncio.to_thread(_write_all, file_obj.descriptor, data, offset)

    async def stat(self, path: bytes) -> asyncssh.SFTPAttrs:
        return attributes_from_stat(
            await self._shell.ask(b"stat -L -c %b %b" % (STAT_FORMAT, path_word(path)))
        )

    async def lstat(self, path: bytes) -> asyncssh.SFTPAttrs:
        return attributes_from_stat(await self._shell.ask(b"stat -c %b %b" % (STAT_FORMAT, path_word(path))))

    async def fstat(self, file_obj: object) -> asyncssh.SFTPAttrs:
        assert isinstance(file_obj, SftpFile)
        return await self.stat(file_obj.path)

    async def setstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        await self._change(path, attrs, b"")

    async def lsetstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        await self._change(path, attrs, b"-h ")

    async def fsetstat(self, file_obj: object, attrs: asyncssh.SFTPAttrs) -> None:
        assert isinstance(file_obj, SftpFile)
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
        shown = b"stat -c '/'%b' '%%n" % STAT_FORMAT
        answer = await self._shell.ask(
            b"cd %b && %b ./. ./.. && " % (path_word(path), shown)
            + b"find . -mindepth 1 -maxdepth 1 -exec %b {} +" % shown
        )
        for entry in entries_from_stat(answer):
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
        await self._shell.ask(_ANY_NAME % (new, new) + b"ln -s -- %b %b" % (quote_word(oldpath), new))

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
        assert isinstance(file_obj, SftpFile)
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
