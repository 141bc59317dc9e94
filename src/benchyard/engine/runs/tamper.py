"""The tamper report: what was done to a devbox beside the work itself."""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchyard.engine.boot import SCORING_KIND
from benchyard.engine.tools import Tools
from benchyard.errors import BenchyardError, Conflict, NotFound
from benchyard.hosts.changes import Change, Changes
from benchyard.models.tampering import ChangedFile, LeftProcess, TamperReport

MOST_SHOWN = 1000
MOST_PROCESSES = 200
MOST_WATCHED = 10_000
_SETS_ID = 0o6000


@dataclass
class Findings:
    """What was found out so far; what could not be is named in `notes`."""

    changes: Changes | None = None
    outside: Changes | None = None
    """What lies outside of where the work belonged, where all together is too much to be listed."""
    processes: list[LeftProcess] | None = None
    opened: set[str] | None = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    async def look_at_disk(self, tools: Tools, devbox_id: str, inside: str) -> None:
        """Look at the disk of a devbox that is graded as it is."""
        try:
            self.changes = await tools.host.rooms.changed(devbox_id)
            await self._look_outside(tools, devbox_id, inside)
        except BenchyardError as error:
            self.notes.append(f"what was changed is unknown: {error.message}")

    async def _look_outside(self, tools: Tools, devbox_id: str, inside: str) -> None:
        """A flood where the work belongs must not hide what was done elsewhere."""
        if self.changes is not None and self.changes.truncated:
            self.outside = await tools.host.rooms.changed(devbox_id, (inside,))

    async def freeze(self, tools: Tools, devbox_id: str, image_id: str, inside: str) -> None:
        """Freeze the disk of a devbox as an image, and note what was changed on it until that very moment."""
        try:
            await tools.images.get(image_id)
        except NotFound:
            pass
        else:
            self.notes.append(
                "what was changed is told as of a moment after the disk was frozen: the server restarted"
            )
            return await self.look_at_disk(tools, devbox_id, inside)
        try:
            self.changes = await tools.host.rooms.freeze(devbox_id, image_id, SCORING_KIND)
            await self._look_outside(tools, devbox_id, inside)
        except Conflict as error:
            self.notes.append(f"what was changed is unknown: {error.message}")
            await tools.host.snapshot(devbox_id, image_id, SCORING_KIND)

    async def look_at_processes(self, tools: Tools, devbox_id: str, *, is_running: bool) -> None:
        """Look at what runs, before the disk is looked at: who changes it after that is known."""
        if not is_running:
            self.processes = []
            return
        try:
            found = await tools.host.rooms.processes(devbox_id)
        except BenchyardError as error:
            self.notes.append(f"which processes were left is unknown: {error.message}")
            return
        self.processes = [
            LeftProcess(pid=each.pid, user=each.user, command=each.command) for each in found[:MOST_PROCESSES]
        ]

    def watched(self) -> list[str] | None:
        """The changed files whose opening is worth to know; None where they are unknown or too many."""
        if self.changes is None or self.changes.truncated:
            return None
        files = [each.path for each in self.changes.changes if each.type == "file" and each.kind != "deleted"]
        return files if len(files) <= MOST_WATCHED else None

    def saw(self, opened: Sequence[str] | None) -> None:
        """Note what one scorer opened; what is unknown once stays unknown."""
        self.opened = None if opened is None or self.opened is None else self.opened.union(opened)

    def report(self, inside: str) -> TamperReport:
        """The report, for work that belonged `inside` that directory."""
        notes = list(self.notes)
        if self.opened is None:
            notes.append("which changed files the scorers opened is unknown here")
        found = self._outside(inside)
        total = None if self.changes is None else self.changes.total
        outside_total = None if found is None else found[1]
        if self.changes is not None and self.changes.truncated:
            seen = len(self.changes.changes)
            notes.append(
                f"{total} paths were changed; inside the working directory only {seen} were looked at"
            )
        if self.outside is not None and self.outside.truncated:
            notes.append(f"only the first {len(self.outside.changes)} paths outside are looked at")
        return TamperReport(
            changed_outside=None if found is None else found[0],
            changed_outside_total=outside_total,
            changed_inside_total=None if total is None or outside_total is None else total - outside_total,
            special_inside=self._special(inside),
            processes=self.processes,
            opened_by_scorers=None if self.opened is None else sorted(self.opened)[:MOST_SHOWN],
            refused=self.refused[:MOST_SHOWN],
            notes=notes,
        )

    def _outside(self, inside: str) -> tuple[list[ChangedFile], int] | None:
        """The changes outside of a folder, and how many there are of them."""
        if self.changes is None:
            return None
        if self.outside is not None:
            found, total = list(self.outside.changes), self.outside.total
        else:
            found = [each for each in self.changes.changes if not is_inside(each.path, inside)]
            total = len(found)
        return [_shown(each) for each in found[:MOST_SHOWN]], total

    def _special(self, inside: str) -> list[ChangedFile] | None:
        """Changes inside of a folder that are more than files."""
        if self.changes is None:
            return None
        found = [each for each in self.changes.changes if _is_special(each, inside)]
        return [_shown(each) for each in found[:MOST_SHOWN]]


def _shown(change: Change) -> ChangedFile:
    return ChangedFile(
        path=change.path, kind=change.kind, type=change.type, mode=change.mode, size=change.size
    )


def _is_special(change: Change, folder: str) -> bool:
    """Whether it lies in that folder and is more than a file: whoever opens it may reach something else."""
    is_plain = change.type in ("file", "folder") and not change.mode & _SETS_ID
    return change.kind != "deleted" and not is_plain and is_inside(change.path, folder)


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is that folder or below it."""
    folder = posixpath.normpath(folder)
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
