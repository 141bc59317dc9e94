"""Calls sorted into conversations: each request continues the one before it."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchyard.gateway.calls import Call, is_failed
from benchyard.gateway.dialects import catalog
from benchyard.gateway.dialects.anthropic import AnthropicReader
from benchyard.gateway.dialects.base import ConversationReader, offered_tools
from benchyard.gateway.dialects.chat import ChatReader
from benchyard.gateway.dialects.entries import ConversationEntry, ToolUse
from benchyard.gateway.dialects.gemini import GeminiReader
from benchyard.gateway.dialects.responses import ResponsesReader
from benchyard.gateway.dialects.values import fields, text

_READERS: dict[str, ConversationReader] = {
    "anthropic": AnthropicReader(),
    "responses": ResponsesReader(),
    "chat": ChatReader(),
    "gemini": GeminiReader(),
}
_NEAR = 3
"""Number of items after a changed one that are compared, to see whether only that one changed."""


class History:
    """History of a request, item by item; items are parsed on demand."""

    def __init__(self, call: Call) -> None:
        self.reader = reader_of(call)
        self._items = self.reader.items(call.request)
        self._read: dict[int, tuple[ConversationEntry, ...]] = {}
        self._lead = self._leading()
        self.names = offered_tools(call.request)
        self.follows = text(fields(call.request).get("previous_response_id"))

    def __len__(self) -> int:
        return len(self._items) - self._lead

    @property
    def system(self) -> list[ConversationEntry]:
        """Entries of the system before the first message of a user or agent."""
        return [entry for index in range(self._lead) for entry in self._entries(index)]

    @property
    def opening(self) -> int:
        """Number of items before the agent's first message."""
        for index in range(len(self)):
            if any(entry.who == "agent" for entry in self.entries(index)):
                return index
        return len(self)

    def item(self, index: int) -> Any:
        """Return an item as received; index 0 is the first after the system's."""
        return self._items[self._lead + index]

    def entries(self, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entries of one item."""
        return self._entries(self._lead + index)

    def since(self, index: int) -> Iterator[tuple[int, ConversationEntry]]:
        """Yield the entries from an item on, each with the index of its item."""
        for place in range(index, len(self)):
            for entry in self.entries(place):
                yield place, entry

    def shares(self, other: "History") -> int:
        """Return how many items both histories begin with."""
        most = min(len(self), len(other))
        return next((index for index in range(most) if not self.has(index, other)), most)

    def has(self, index: int, other: "History") -> bool:
        """Tell whether an item is the same in both histories, disregarding cache markers."""
        mine, theirs = self.item(index), other.item(index)
        return mine is theirs or _equal(mine, theirs) or self.entries(index) == other.entries(index)

    def goes_on_from(self, other: "History", shared: int) -> int:
        """Index of the first new item compared with the previous request; earlier items only changed."""
        if shared >= len(other) - 1:
            return min(len(other), len(self))
        near = range(shared + 1, min(shared + 1 + _NEAR, len(other), len(self)))
        only_changed = len(self) >= len(other) and any(self.has(index, other) for index in near)
        return len(other) if only_changed else len(self)

    def _leading(self) -> int:
        for index in range(len(self._items)):
            if any(entry.who != "system" for entry in self._entries(index)):
                return index
        return len(self._items)

    def _entries(self, index: int) -> tuple[ConversationEntry, ...]:
        if index not in self._read:
            self._read[index] = self.reader.entries(self._items[index])
        return self._read[index]


def reader_of(call: Call) -> ConversationReader:
    """Return the reader of a call's dialect."""
    dialect = catalog.dialect_named(call.dialect) or catalog.dialect_of_path(call.path)
    return _READERS[dialect.name if dialect else "chat"]


def _equal(mine: Any, theirs: Any) -> bool:
    try:
        return bool(mine == theirs)
    except RecursionError:  # nested too deeply
        return False


MOST_LOOSE = 256
_PROMPTS = frozenset(("prompt", "message", "task", "instructions", "query", "objective", "request", "input"))
"""Arguments that may be part of a sub-agent's prompt."""
_SHORTEST = 12
"""Fewest characters of a text that is searched inside another one."""


class Delegation(NamedTuple):
    """A call of a tool: its conversation, the number of the model call, and its place in the answer."""

    conversation: int
    call: int
    place: int


class Delegations:
    """Arguments of tool calls, to find the call that started a conversation."""

    def __init__(self) -> None:
        self._exact: dict[str, list[Delegation]] = {}
        self._loose: deque[tuple[str, Delegation]] = deque(maxlen=MOST_LOOSE)
        self._told: dict[Delegation, list[str]] = {}

    def note(self, conversation: int, call: int, uses: tuple[ToolUse, ...]) -> None:
        """Remember the arguments of tool calls."""
        for place, use in enumerate(uses):
            origin = Delegation(conversation, call, place)
            for name, value in use.arguments.items():
                if not isinstance(value, str) or not (text := value.strip()):
                    continue
                self._exact.setdefault(text, []).append(origin)
                self._told.setdefault(origin, []).append(text)
                if name.lower() in _PROMPTS and len(text) >= _SHORTEST:
                    self._loose.append((text, origin))

    def find(self, opening: list[ConversationEntry]) -> Delegation | None:
        """Return the tool call that started a conversation with this opening; None if there is none."""
        texts = [text for entry in opening for text in _texts(entry)]
        exact = next((origins[0] for text in texts if (origins := self._exact.get(text.strip()))), None)
        return exact or self._inside(texts)

    def claim(self, origin: Delegation) -> None:
        """Remove a call, so that it cannot be matched with another conversation."""
        self._loose = deque((call for call in self._loose if call[1] != origin), maxlen=MOST_LOOSE)
        for origins in self._told.pop(origin, []):
            self._exact[origins].remove(origin)

    def _inside(self, texts: list[str]) -> Delegation | None:
        hits = [(told, origin) for told, origin in self._loose if any(told in text for text in texts)]
        return max(hits, key=lambda hit: len(hit[0]))[1] if hits else None


def _texts(entry: ConversationEntry) -> list[str]:
    if entry.who != "user":
        return []
    return [entry.text, *(piece for piece in entry.pieces if isinstance(piece, str) and piece)]


_MOST_CANDIDATES = 16
_TAIL = 32
"""Number of items at the end of a request that are searched for ids."""
_RECENT = 4
_TELLING = 20
"""Shortest line, in characters, that is unlikely to be written twice by chance."""


class NewEntry(NamedTuple):
    """An entry of a request that was not at its place in the request before."""

    entry: ConversationEntry
    may_be_old: bool
    """True if the history was changed here, so that the entry may be an earlier one."""


@dataclass
class ConversationCall:
    """A call of a conversation: the new entries of its request, and its answer."""

    call: Call
    fresh: list[NewEntry]
    answer: ConversationEntry
    effort: Any = None

    @property
    def is_unfinished(self) -> bool:
        """True if the agent had reason to repeat the call."""
        return self.call.error is not None or self.answer.is_empty


@dataclass
class Conversation:
    """Calls that continue each other."""

    number: int
    first: History
    head: History
    """The history as last sent."""
    origin: Delegation | None = None
    """The tool call that started the conversation."""
    turns: list[ConversationCall] = field(default_factory=list)
    retried: list[Call] = field(default_factory=list)
    """Calls that were repeated because their answers had broken off."""

    @property
    def calls(self) -> list[Call]:
        """All calls of the conversation."""
        return [*self.retried, *(turn.call for turn in self.turns)]

    @property
    def opening(self) -> list[ConversationEntry]:
        """Entries before the agent's first message."""
        return opening_of(self.first)


class Conversations:
    """Conversations found in a sequence of calls."""

    def __init__(self) -> None:
        self.conversations: list[Conversation] = []
        self.failed: list[Call] = []
        self._by_first: dict[str, list[Conversation]] = {}
        self._by_id: dict[str, Conversation] = {}
        self._by_names: dict[frozenset[str], Conversation] = {}
        self._recent: deque[tuple[str, Conversation]] = deque(maxlen=_RECENT)
        self._delegations = Delegations()

    def add(self, call: Call) -> None:
        """Sort in the next call; calls must come in the order of their numbers."""
        if is_failed(call):
            self.failed.append(call)
            return
        history = History(call)
        conversation = self._continued(history) or self._begin(history)
        turn = ConversationCall(call, _fresh(conversation, history), history.reader.answer(call.response))
        turn.effort = history.reader.effort(call.request)
        self._retry(conversation, turn, history)
        conversation.turns.append(turn)
        conversation.head = history
        self._note(conversation, turn)

    def _continued(self, history: History) -> Conversation | None:
        """Return the conversation that a request continues; None if it begins one."""
        if history.follows in self._by_id and history.follows:
            return self._by_id[history.follows]
        by_id = self._of_ids(history)
        near = [*by_id, *reversed(self._by_first.get(_first(history), [])[-_MOST_CANDIDATES:])]
        ranked = [(_rank(each, history), len(near) - place, each) for place, each in enumerate(near)]
        best = max(ranked, key=lambda each: each[:2], default=None)
        if best is not None and best[0] > (0, 0):
            return best[2]
        same = [candidate for candidate in by_id if bool(candidate.first.names) == bool(history.names)]
        return same[0] if same else self._summarized(history)

    def _of_ids(self, history: History) -> list[Conversation]:
        """Return the conversations with tool calls that have their results among the last items."""
        start = max(0, len(history) - _TAIL)
        ids = [result.id for _, entry in history.since(start) for result in entry.results]
        conversations = [self._by_id[id] for id in reversed(ids) if id and id in self._by_id]
        return list({conversation.number: conversation for conversation in conversations}.values())

    def _summarized(self, history: History) -> Conversation | None:
        """Return the conversation whose history was replaced by a summary that a model has just written."""
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

    def _retry(self, conversation: Conversation, turn: ConversationCall, history: History) -> None:
        """Replace the last call with this one if that had broken off and was repeated."""
        last = conversation.turns[-1] if conversation.turns else None
        if last is None or turn.fresh or not last.is_unfinished or len(history) != len(conversation.head):
            return
        conversation.turns.pop()
        conversation.retried.append(last.call)
        turn.fresh = last.fresh

    def _note(self, conversation: Conversation, turn: ConversationCall) -> None:
        for use in turn.answer.uses:
            self._by_id[use.id] = conversation
        if answered := text(fields(turn.call.response).get("id")):
            self._by_id[answered] = conversation
        if conversation.first.names:
            self._by_names[conversation.first.names] = conversation
        line = max((line.strip() for line in turn.answer.text.splitlines()), key=len, default="")
        if len(line) >= _TELLING:
            self._recent.append((line, conversation))
        self._delegations.note(conversation.number, turn.call.number, turn.answer.uses)


def opening_of(history: History) -> list[ConversationEntry]:
    """Return the entries of a history before the agent's first message."""
    return [entry for index in range(history.opening) for entry in history.entries(index)]


def sort_calls(calls: Iterable[Call]) -> Conversations:
    """Sort the calls of one agent into conversations."""
    threads = Conversations()
    for call in sorted(calls, key=lambda call: call.number):
        threads.add(call)
    return threads


def _rank(known: Conversation, history: History) -> tuple[int, int]:
    """Rate how well a request continues a conversation; (0, 0) if it does not."""
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


def _fresh(known: Conversation, history: History) -> list[NewEntry]:
    """Return the entries of a request that the conversation does not have; all if it begins one."""
    if not known.turns or history.follows:
        return [NewEntry(entry, False) for _, entry in history.since(0)]
    shared = history.shares(known.head)
    start = history.goes_on_from(known.head, shared)
    return [NewEntry(entry, place < start) for place, entry in history.since(shared)]


def _first(history: History) -> str:
    """Return a key that conversations with the same first item share."""
    return repr(history.entries(0)) if len(history) else ""
