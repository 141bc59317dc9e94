"""Deletion of a server's data folder, with the files of devboxes that the user may not remove."""

import contextlib
import errno
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

from benchyard.devboxes.guest import ids
from benchyard.devboxes.layers.trees import remove_tree
from benchyard.errors import Conflict, DevboxError, UsageError
from benchyard.hosts import leaks

_LOCK = "lock"
_LAYER = re.compile(r"[0-9a-f]{24}")
_MOST_BYTES = 4096


def check_data_folder(data: Path) -> None:
    """Refuse a folder that was not made by a server."""
    if not ((data / _LOCK).is_file() and (data / "driver").is_dir()) and not _is_remainder(data):
        raise UsageError(f"{data} is not the data folder of a server; nothing was deleted")


def _is_remainder(data: Path) -> bool:
    """Tell whether only the remains of `rm -r` by an ordinary user are there: layers, named by digests."""
    try:
        layers = list((data / "images" / "layers").iterdir())
        others = {path.name for path in data.iterdir()} - {"host", "images"}
    except (FileNotFoundError, NotADirectoryError):
        return False
    return bool(layers) and not others and all(_LAYER.fullmatch(path.name) for path in layers)


def delete_data_folder(data: Path) -> None:
    """Delete a data folder and everything in it; refuse while a server or a devbox runs in it."""
    check_data_folder(data)
    with _lock(data):
        living = leaks.living(data)
        if living:
            many = "1 devbox runs" if len(living) == 1 else f"{len(living)} devboxes run"
            raise Conflict(
                f"{many} in {data}, nothing was deleted: start the server, end them with "
                "`benchyard devbox shutdown --all`, and stop the server again"
            )
        helpers = leaks.find_processes(data)
        if helpers:
            told = ", ".join(f"process {helper.name} ({helper.detail})" for helper in helpers)
            raise Conflict(f"{data} is still in use by {told}; nothing was deleted")
        _as_owner_of_everything(data)


@contextlib.contextmanager
def _lock(data: Path) -> Iterator[None]:
    """Keep servers from starting."""
    with (data / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(f"a server runs on {data}; stop it first with `benchyard server stop`") from error
        yield


def _as_owner_of_everything(data: Path) -> None:
    """Remove the folder in a child that is root over the ids of an ordinary user's devboxes."""
    namespace = None
    if os.getuid() != 0:
        with contextlib.suppress(OSError):  # a user without such ids has no files of theirs either
            namespace = ids.UserNamespaces().get(ids.ROOTLESS_RANGE, 0)
    said, say = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if namespace is not None:
                ids.enter(namespace, can_change_user=True)
            _remove(data)
            status = 0
        except OSError as error:
            os.write(say, f"{error.strerror}: {error.filename}".encode(errors="replace")[:_MOST_BYTES])
        finally:
            os._exit(status)
    os.close(say)
    if namespace is not None:
        os.close(namespace)
    with os.fdopen(said, "rb") as told:
        reason = told.read().decode(errors="replace")
    _pid, status = os.waitpid(pid, 0)
    if status != 0:
        raise DevboxError(f"{data} could not be deleted whole: {reason or 'the removal was interrupted'}")


def _remove(data: Path) -> None:
    for path in sorted(data.iterdir(), key=lambda each: each.name == _LOCK):
        # The lock goes last: as long as it is there, the folder is recognized as a data folder.
        remove_tree(str(path))
    try:
        data.rmdir()
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.EACCES):
            # A volume stays, and so does a folder in one that is not the user's: both are empty now.
            raise
