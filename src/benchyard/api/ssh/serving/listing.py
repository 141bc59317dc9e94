"""What `stat` tells about files, as SFTP tells it; whatever the files' names are."""

import re
import stat
from collections.abc import Iterator

import asyncssh
from asyncssh import constants

FORMAT = b"'%f %s %u %g %X %Y'"
"""Mode in hexadecimal, size, owner, group, and when it was last read and changed."""

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


def attributes(told: bytes) -> asyncssh.SFTPAttrs:
    """One line of `stat -c FORMAT`; raises SFTPFailure if it is none."""
    found = _FACTS.fullmatch(told.strip())
    if found is None:
        raise asyncssh.SFTPFailure("the devbox's `stat` tells nothing that can be read")
    mode = int(found[1], 16)
    size, owner, group, read, changed = (max(0, int(each)) for each in found.groups()[1:])
    return asyncssh.SFTPAttrs(
        type=_KINDS.get(stat.S_IFMT(mode), constants.FILEXFER_TYPE_UNKNOWN),
        size=size,
        uid=min(owner, _LARGEST),
        gid=min(group, _LARGEST),
        permissions=mode,
        atime=min(read, _LARGEST),
        mtime=min(changed, _LARGEST),
    )


def entries(told: bytes) -> Iterator[asyncssh.SFTPName]:
    """The entries of a directory, each told as `/FACTS ./NAME` and a line's end.

    No name holds a slash: whatever else is in one, every second piece between slashes is a name.
    """
    pieces = told.split(b"/")[1:]
    for facts, name in zip(pieces[::2], pieces[1::2], strict=False):
        yield asyncssh.SFTPName(name.removesuffix(b"\n"), attrs=attributes(facts.removesuffix(b".")))
