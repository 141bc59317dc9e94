"""The folder that fetched data is kept in, shared by every process of a user.

<cache>/hub/<owner>--<name>/<commit>/<path>      a file that is complete and checked
<cache>/hub/<owner>--<name>/<commit>.partial/    files being fetched, by the holder of the lock
<cache>/hub/<owner>--<name>/refs.json            branch or tag -> the commit it was the last time
<cache>/git/<name>-<digest of the url>/<commit>/<all, or a digest of the paths>/
"""

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from benchyard.benchmarks.sources.base import FetchProgress, is_commit
from benchyard.errors import DatasetError

_MOST_NOTE_BYTES = 1024**2


@contextlib.contextmanager
def lock(target: Path, what: str, progress: FetchProgress) -> Iterator[None]:
    """Hold the lock beside a target, after waiting for its holder; raises DatasetError for disk errors."""
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path_beside(target, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _wait(descriptor, what, progress)
            yield
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn errors of the operating system under a folder into a DatasetError with the remedy."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        where = error.filename or folder
        raise DatasetError(
            f"{where}: {error.strerror or error}; {'free space there' if full else 'check that path'}, or "
            "name another folder with BENCHYARD_DATASETS"
        ) from error


def path_beside(target: Path, ending: str) -> Path:
    """Return the path beside a target with the same name and this ending."""
    return target.with_name(target.name + ending)


def last_commit(folder: Path, revision: str) -> str | None:
    """Return the commit that a branch or tag was the last time it was looked up."""
    commit = _refs(folder).get(revision)
    return commit if isinstance(commit, str) and is_commit(commit) else None


def note_commit(folder: Path, revision: str, commit: str) -> None:
    """Store the commit of a branch or tag, for use when the source cannot be reached."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / f"refs.json.{os.getpid()}"
        new.write_text(json.dumps({**_refs(folder), revision: commit}))
        new.replace(folder / "refs.json")


def _refs(folder: Path) -> dict[str, object]:
    path = folder / "refs.json"
    try:
        refs = json.loads(path.read_bytes()[:_MOST_NOTE_BYTES])
    except (OSError, ValueError):
        # A missing or damaged file: the branch or tag is looked up again.
        return {}
    return refs if isinstance(refs, dict) else {}


def _wait(descriptor: int, what: str, progress: FetchProgress) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        progress.started(f"waiting for another process that fetches {what}", None)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        finally:
            progress.done()
