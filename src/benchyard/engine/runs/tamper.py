"""Tamper report: changes to a devbox beside the work itself."""

import asyncio
import contextlib
import posixpath
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from benchyard.agents.base import PROMPT_FILE
from benchyard.devboxes.layers.path_weight import is_needed, is_of_system, weight
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.boot import SCORING_KIND
from benchyard.engine.runs import repository_settings
from benchyard.errors import BenchyardError, Conflict, NotFound
from benchyard.hosts import executions
from benchyard.hosts.grading import CarriedAnswer, DiskChange, DiskChanges
from benchyard.models.runs import ChangedFile, LeftProcess, TamperReport

MOST_SHOWN = 1000
MOST_PROCESSES = 5000
MOST_WATCHED = 6000
"""Most watched files: each may cause two events, and the kernel's queue holds 16,384, so it never overflows.

Folders that links lead to are watched beside these (`opens.MOST_FOLDERS`).
"""
NO_NETWORK_NOTE = (
    "a program looked a name up or called an address outside, and the devbox had no network: if the work "
    "needs it, give the scenario a network policy"
)
_MOST_ASIDE = 16
_SETS_ID = 0o6000
_MADE_BY_PYTHON = "/__pycache__/"

T = TypeVar("T")


@dataclass(frozen=True)
class WorkPaths:
    """Paths that are the work itself, and paths that scorers get as the work left them."""

    folders: tuple[str, ...]
    carried: tuple[str, ...] | None = None
    """None if that is the whole disk."""
    home: str | None = None
    """Home, where programs read hidden files by themselves: these are no work, except a repository's own."""

    def is_hidden(self, path: str) -> bool:
        """Tell whether a path is a hidden file of the home, or below one."""
        home = self._own_home
        if home is None or not (path == home or path.startswith(f"{home.rstrip('/')}/")):
            return False
        first = path.removeprefix(home).strip("/").partition("/")[0]
        return first.startswith(".") and first != repository_settings.REPOSITORY

    @cached_property
    def _own_home(self) -> str | None:
        return None if self.home is None else posixpath.normpath(self.home)

    def has(self, path: str) -> bool:
        """Tell whether a path is part of the work; folders of the system are not, if the work is above them.

        Files that git runs or obeys by itself are not either, unless a folder in the repository is named.
        """
        # Cached: called several times for each changed path.
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = self._has(path)
        return known

    @cached_property
    def _known(self) -> dict[str, bool]:
        return {}

    def _has(self, path: str) -> bool:
        if repository_settings.is_obeyed(path):
            return any(
                f"/{repository_settings.REPOSITORY}/" in folder and is_inside(path, folder)
                for folder in self.folders
            )
        if self.is_hidden(path):
            home = self._own_home or "/"
            own = [folder for folder in self.folders if is_inside(folder, home) and folder != home]
            return any(is_inside(path, folder) for folder in own)
        return any(
            (path == place or path.startswith(below)) and (is_system or not is_of_system(path))
            for place, below, is_system in self._places
        )

    @cached_property
    def _places(self) -> tuple[tuple[str, str, bool], ...]:
        """Return each folder, the prefix of paths below it, and whether it is one of the system's."""
        places = (posixpath.normpath(folder) for folder in self.folders)
        return tuple((place, f"{place.rstrip('/')}/", is_of_system(place)) for place in places)

    @property
    def aside(self) -> tuple[str, ...]:
        """Return folders with nothing but the work, as many as a list of changes can leave out."""
        return tuple(folder for folder in self.folders if posixpath.normpath(folder) != "/")[:_MOST_ASIDE]

    def carries(self, path: str) -> bool:
        """Tell whether scorers get a path as the work left it."""
        return self.carried is None or any(is_inside(path, folder) for folder in self.carried)


