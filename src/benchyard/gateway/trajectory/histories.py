"""The history that a request carries, and how much of it the request before had already."""

from collections.abc import Iterator
from typing import Any

from benchyard.gateway.calls import Call
from benchyard.gateway.dialects import finding
from benchyard.gateway.dialects.values import fields, text
from benchyard.gateway.trajectory.entries import Entry
from benchyard.gateway.trajectory.of_anthropic import AnthropicReader
from benchyard.gateway.trajectory.of_chat import ChatReader
from benchyard.gateway.trajectory.of_gemini import GeminiReader
from benchyard.gateway.trajectory.of_responses import ResponsesReader
from benchyard.gateway.trajectory.reader import Reader, offered

_READERS: dict[str, Reader] = {
    "anthropic": AnthropicReader(),
    "responses": ResponsesReader(),
    "chat": ChatReader(),
    "gemini": GeminiReader(),
}
_NEAR = 3
"""How many items after a changed one are looked at to see whether only that one was changed."""


class History:
    """What a request says was said, item by item; items are read when they are asked for."""

    def __init__(self, call: Call) -> None:
        self.reader = reader_of(call)
        self._items = self.reader.items(call.request)
        self._read: dict[int, tuple[Entry, ...]] = {}
        self._lead = self._leading()
        self.names = offered(call.request)
        self.follows = text(fields(call.request).get("previous_response_id"))

    def __len__(self) -> int:
        return len(self._items) - self._lead

    @property
    def system(self) -> list[Entry]:
        """What was said before anybody said anything."""
        return [entry for index in range(self._lead) for entry in self._entries(index)]

    @property
    def opening(self) -> int:
        """How many items there are before the agent says anything."""
        for index in range(len(self)):
            if any(entry.who == "agent" for entry in self.entries(index)):
                return index
        return len(self)

    def item(self, index: int) -> Any:
        """One item as it came; the first one is the user's."""
        return self._items[self._lead + index]

    def entries(self, index: int) -> tuple[Entry, ...]:
        """What one item says."""
        return self._entries(self._lead + index)

    def since(self, index: int) -> Iterator[tuple[int, Entry]]:
        """What is said from an item on, with where it is said."""
        for place in range(index, len(self)):
            for entry in self.entries(place):
                yield place, entry

    def shares(self, other: "History") -> int:
        """How many items both begin with."""
        most = min(len(self), len(other))
        return next((index for index in range(most) if not self.has(index, other)), most)

    def has(self, index: int, other: "History") -> bool:
        """Whether an item is the same in both; marks for a cache make none another."""
        mine, theirs = self.item(index), other.item(index)
        return mine is theirs or _equal(mine, theirs) or self.entries(index) == other.entries(index)

    def goes_on_from(self, other: "History", shared: int) -> int:
        """From which item on it says what the other did not; before, only what was changed or replaced."""
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

    def _entries(self, index: int) -> tuple[Entry, ...]:
        if index not in self._read:
            self._read[index] = self.reader.entries(self._items[index])
        return self._read[index]


def reader_of(call: Call) -> Reader:
    """The reader of a call's dialect."""
    found = finding.named(call.dialect) or finding.of(call.path)
    return _READERS[found.name if found else "chat"]


def _equal(mine: Any, theirs: Any) -> bool:
    try:
        return bool(mine == theirs)
    except RecursionError:  # of what is nested too deeply
        return False
