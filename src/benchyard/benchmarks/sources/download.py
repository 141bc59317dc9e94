"""One file over HTTP: resumed where it was cut, checked when it is whole, and only then under its name."""

import hashlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchyard.benchmarks.sources import asking
from benchyard.benchmarks.sources.asking import Answer, Hub, Interrupted
from benchyard.benchmarks.sources.base import Limits, Progress, SourceFile
from benchyard.benchmarks.sources.cache import beside
from benchyard.errors import DatasetError

_LONGEST_TAG = 1000
_RANGE = re.compile(r"bytes (?:(\d{1,18})-\d{1,18}|\*)/(\d{1,18}|\*)")


@dataclass(frozen=True)
class Wanted:
    """A file to fetch: where from, what is known of it, and where to."""

    url: str
    file: SourceFile
    target: Path
    partial: Path
    name: str
    """For people."""


def is_whole(file: SourceFile, path: Path) -> bool:
    """Whether a file is there, and is the one that was pinned."""
    if not path.is_file():
        return False
    if file.size is not None and path.stat().st_size != file.size:
        return False
    return file.sha256 is None or sha256(path) == file.sha256


def sha256(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Download:
    """Fetches one file."""

    def __init__(self, wanted: Wanted, hub: Hub, client: httpx.Client, limits: Limits) -> None:
        self._wanted = wanted
        self._hub = hub
        self._client = client
        self._limits = limits
        self._partial = _Partial(wanted.partial)
        self._deadline = time.monotonic() + limits.seconds

    def run(self, progress: Progress) -> None:
        """Fetch it, check it, and give it its name; raises DatasetError."""
        shown = _Shown(self._wanted.name, progress)
        try:
            known = asking.patiently(
                lambda: self._attempt(shown), self._partial.size, self._limits, self._wanted.name
            )
            self._check(known)
        finally:
            shown.end()
        self._wanted.target.parent.mkdir(parents=True, exist_ok=True)
        self._partial.become(self._wanted.target)

    def _attempt(self, shown: "_Shown") -> str | None:
        """Fetch what is missing; gives the checksum that the hub told."""
        have, tag = self._partial.size(), self._partial.tag()
        if have and tag is None:
            self._partial.remove()
            have = 0
        headers = {"Range": f"bytes={have}-"} if have else {}
        with asking.opened(self._client, self._hub, self._wanted.url, headers) as answer:
            start = self._start(answer, have, tag)
            if start is not None:
                total = self._total(answer, start)
                self._partial.begin(start, answer.tag)
                shown.begin(total)
                self._receive(answer, total, shown)
            return answer.sha256

    def _start(self, answer: Answer, have: int, tag: str | None) -> int | None:
        """Where the body begins in the file; None where nothing is missing any more."""
        status = answer.response.status_code
        if status == 200:
            return 0
        if status not in (206, 416) or not have:
            raise self._refused(status)
        found = _RANGE.fullmatch(answer.response.headers.get("Content-Range", ""))
        if found and answer.tag == tag:
            if status == 206 and found[1] == str(have):
                return have
            if status == 416 and found[2] == str(have):
                return None
        self._partial.remove()
        raise Interrupted("the file has changed since it was begun", wait=0)

    def _total(self, answer: Answer, start: int) -> int | None:
        coded = answer.response.headers.get("Content-Encoding", "identity")
        if coded != "identity":
            raise DatasetError(f"{self._wanted.name} comes as {coded[:20]!r}, which was not asked for")
        length = answer.response.headers.get("Content-Length", "")
        rest = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None
        total = answer.size if rest is None else start + rest
        if total is not None:
            self._check_size(total)
            if self._wanted.file.size not in (None, total):
                raise DatasetError(
                    f"{self._wanted.name} has {total} bytes there, and should have {self._wanted.file.size}; "
                    "it is not what was pinned"
                )
        return total or self._wanted.file.size

    def _receive(self, answer: Answer, total: int | None, shown: "_Shown") -> None:
        have = self._partial.size()
        shown.reach(have)
        with self._partial.path.open("ab") as file, asking.interruptible(str(answer.response.url)):
            for chunk in answer.response.iter_raw():
                have += len(chunk)
                self._check_size(have)
                if time.monotonic() > self._deadline:
                    raise DatasetError(
                        f"{self._wanted.name} was not whole after {self._limits.seconds:.0f} seconds; "
                        "try again: what is there already is kept"
                    )
                file.write(chunk)
                shown.reach(have)
            file.flush()
            os.fsync(file.fileno())
        if total is not None and have < total:
            raise Interrupted(f"it ended after {have} of {total} bytes")

    def _check_size(self, size: int) -> None:
        limit = self._limits.file_bytes if self._wanted.file.size is None else self._wanted.file.size
        if size > limit:
            self._partial.remove()
            raise DatasetError(f"{self._wanted.name} is larger than {limit} bytes, and is not taken")

    def _check(self, told: str | None) -> None:
        """Compare what is there with what was pinned, or else with what the hub says it is."""
        size, pinned = self._partial.size(), self._wanted.file
        if pinned.size is not None and size != pinned.size:
            self._partial.remove()
            raise DatasetError(f"{self._wanted.name} has {size} bytes, and should have {pinned.size}")
        expected = pinned.sha256 or told
        if expected is None:
            return
        found = sha256(self._partial.path)
        if found != expected:
            self._partial.remove()
            raise DatasetError(
                f"{self._wanted.name} has the checksum {found}, and should have {expected}: it was damaged "
                "on the way, or is not what was pinned. It was removed; try again, or give a good copy "
                "with --from"
            )

    def _refused(self, status: int) -> DatasetError:
        if status in (401, 403):
            return DatasetError(
                f"{self._wanted.name}: the hub wants to know who asks ({status})", status=status
            )
        if status == 404:
            return DatasetError(f"{self._wanted.name} is not there (404)", status=status)
        return DatasetError(f"{self._wanted.name}: the hub answered {status}", status=status)


class _Partial:
    """A file that is not whole yet, and the tag of what it is a part of."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tag = beside(path, ".etag")

    def size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def tag(self) -> str | None:
        return self._tag.read_text(errors="replace") or None if self._tag.is_file() else None

    def begin(self, start: int, tag: str | None) -> None:
        """Keep the first bytes, and note whose they are."""
        if start:
            return
        self.remove()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if tag is not None and len(tag) <= _LONGEST_TAG:
            self._tag.write_text(tag)
        self.path.touch()

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self._tag.unlink(missing_ok=True)

    def become(self, target: Path) -> None:
        self.path.replace(target)
        self._tag.unlink(missing_ok=True)


class _Shown:
    """Tells progress once what begins, and then by how much it grew."""

    def __init__(self, name: str, progress: Progress) -> None:
        self._name = name
        self._progress = progress
        self._begun = False
        self._at = 0

    def begin(self, total: int | None) -> None:
        if not self._begun:
            self._begun = True
            self._progress.started(self._name, total)

    def reach(self, position: int) -> None:
        if position != self._at:
            self._progress.advanced(position - self._at)
            self._at = position

    def end(self) -> None:
        if self._begun:
            self._progress.done()