@dataclass
class TamperFindings:
    """Findings so far about effects beside the work."""

    work: WorkPaths
    changes: DiskChanges | None = None
    outside: DiskChanges | None = None
    """Changes outside of the work, if all together are too many to be listed."""
    processes: list[LeftProcess] | None = None
    processes_total: int = 0
    carried: CarriedAnswer | None = None
    """Graded part of the disk; None if that is the whole disk."""
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    changed_while_scored: list[str] = field(default_factory=list)
    suspicions: list[str] = field(default_factory=list)
    """Findings of the scoring itself that speak against the score."""
    why_unknown: list[str] = field(default_factory=list)
    _look: asyncio.Task[None] | None = None
    _opened: set[str] | None = None
    """None until the first scorer is done."""
    _unwatched: set[str] = field(default_factory=set)
    _no_work: set[str] = field(default_factory=set)
    """Paths among the work by which git behaves in another way, as no work needs."""
    _is_blind: bool = False
    """True if the files opened by some scorer are unknown."""

    async def look_at_disk(self, tools: EngineContext, devbox_id: str) -> None:
        """Examine the disk of a devbox that is graded as it is."""
        try:
            self.changes = await tools.host.rooms.changes_since_mark(devbox_id)
            await self._look_outside(tools, devbox_id)
        except BenchyardError as error:
            self.why_unknown.append(f"what was changed is not known: {error.message}")

    async def _look_outside(self, tools: EngineContext, devbox_id: str) -> None:
        """Examine the disk again without the work: many changes there must not hide others."""
        if self.changes is not None and self.changes.truncated:
            self.outside = await tools.host.rooms.changes_since_mark(devbox_id, self.work.aside)

    @contextlib.asynccontextmanager
    async def watch_disk(self, tools: EngineContext, devbox_id: str) -> AsyncIterator[None]:
        """Note changes to the system, and to files that programs read by themselves, within this context.

        A process left by the agent can wait until the disk has been examined.
        """
        unknown = "what was changed while it was scored is not known"
        async with contextlib.AsyncExitStack() as stack:
            try:
                look = await stack.enter_async_context(tools.host.rooms.watch_disk(devbox_id))
            except BenchyardError as error:
                self.why_unknown.append(f"{unknown}: {error.message}")
                look = None
            yield
            try:
                found = await look() if look else None
            except BenchyardError as error:
                self.why_unknown.append(f"{unknown}: {error.message}")
                found = None
        if found is None:
            return
        self.changed_while_scored = await asyncio.to_thread(self._late, found)
        if found.truncated:
            self.why_unknown.append("more was changed while it was scored than can be listed")

    def _late(self, found: DiskChanges) -> list[str]:
        """Return the paths that change the behaviour of programs if they change during a scoring."""
        late = [
            change
            for change in found.changes
            # The content of a new folder is listed itself.
            if (change.type != "folder" or change.kind != "added") and _MADE_BY_PYTHON not in change.path
            if not self.work.has(change.path)
            if is_of_system(change.path)
            or self.work.is_hidden(change.path)
            or repository_settings.is_obeyed(change.path)
        ]
        return [each.path for each in sorted(late, key=_weight)][:MOST_SHOWN]

    async def freeze(self, tools: EngineContext, devbox_id: str, image_id: str) -> None:
        """Freeze the disk of a devbox as an image, and note its changes up to that moment."""
        try:
            await tools.images.get(image_id)
        except NotFound:
            pass
        else:
            self.notes.append(
                "what was changed is told as of a moment after the disk was frozen: the server restarted"
            )
            return await self.look_at_disk(tools, devbox_id)
        try:
            self.changes = await tools.host.rooms.freeze(devbox_id, image_id, SCORING_KIND)
            await self._look_outside(tools, devbox_id)
        except Conflict as error:
            self.why_unknown.append(f"what was changed is not known: {error.message}")
            await tools.host.snapshot(devbox_id, image_id, SCORING_KIND)

    async def take(self, tools: EngineContext, devbox_id: str, image_id: str) -> bool:
        """Make an image of a stopped devbox's disk; returns False if `look_at_taken` cannot examine it."""
        try:
            await tools.host.rooms.take(devbox_id, image_id, SCORING_KIND)
            return True
        except Conflict as error:
            self.why_unknown.append(f"what was changed is not known: {error.message}")
            await tools.host.snapshot(devbox_id, image_id, SCORING_KIND)
            return False

    async def look_at_taken(self, tools: EngineContext, devbox_id: str, image_id: str) -> None:
        """Note the changes on a taken disk, which no process can change any more."""
        rooms = tools.host.rooms
        try:
            self.changes = await rooms.changes_of_taken_disk(devbox_id, image_id, counted=self.work.aside)
            self.outside = self.changes.outside
        except Conflict as error:
            self.why_unknown.append(f"what was changed is not known: {error.message}")

    def begin(self, look: Coroutine[Any, Any, None]) -> None:
        """Examine the disk in parallel with other work; `looked` waits for the end."""
        self._look = asyncio.ensure_future(look)

    async def looked(self) -> None:
        """Wait until the disk has been examined; raises the error that prevented it."""
        if self._look is not None:
            await asyncio.shield(self._look)

    async def end(self) -> None:
        """Stop examining the disk."""
        if self._look is not None:
            self._look.cancel()
            await asyncio.wait([self._look])
            if not self._look.cancelled():
                # Read, so that asyncio does not report it as never retrieved.
                self._look.exception()

    def recall(self, report: TamperReport | None) -> None:
        """Use the findings made while the devbox existed, to score its final state."""
        if report is None or report.changed_outside is None or report.changed_outside_total is None:
            self.why_unknown.append("what was changed is not known: it was not found out when it was scored")
            return
        found = tuple(
            DiskChange(each.path, each.kind, each.type, each.mode or 0, each.size or 0, each.lost)
            for each in report.changed_outside
        )
        self.notes += [note for note in report.notes if note == NO_NETWORK_NOTE]
        total = report.changed_outside_total
        self.changes = self.outside = DiskChanges(found, total, total > len(found), exact=True)

    async def look_at_processes(self, tools: EngineContext, devbox_id: str, *, is_running: bool) -> None:
        """Note the running processes before the disk is examined: any that changes it later is known."""
        if not is_running:
            self.processes = []
            return
        try:
            found = await tools.host.rooms.processes(devbox_id)
        except BenchyardError as error:
            self.notes.append(f"which processes were left is not known: {error.message}")
            return
        self.processes = [LeftProcess(pid=each.pid, user=each.user, command=each.command) for each in found]
        self.processes_total = found.total

    async def look_at_network(self, tools: EngineContext, devbox_id: str) -> None:
        """Note whether programs tried to leave a devbox without a network: the work may lack files."""
        hints = {execution.hint for execution in await tools.host.executions(devbox_id)}
        if hints & {executions.NO_NETWORK, executions.REACHED_OUT}:
            self.notes.append(NO_NETWORK_NOTE)

    def _is_graded(self, path: str) -> bool:
        """Tell whether scorers get a path as the work left it, and not as it was at the start."""
        return self.carried.has(path) if self.carried else self.work.carries(path)

    def settings_to_read(self) -> list[str]:
        """Return the changed settings of repositories that scorers get as the work left them."""
        return [
            each.path
            for each in self._all()
            if repository_settings.is_to_be_read(each.path)
            if each.kind != "deleted" and self._is_graded(each.path) and self.work.has(each.path)
        ]

    def note_settings(self, path: str) -> None:
        """Note settings of a repository that change how git behaves: they are no part of the work."""
        self._no_work.add(path)

    def _is_work(self, change: DiskChange) -> bool:
        return (
            self.work.has(change.path)
            and change.path not in self._no_work
            and not repository_settings.is_replaced(change.path, change.kind, change.type)
        )

    def watched(self) -> list[str]:
        """Return the changed files to watch for being opened, the weightiest first."""
        found = [each for each in self._all() if _can_be_opened(each) and self._is_graded(each.path)]
        found.sort(key=lambda each: (self._is_work(each), _weight(each), each.path))
        paths = list(dict.fromkeys(each.path for each in found))
        self._unwatched.update(paths[MOST_WATCHED:])
        return paths[:MOST_WATCHED]

    def saw(self, opened: Sequence[str] | None, unwatched: Iterable[str] = ()) -> None:
        """Note the files that one scorer opened, and those for which that is unknown."""
        if opened is None:
            self._is_blind = True
            return
        self._opened = (self._opened or set()).union(opened)
        self._unwatched.update(unwatched)

    def put_below(self, paths: Sequence[str]) -> None:
        """Note changed folders and links outside of the work that contained these files of scorers.

        The owner of a folder can replace a file in it while the answer runs.
        """
        ways = {
            each.path
            for each in self._all()
            if each.type in ("folder", "link") and each.kind != "deleted" and not self._is_work(each)
            if any(is_inside(path, each.path) for path in paths)
        }
        if ways and not self._is_blind:
            self._opened = (self._opened or set()) | ways

    def report(self) -> TamperReport:
        """Return the report of all findings."""
        notes, opened = list(self.notes), self._opened or set()
        outside = self._outside()
        special = None if self.changes is None else [each for each in self._all() if self._is_special(each)]
        total = None if self.changes is None else self.changes.total
        outside_total = self._outside_total()
        if self.changes is not None and self.changes.truncated and self.changes is not self.outside:
            seen = len(self.changes.changes)
            notes.append(f"{total} paths were changed; inside of the work only {seen} were looked at")
        if self._is_blind:
            notes.append("which changed files the scorers opened is not known here")
        is_known = self._opened is not None
        unwatched = self._unwatched_outside(outside or [])
        unknown = self._unknown(outside)
        return TamperReport(
            changed_outside=self._weightiest(outside, "changed_outside", outside_total, notes),
            changed_outside_total=outside_total,
            opened_outside_total=sum(each.path in opened for each in outside or ()) if is_known else None,
            changed_inside_total=None if total is None or outside_total is None else total - outside_total,
            special_inside=self._weightiest(special, "special_inside", None, notes),
            special_inside_total=None if special is None else len(special),
            processes=self.processes
            and _first(self.processes, "processes", MOST_PROCESSES, notes, self.processes_total),
            processes_total=None if self.processes is None else self.processes_total,
            opened_by_scorers=self._weightiest_opened(notes) if is_known else None,
            opened_by_scorers_total=len(opened) if is_known else None,
            refused=_first(self.refused, "refused", MOST_SHOWN, notes),
            refused_total=len(self.refused),
            unwatched_outside=_first(unwatched, "unwatched_outside", MOST_SHOWN, notes),
            unwatched_outside_total=len(unwatched),
            changed_while_scored=self.changed_while_scored,
            unknown=unknown,
            notes=notes,
        )

    def _all(self) -> list[DiskChange]:
        """Return all known changes, each once."""
        found = {change.path: change for change in self.changes.changes} if self.changes else {}
        found |= {change.path: change for change in self.outside.changes} if self.outside else {}
        return list(found.values())

    def _outside(self) -> list[DiskChange] | None:
        """Return the known changes outside of the work."""
        if self.changes is None:
            return None
        opened = self._opened or set()
        return [
            each
            for each in self._all()
            if not self._is_work(each)
            # Written by the engine itself in later rounds.
            if each.path != PROMPT_FILE or each.path in opened
        ]

    def _outside_total(self) -> int | None:
        outside = self._outside()
        if self.outside is not None and len(self.work.aside) == len(self.work.folders):
            return max(self.outside.total, len(outside or ()))
        return None if outside is None else len(outside)

    def _is_special(self, change: DiskChange) -> bool:
        """Tell whether a path of the work is special: its opening may lead to something else."""
        is_plain = change.type in ("file", "folder") and not change.mode & _SETS_ID
        return change.kind != "deleted" and not is_plain and self.work.has(change.path)

    def _weightiest(
        self, found: list[DiskChange] | None, name: str, total: int | None, notes: list[str]
    ) -> list[ChangedFile] | None:
        """Return the weightiest of these changes, as a report shows them."""
        if found is None:
            return None
        opened = self._opened or set()
        ordered = sorted(
            found,
            key=lambda each: (each.path not in opened, not _is_missed(each), _weight(each), each.path),
        )
        return [
            ChangedFile(
                path=each.path,
                kind=each.kind,
                type=each.type,
                mode=each.mode,
                size=each.size,
                opened=each.path in opened,
                lost=each.is_lost,
            )
            for each in _first(ordered, name, MOST_SHOWN, notes, total)
        ]

    def _weightiest_opened(self, notes: list[str]) -> list[str]:
        """Return the opened files: those outside of the work first, each part in the order of weight."""
        known = {each.path: each for each in self._all()}
        ordered = sorted(
            self._opened or (),
            key=lambda path: (
                self._is_work(known[path]) if path in known else self.work.has(path),
                _weight(known[path]) if path in known else 0,
                path,
            ),
        )
        return _first(ordered, "opened_by_scorers", MOST_SHOWN, notes)

    def _unwatched_outside(self, outside: list[DiskChange]) -> list[str]:
        """Return the files outside of the work that scorers may have opened unseen, the weightiest first."""
        opened = self._opened or set()
        found = [
            each
            for each in outside
            if _can_be_opened(each) and self._is_graded(each.path) and each.path not in opened
            if self._is_blind or each.path in self._unwatched
        ]
        return [each.path for each in sorted(found, key=lambda each: (_weight(each), each.path))]

    def _unknown(self, outside: list[DiskChange] | None) -> list[str]:
        """Return the gaps in the findings about a disk that scorers get as the work left it."""
        if self.work.carried is not None:
            return []
        found = list(self.why_unknown)
        is_cut = self.outside.truncated if self.outside else bool(self.changes and self.changes.truncated)
        if is_cut:
            more = max(1, (self._outside_total() or 0) - len(outside or ()))
            found.append(f"{more} more paths were changed outside of the work than can be listed and watched")
        return found


def _weight(change: DiskChange) -> int:
    return weight(change.path, change.kind, change.type, change.mode)


def _is_missed(change: DiskChange) -> bool:
    """Tell whether programs may not run, or fail, because a path is lost."""
    return change.is_lost and is_needed(change.path)


def _can_be_opened(change: DiskChange) -> bool:
    return change.kind != "deleted" and change.type != "folder"


def _first(found: Sequence[T], name: str, most: int, notes: list[str], total: int | None = None) -> list[T]:
    """Return the first of a list, with a note if there are more."""
    if (total or len(found)) > min(most, len(found)):
        notes.append(f"{name}: the first {min(most, len(found))} of {total or len(found)} are listed")
    return list(found[:most])


def is_inside(path: str, folder: str) -> bool:
    """Tell whether a path is that folder or below it."""
    folder = posixpath.normpath(folder)
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
