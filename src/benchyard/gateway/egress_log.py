"""What a devbox asked its egress proxy for: counted by host and port, so that a trial can tell of it."""

import time
from dataclasses import asdict, dataclass
from typing import Any

MOST_ENTRIES = 256
_MOST_HOST = 255


@dataclass
class Entry:
    """One host and port that was asked for."""

    host: str
    port: int
    refused: str | None
    """Why, and which rule is missing; None if it was let through."""
    count: int = 0
    first_ms: int = 0
    last_ms: int = 0


class EgressLog:
    """The entries in the order in which they first came."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int, bool], Entry] = {}
        self.left_out = 0
        """Requests that are in no entry, because there were too many different ones."""

    def note(self, host: str, port: int, refused: str | None = None) -> None:
        """Count one request."""
        now = time.time_ns() // 1_000_000
        key = (host[:_MOST_HOST], port, refused is None)
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= MOST_ENTRIES:
                self.left_out += 1
                return
            entry = self._entries[key] = Entry(key[0], port, refused, first_ms=now)
        entry.refused = refused
        entry.count += 1
        entry.last_ms = now

    def refused(self) -> list[Entry]:
        """What was not let through."""
        return [entry for entry in self._entries.values() if entry.refused is not None]

    def passed(self) -> list[Entry]:
        """What was let through."""
        return [entry for entry in self._entries.values() if entry.refused is None]

    def to_json(self) -> dict[str, Any]:
        """As it travels to another process."""
        return {"entries": [asdict(entry) for entry in self._entries.values()], "left_out": self.left_out}
