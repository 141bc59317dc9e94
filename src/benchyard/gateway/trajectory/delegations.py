"""Which call of a tool began another conversation: the one whose arguments hold what that begins with."""

from collections import deque
from typing import NamedTuple

from benchyard.gateway.trajectory.entries import Entry, Use

MOST_LOOSE = 256
_PROMPTS = frozenset(("prompt", "message", "task", "instructions", "query", "objective", "request", "input"))
"""Arguments that may be a part of what a sub-agent is told."""
_SHORTEST = 12
"""Of a text that is looked for inside another one."""


class Origin(NamedTuple):
    """A call of a tool: in which conversation, in the answer to which call, and its place there."""

    conversation: int
    call: int
    place: int


class Delegations:
    """The texts that calls of tools were made with, until a conversation begins with them."""

    def __init__(self) -> None:
        self._exact: dict[str, list[Origin]] = {}
        self._loose: deque[tuple[str, Origin]] = deque(maxlen=MOST_LOOSE)
        self._told: dict[Origin, list[str]] = {}

    def note(self, conversation: int, call: int, uses: tuple[Use, ...]) -> None:
        """Remember what tools were called with."""
        for place, use in enumerate(uses):
            origin = Origin(conversation, call, place)
            for name, value in use.arguments.items():
                if not isinstance(value, str) or not (told := value.strip()):
                    continue
                self._exact.setdefault(told, []).append(origin)
                self._told.setdefault(origin, []).append(told)
                if name.lower() in _PROMPTS and len(told) >= _SHORTEST:
                    self._loose.append((told, origin))

    def find(self, opening: list[Entry]) -> Origin | None:
        """The call that a conversation with this opening came of."""
        texts = [text for entry in opening for text in _texts(entry)]
        exact = next((origins[0] for text in texts if (origins := self._exact.get(text.strip()))), None)
        return exact or self._inside(texts)

    def claim(self, origin: Origin) -> None:
        """Let a call be nobody else's from now on."""
        self._loose = deque((each for each in self._loose if each[1] != origin), maxlen=MOST_LOOSE)
        for told in self._told.pop(origin, []):
            self._exact[told].remove(origin)

    def _inside(self, texts: list[str]) -> Origin | None:
        hits = [(told, origin) for told, origin in self._loose if any(told in text for text in texts)]
        return max(hits, key=lambda hit: len(hit[0]))[1] if hits else None


def _texts(entry: Entry) -> list[str]:
    if entry.who != "user":
        return []
    return [entry.text, *(piece for piece in entry.pieces if isinstance(piece, str) and piece)]
