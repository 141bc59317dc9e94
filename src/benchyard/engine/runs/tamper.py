"""The tamper report: what was done to a devbox beside the work itself."""

import asyncio
import contextlib
import posixpath
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from benchyard.agents.base import PROMPT_FILE
from benchyard.devboxes.layers.path_weight import is_of_system, weight
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.boot import SCORING_KIND
from benchyard.errors import BenchyardError, Conflict, NotFound
from benchyard.hosts import executions
from benchyard.hosts.grading import CarriedAnswer, DiskChange, DiskChanges
from benchyard.models.runs import ChangedFile, LeftProcess, TamperReport

MOST_SHOWN = 1000
MOST_PROCESSES = 5000
MOST_WATCHED = 6000
"""Each watch tells twice, and the kernel keeps 16,384 events: it never has more to tell than it can.

Folders that links lead to are watched beside these (`opens.MOST_FOLDERS`).
"""
NO_NETWORK_NOTE = (
    "a program looked a name up or called an address outside, and the devbox had no network: if the work "
    "needs it, give the scenario a network policy"
)
_MOST_ASIDE = 16
_SETS_ID = 0o6000
_REPOSITORY = ".git"
_HOOKS = "hooks/"
_BY_GIT_ITSELF = frozenset({"info/attributes", "objects/info/alternates", "info/grafts"})
"""Of a repository: what git goes by without being told, and what no work needs; hooks are such too."""
_MADE_BY_PYTHON = "/__pycache__/"

T = TypeVar("T")


def _is_for_git(path: str) -> bool:
    """Whether git runs a file, or goes by it, whenever it is called: a scorer may call it."""
    _, is_found, inner = path.partition(f"/{_REPOSITORY}/")
    if not is_found:
        return False
    if inner.startswith("modules/"):
        inner = inner[max(inner.rfind(f"/{_HOOKS}"), inner.rfind("/info/"), 0) + 1 :]
    is_hook = inner.startswith(_HOOKS) and not inner.endswith(".sample")
    return is_hook or inner in _BY_GIT_ITSELF


@dataclass(frozen=True)
class WorkPaths:
    """Which paths are the work itself, and which of all paths scorers get as it left them."""

    folders: tuple[str, ...]
    carried: tuple[str, ...] | None = None
    """None where all of the disk is."""
    home: str | None = None
    """Where programs read hidden files by themselves: these are no work, but for a repository's own."""

    def is_hidden(self, path: str) -> bool:
        """Whether a path lies in what is hidden of the home."""
        home = self._own_home
        if home is None or not (path == home or path.startswith(f"{home.rstrip('/')}/")):
            return False
        first = path.removeprefix(home).strip("/").partition("/")[0]
        return first.startswith(".") and first != _REPOSITORY

    @cached_property
    def _own_home(self) -> str | None:
        return None if self.home is None else posixpath.normpath(self.home)

    def has(self, path: str) -> bool:
        """Whether a path is part of the work; the system's folders are not where it lies above them.

        What git runs or goes by without being told is none, in a repository that is.
        """
        # Asked of each changed path several times.
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = self._has(path)
        return known

    @cached_property
    def _known(self) -> dict[str, bool]:
        return {}

    def _has(self, path: str) -> bool:
        if _is_for_git(path):
            return any(
                _REPOSITORY in folder.split("/") and is_inside(path, folder) for folder in self.folders
            )
        if self.is_hidden(path):
            home = self._own_home or "/"
            own = [each for each in self.folders if is_inside(each, home) and each != home]
            return any(is_inside(path, folder) for folder in own)
        return any(
            (path == place or path.startswith(below)) and (is_system or not is_of_system(path))
            for place, below, is_system in self._places
        )

    @cached_property
    def _places(self) -> tuple[tuple[str, str, bool], ...]:
        """Each folder, what paths below it begin with, and whether it is one of the system's."""
        places = (posixpath.normpath(folder) for folder in self.folders)
        return tuple((place, f"{place.rstrip('/')}/", is_of_system(place)) for place in places)

    @property
    def aside(self) -> tuple[str, ...]:
        """The folders in which nothing but the work lies, as many as can be left out of a list of changes."""
        return tuple(each for each in self.folders if posixpath.normpath(each) != "/")[:_MOST_ASIDE]

    def carries(self, path: str) -> bool:
        """Whether scorers get a path as the work left it."""
        return self.carried is None or any(is_inside(path, folder) for folder in self.carried)


