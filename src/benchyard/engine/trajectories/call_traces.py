"""Traces of a grant's calls; made in workers, since their size is up to agents."""

import json
from pathlib import Path
from typing import Any, BinaryIO

from benchyard.engine.redaction import Scrubber
from benchyard.engine.trajectories.step_index import LEFT_OUT, WHOLE_BYTES, cut_text
from benchyard.errors import NotFound
from benchyard.gateway.records.reader import read_calls, redacted_copy
from benchyard.gateway.trajectory.builder import TrajectoryOwner, trajectory_of
from benchyard.gateway.trajectory.documents import document_text, json_line
from benchyard.gateway.trajectory.live_steps import MOST_CALLS, LiveCursor, LiveEvent, live_events

_MOST_FRAME_BYTES = 2 * 1024**2


def make_trajectory(
    _content: BinaryIO, file: str, about: dict[str, Any], trailing: dict[str, str] | None, secrets: list[str]
) -> bytes:
    """Return the trajectory of all calls in a grant's file, one step per line; empty if there are none.

    It is without secrets.
    """
    calls = list(read_calls(Path(file)))
    if not calls:
        return b""
    made = trajectory_of(calls, TrajectoryOwner(**about), trailing)
    del calls
    return Scrubber(secrets).data(document_text(made).encode(errors="replace"))


def make_shown_calls(_content: BinaryIO, file: str, secrets: list[str]) -> bytes:
    """Return a copy of a grant's file without secrets."""
    return redacted_copy(Path(file), Scrubber(secrets).data)


def make_live_steps(_content: BinaryIO, file: str, cursor: str, before_ms: int, secrets: list[str]) -> bytes:
    """Return the steps of a grant's calls after a cursor, as frames of a stream, without secrets.

    The first line is the place after them, and 1 if there may be more, else 0.
    """
    scrubber = Scrubber(secrets)
    place, size = LiveCursor.of(cursor), 0
    frames: list[bytes] = []
    try:
        for event in live_events(Path(file), place, before_ms):
            place = event.cursor
            frames.append(_frame(event, scrubber))
            size += len(frames[-1])
            if size > _MOST_FRAME_BYTES:
                break
    except NotFound:
        # The agent has not called a model yet, or its calls were cleared after its end.
        frames = []
    more = size > _MOST_FRAME_BYTES or len(frames) >= MOST_CALLS
    return b"%s %d\n%s" % (str(place).encode(), more, b"".join(frames))


def _frame(event: LiveEvent, scrubber: Scrubber) -> bytes:
    cursor = str(event.cursor)
    about = {"kind": event.value["kind"], "cursor": cursor, "is_cut": True}
    text = scrubber.data(json_line({**event.value, "cursor": cursor}).encode())
    try:
        value = json.loads(text)
    except ValueError:
        text = json_line({**about, "message": LEFT_OUT}).encode()
    else:
        # Cut without secrets: half a secret would not be recognised.
        text = text if len(text) <= WHOLE_BYTES else cut_text({**value, "is_cut": True}, about)
    return b"id: %s\ndata: %s\n\n" % (cursor.encode(), text)
