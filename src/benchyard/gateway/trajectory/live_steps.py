"""Steps of an agent that still works, made of the calls that ended since the last look.

Each call is read once, and only its new items: the cost of following an agent grows with what
it does, not with its square. The price is that calls are not sorted into conversations: steps of sub-agents
come between those of the main one, in the order of their ends.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchyard.errors import UsageError
from benchyard.gateway.calls import Call, is_failed
from benchyard.gateway.dialects.entries import ConversationEntry, clean_text, message_content
from benchyard.gateway.records.reader import CallPosition, NewCalls, open_for_reading
from benchyard.gateway.trajectory.conversations import (
    Conversation,
    ConversationCall,
    History,
    NewEntry,
)
from benchyard.gateway.trajectory.steps import StepBuilder

_CURSOR = re.compile(r"(\d{1,15})-(\d{1,9})-(\d{1,9})-(\d{1,9})", re.ASCII)
_RECENT_CALLS = 8
"""Number of calls back whose entries are known, so that a repeated one is not sent again."""
MOST_CALLS = 100
"""Most calls that are looked at together."""
_MOST_SAID = 2000


@dataclass(frozen=True)
class LiveCursor:
    """Place in the stream of an agent's steps."""

    ended_ms: int = 0
    number: int = 0
    """With `ended_ms`: the last call that was sent completely."""
    steps: int = 0
    """Number of steps up to that call."""
    skip: int = 0
    """Number of events of the next call that were sent."""

    @classmethod
    def of(cls, text: str | None) -> "LiveCursor":
        """Read a cursor; raises UsageError if it is invalid."""
        if not text:
            return cls()
        found = _CURSOR.fullmatch(text)
        if found is None:
            raise UsageError(f"{text[:100]!r} is no place in a stream of steps; leave it out to begin anew")
        return cls(*map(int, found.groups()))

    def __str__(self) -> str:
        return f"{self.ended_ms}-{self.number}-{self.steps}-{self.skip}"


@dataclass(frozen=True)
class LiveEvent:
    """An event, and the place after it."""

    cursor: LiveCursor
    value: dict[str, Any]


def live_events(file: Path, cursor: LiveCursor, before_ms: int) -> Iterator[LiveEvent]:
    """Yield the steps of calls that ended after a cursor and before a time; raises NotFound, StoreError."""
    with open_for_reading(file) as connection:
        calls = NewCalls(connection)
        for new in calls.after(CallPosition(cursor.ended_ms, cursor.number), before_ms, MOST_CALLS):
            call = new.call
            earlier = [] if new.only_adds else calls.before(call.number, _RECENT_CALLS)
            known = {_key(entry) for each in earlier for entry in _entries(each)}
            values = list(_values(call, known, cursor.steps))
            steps = cursor.steps + sum(value["kind"] == "step" for value in values)
            after = LiveCursor(call.ended_ms, call.number, steps)
            for place, value in enumerate(values[cursor.skip :], start=cursor.skip + 1):
                yield LiveEvent(after if place == len(values) else replace(cursor, skip=place), value)
            cursor = after


def _values(call: Call, known: set[str], steps: int) -> Iterator[dict[str, Any]]:
    entries = [each for each in _entries(call) if _key(each) not in known]
    for entry in entries:
        for result in entry.results:
            yield {
                "kind": "observation",
                "call_id": clean_text(result.id),
                "content": message_content(result.pieces),
                "is_error": result.is_error,
            }
    told = [
        NewEntry(replace(entry, results=()), may_be_old=False)
        for entry in entries
        # The agent's own entries repeat answers of earlier calls.
        if entry.who in ("system", "user") and any(entry.pieces)
    ]
    history = History(replace(call, request={}))
    turn = ConversationCall(call, told, history.reader.answer(call.response))
    turn.effort = history.reader.effort(call.request)
    found = StepBuilder(Conversation(0, history, history, turns=[turn])).finish({})
    for number, step in enumerate(found[:-1] if is_failed(call) else found, start=steps + 1):
        yield {"kind": "step", "number": number, "step": {**step, "step_id": number}}
    if is_failed(call):
        reason = call.error or f"the provider answered {call.status}"
        yield {"kind": "failure", "message": clean_text(f"a call of a model failed: {reason}"[:_MOST_SAID])}


def _entries(call: Call) -> list[ConversationEntry]:
    history = History(call)
    return [*history.system, *(entry for _, entry in history.since(0))]


def _key(entry: ConversationEntry) -> str:
    return f"{entry.who} {entry.pieces!r} {entry.results!r}"
