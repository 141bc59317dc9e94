"""Calls sorted into conversations: each goes on from where the request before it ended."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchyard.gateway.calls import Call
from benchyard.gateway.dialects.values import fields, text
from benchyard.gateway.totals import is_failed
from benchyard.gateway.trajectory.delegations import Delegations, Origin
from benchyard.gateway.trajectory.entries import Entry
from benchyard.gateway.trajectory.histories import History

_MOST_CANDIDATES = 16
_TAIL = 32
"""How many of the last items of a request are searched for ids."""
_RECENT = 4
_TELLING = 20
"""How long a line is that nobody writes twice by chance."""


class Fresh(NamedTuple):
    """Something a request says that the one before did not say there."""

    entry: Entry
    may_be_old: bool
    """Whether it stands where the history was changed, so that it may have been said before."""


@dataclass
class Turn:
    """One call of a conversation: what was new in its request, and its answer."""

    call: Call
    fresh: list[Fresh]
    answer: Entry
    effort: Any = None

    @property
    def is_unfinished(self) -> bool:
        """Whether the agent had reason to ask again."""
        return self.call.error is not None or self.answer.is_empty


@dataclass
class Conversation:
    """Calls that go on from each other."""

    number: int
    first: History
    head: History
    """As it was last sent."""
    origin: Origin | None = None
    """The call of a tool that began it."""
    turns: list[Turn] = field(default_factory=list)
    retried: list[Call] = field(default_factory=list)
    """Calls that were made again, because their answers had broken off."""

    @property
    def calls(self) -> list[Call]:
        """All of them."""
        return [*self.retried, *(turn.call for turn in self.turns)]

    @property
    def opening(self) -> list[Entry]:
        """What it begins with, before the agent says anything."""
        return opening_of(self.first)


class Threads:
    """The conversations that calls come to."""

    def __init__(self) -> None:
        self.conversations: list[Conversation] = []
        self.failed: list[Call] = []
        self._by_first: dict[str, list[Conversation]] = {}
        self._by_id: dict[str, Conversation] = {}
        self._by_names: dict[frozenset[str], Conversation] = {}
        self._recent: deque[tuple[str, Conversation]] = deque(maxlen=_RECENT)
        self._delegations = Delegations()

    def add(self, call: Call) -> None:
        """Take the next call, in the order in which they came."""
        if is_failed(call):
            self.failed.append(call)
            return
        history = History(call)
        found = self._known(history) or self._begin(history)
        turn = Turn(call, _fresh(found, history), history.reader.answer(call.response))
        turn.effort = history.reader.effort(call.request)
        self._retry(found, turn, history)
        found.turns.append(turn)
        found.head = history
        self._note(found, turn)

    def _known(self, history: History) -> Conversation | None:
        """The conversation that a request goes on with; None if it begins one."""
        if history.follows in self._by_id and history.follows:
            return self._by_id[history.follows]
        by_id = self._of_ids(history)
        near = [*by_id, *reversed(self._by_first.get(_first(history), [])[-_MOST_CANDIDATES:])]
        ranked = [(_rank(each, history), len(near) - place, each) for place, each in enumerate(near)]
        best = max(ranked, key=lambda each: each[:2], default=None)
        if best is not None and best[0] > (0, 0):
            return best[2]
        same = [each for each in by_id if bool(each.first.names) == bool(history.names)]
        return same[0] if same else self._compacted(history)

    def _of_ids(self, history: History) -> list[Conversation]:
        """Those that made the calls of tools whose results are among the last items."""
        start = max(0, len(history) - _TAIL)
        ids = [result.id for _, entry in history.since(start) for result in entry.results]
        found = [self._by_id[id] for id in reversed(ids) if id and id in self._by_id]
        return list({each.number: each for each in found}.values())

    def _compacted(self, history: History) -> Conversation | None:
        """The one whose history was replaced by what a model has just said of it."""
        if not history.names or self._delegations.find(opening_of(history)) is not None:
            return None
        said = "\n".join(entry.text for place, entry in history.since(0) if place < _TAIL)
        for line, conversation in reversed(self._recent):
            if line in said:
                is_same = conversation.first.names == history.names
                return conversation if is_same else self._by_names.get(history.names)
        return None

    def _begin(self, history: History) -> Conversation:
        begun = Conversation(len(self.conversations), history, history)
        begun.origin = self._delegations.find(begun.opening)
        if begun.origin is not None:
            self._delegations.claim(begun.origin)
        self.conversations.append(begun)
        self._by_first.setdefault(_first(history), []).append(begun)
        return begun

    def _retry(self, found: Conversation, turn: Turn, history: History) -> None:
        """Let a call take the place of one that had broken off."""
        last = found.turns[-1] if found.turns else None
        if last is None or turn.fresh or not last.is_unfinished or len(history) != len(found.head):
            return
        found.turns.pop()
        found.retried.append(last.call)
        turn.fresh = last.fresh

    def _note(self, found: Conversation, turn: Turn) -> None:
        for use in turn.answer.uses:
            self._by_id[use.id] = found
        if answered := text(fields(turn.call.response).get("id")):
            self._by_id[answered] = found
        if found.first.names:
            self._by_names[found.first.names] = found
        line = max((line.strip() for line in turn.answer.text.splitlines()), key=len, default="")
        if len(line) >= _TELLING:
            self._recent.append((line, found))
        self._delegations.note(found.number, turn.call.number, turn.answer.uses)


def opening_of(history: History) -> list[Entry]:
    """What a history begins with, before the agent says anything."""
    return [entry for index in range(history.opening) for entry in history.entries(index)]


def sorted_calls(calls: Iterable[Call]) -> Threads:
    """Calls of one agent as conversations, in the order in which they came."""
    threads = Threads()
    for call in sorted(calls, key=lambda call: call.number):
        threads.add(call)
    return threads


def _rank(known: Conversation, history: History) -> tuple[int, int]:
    """How well a request goes on from a conversation; (0, 0) if it does not."""
    shared = history.shares(known.head)
    is_alike = bool(known.first.names) == bool(history.names)
    if shared == len(known.head) and shared < len(history):
        if any(entry.who == "agent" for entry in history.entries(shared)):
            return 3, shared
        return (2, shared) if is_alike and shared else (0, 0)
    if shared == len(known.head) == len(history):
        same_system = known.first.system == history.system
        return (2, shared) if is_alike and (history.names == known.first.names or same_system) else (0, 0)
    opening = known.first.opening
    return (1, shared) if is_alike and 0 < opening <= shared else (0, 0)


def _fresh(known: Conversation, history: History) -> list[Fresh]:
    """What a request says that the conversation does not have; all of it if it begins one."""
    if not known.turns or history.follows:
        return [Fresh(entry, False) for _, entry in history.since(0)]
    shared = history.shares(known.head)
    start = history.goes_on_from(known.head, shared)
    return [Fresh(entry, place < start) for place, entry in history.since(shared)]


def _first(history: History) -> str:
    """What the conversations of the same beginning have in common."""
    return repr(history.entries(0)) if len(history) else ""