@dataclass
class TamperFindings:
    """What was found out so far about what was done beside the work."""

    work: WorkPaths
    changes: DiskChanges | None = None
    outside: DiskChanges | None = None
    """What lies outside of the work, where all together is too much to be listed."""
    processes: list[LeftProcess] | None = None
    processes_total: int = 0
    carried: CarriedAnswer | None = None
    """What of the disk is graded; None where all of it is."""
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    changed_while_scored: list[str] = field(default_factory=list)
    suspicions: list[str] = field(default_factory=list)
    """What the scoring itself found that speaks against the score."""
    why_unknown: list[str] = field(default_factory=list)
    _look: asyncio.Task[None] | None = None
    _opened: set[str] | None = None
    """None until the first scorer is done."""
    _unwatched: set[str] = field(default_factory=set)
    _is_blind: bool = False
    """Whether it is not known of a scorer what it opened."""

    async def look_at_disk(self, tools: EngineContext, devbox_id: str) -> None:
        """Look at the disk of a devbox that is graded as it is."""
        try:
            self.changes = await tools.host.rooms.changed(devbox_id)
            await self._look_outside(tools, devbox_id)
        except BenchyardError as error:
            self.why_unknown.append(f"what was changed is not known: {error.message}")

    async def _look_outside(self, tools: EngineContext, devbox_id: str) -> None:
        """Look once more without the work: a flood there must not hide what was done elsewhere."""
        if self.changes is not None and self.changes.truncated:
            self.outside = await tools.host.rooms.changed(devbox_id, self.work.aside)

    @contextlib.asynccontextmanager
    async def watch_disk(self, tools: EngineContext, devbox_id: str) -> AsyncIterator[None]:
        """Note what is changed of the system, and of what programs read by themselves, while a block lasts.

        Whoever was left running can wait until the disk was looked at.
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
        if found is not None:
            self._note_late(found)

    def _note_late(self, found: DiskChanges) -> None:
        late = [
            each
            for each in found.changes
            if each.type != "folder" and _MADE_BY_PYTHON not in each.path and not self.work.has(each.path)
            if is_of_system(each.path) or self.work.is_hidden(each.path)
        ]
        self.changed_while_scored = [each.path for each in sorted(late, key=_weight)][:MOST_SHOWN]
        if found.truncated:
            self.why_unknown.append("more was changed while it was scored than can be listed")

    async def freeze(self, tools: EngineContext, devbox_id: str, image_id: str) -> None:
        """Freeze the disk of a devbox as an image, and note what was changed on it until that very moment."""
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
        """Make the disk of a stopped devbox an image; False where `look_at_taken` cannot look at it."""
        try:
            await tools.host.rooms.take(devbox_id, image_id, SCORING_KIND)
            return True
        except Conflict as error:
            self.why_unknown.append(f"what was changed is not known: {error.message}")
            await tools.host.snapshot(devbox_id, image_id, SCORING_KIND)
            return False

    async def look_at_taken(self, tools: EngineContext, devbox_id: str, image_id: str) -> None:
        """Note what was changed on a disk that was taken, which nobody changes any more."""
        rooms = tools.host.rooms
        try:
            self.changes = await rooms.taken(devbox_id, image_id, counted=self.work.aside)
            if self.changes.truncated:
                self.outside = await rooms.taken(devbox_id, image_id, aside=self.work.aside)
        except Conflict as error:
            self.why_unknown.append(f"what was changed is not known: {error.message}")

    def begin(self, look: Coroutine[Any, Any, None]) -> None:
        """Have the disk looked at beside other work; what is found is known after `looked`."""
        self._look = asyncio.ensure_future(look)

    async def looked(self) -> None:
        """Wait until the disk was looked at; raises what kept it from being."""
        if self._look is not None:
            await asyncio.shield(self._look)

    async def end(self) -> None:
        """Do not go on looking at the disk."""
        if self._look is not None:
            self._look.cancel()
            await asyncio.wait([self._look])
            if not self._look.cancelled():
                # Read, so that nobody complains that it was not.
                self._look.exception()

    def recall(self, report: TamperReport | None) -> None:
        """Take over what was found when the devbox was there, to score what is kept of it."""
        if report is None or report.changed_outside is None or report.changed_outside_total is None:
            self.why_unknown.append("what was changed is not known: it was not found out when it was scored")
            return
        found = tuple(
            DiskChange(each.path, each.kind, each.type, each.mode or 0, each.size or 0)
            for each in report.changed_outside
        )
        self.notes += [note for note in report.notes if note == NO_NETWORK_NOTE]
        total = report.changed_outside_total
        self.changes = self.outside = DiskChanges(found, total, total > len(found), exact=True)

    async def look_at_processes(self, tools: EngineContext, devbox_id: str, *, is_running: bool) -> None:
        """Look at what runs, before the disk is looked at: who changes it after that is known."""
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
        """Note it if programs tried to leave a devbox without a network: something may be missing."""
        told = {each.hint for each in await tools.host.executions(devbox_id)}
        if told & {executions.NO_NETWORK, executions.REACHED_OUT}:
            self.notes.append(NO_NETWORK_NOTE)

    def _is_graded(self, path: str) -> bool:
        """Whether scorers get a path as the work left it, and not as it was at the start."""
        return self.carried.has(path) if self.carried else self.work.carries(path)

    def watched(self) -> list[str]:
        """The changed files whose opening is worth to know, the weightiest first."""
        found = [each for each in self._all() if _can_be_opened(each) and self._is_graded(each.path)]
        found.sort(key=lambda each: (self.work.has(each.path), _weight(each), each.path))
        paths = list(dict.fromkeys(each.path for each in found))
        self._unwatched.update(paths[MOST_WATCHED:])
        return paths[:MOST_WATCHED]

    def saw(self, opened: Sequence[str] | None, unwatched: Iterable[str] = ()) -> None:
        """Note what one scorer opened, and of which files that is not known."""
        if opened is None:
            self._is_blind = True
            return
        self._opened = (self._opened or set()).union(opened)
        self._unwatched.update(unwatched)

    def put_below(self, paths: Sequence[str]) -> None:
        """Note folders and links outside of the work that were changed, and in which scorers had such files.

        Whoever owns a folder can exchange a file in it while the answer runs.
        """
        ways = {
            each.path
            for each in self._all()
            if each.type in ("folder", "link") and each.kind != "deleted" and not self.work.has(each.path)
            if any(is_inside(path, each.path) for path in paths)
        }
        if ways and not self._is_blind:
            self._opened = (self._opened or set()) | ways

    def report(self) -> TamperReport:
        """The report of all that was found."""
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
        """All changes that are known, each once."""
        found = {each.path: each for each in self.changes.changes} if self.changes else {}
        found |= {each.path: each for each in self.outside.changes} if self.outside else {}
        return list(found.values())

    def _outside(self) -> list[DiskChange] | None:
        """The changes outside of the work, as far as they are known."""
        if self.changes is None:
            return None
        opened = self._opened or set()
        return [
            each
            for each in self._all()
            if not self.work.has(each.path)
            # Ours: later rounds write it anew.
            if each.path != PROMPT_FILE or each.path in opened
        ]

    def _outside_total(self) -> int | None:
        if self.outside is not None and len(self.work.aside) == len(self.work.folders):
            return self.outside.total
        outside = self._outside()
        return None if outside is None else len(outside)

    def _is_special(self, change: DiskChange) -> bool:
        """Whether it is part of the work and more than a file: to open it may lead to something else."""
        is_plain = change.type in ("file", "folder") and not change.mode & _SETS_ID
        return change.kind != "deleted" and not is_plain and self.work.has(change.path)

    def _weightiest(
        self, found: list[DiskChange] | None, name: str, total: int | None, notes: list[str]
    ) -> list[ChangedFile] | None:
        """The weightiest of some changes, as a report shows them."""
        if found is None:
            return None
        opened = self._opened or set()
        ordered = sorted(found, key=lambda each: (each.path not in opened, _weight(each), each.path))
        return [
            ChangedFile(
                path=each.path,
                kind=each.kind,
                type=each.type,
                mode=each.mode,
                size=each.size,
                opened=each.path in opened,
            )
            for each in _first(ordered, name, MOST_SHOWN, notes, total)
        ]

    def _weightiest_opened(self, notes: list[str]) -> list[str]:
        """What was opened: outside of the work first, each part in the order of its weight."""
        known = {each.path: each for each in self._all()}
        ordered = sorted(
            self._opened or (),
            key=lambda path: (self.work.has(path), _weight(known[path]) if path in known else 0, path),
        )
        return _first(ordered, "opened_by_scorers", MOST_SHOWN, notes)

    def _unwatched_outside(self, outside: list[DiskChange]) -> list[str]:
        """The files outside of the work that scorers may have opened unseen, the weightiest first."""
        opened = self._opened or set()
        found = [
            each
            for each in outside
            if _can_be_opened(each) and self._is_graded(each.path) and each.path not in opened
            if self._is_blind or each.path in self._unwatched
        ]
        return [each.path for each in sorted(found, key=lambda each: (_weight(each), each.path))]

    def _unknown(self, outside: list[DiskChange] | None) -> list[str]:
        """What is not known of a disk that scorers get as the work left it."""
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


def _can_be_opened(change: DiskChange) -> bool:
    return change.kind != "deleted" and change.type != "folder"


def _first(found: Sequence[T], name: str, most: int, notes: list[str], total: int | None = None) -> list[T]:
    """The first of a list; a note tells where there are more."""
    if (total or len(found)) > min(most, len(found)):
        notes.append(f"{name}: the first {min(most, len(found))} of {total or len(found)} are listed")
    return list(found[:most])


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is that folder or below it."""
    folder = posixpath.normpath(folder)
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
