"""Server-sent events as the server writes them: frames of JSON, comments, and errors in place of the rest."""

import json
from collections.abc import Iterator
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from benchyard.client.operations import error_from
from benchyard.errors import BenchyardError

M = TypeVar("M", bound=BaseModel)

LARGEST_FRAME = 16 * 1024**2


class EventParser(Generic[M]):
    """Makes events of one connection's bytes, however they are cut."""

    def __init__(self, model: type[M], noun: str, largest: int = LARGEST_FRAME) -> None:
        self._model = model
        self._noun = noun
        self._largest = largest
        self._left = b""

    def feed(self, chunk: bytes) -> Iterator[M]:
        """Yield the events that these bytes complete; raises an error that the server sent instead."""
        *frames, self._left = (self._left + chunk).replace(b"\r\n", b"\n").split(b"\n\n")
        if len(self._left) > self._largest:
            raise BenchyardError(
                f"the server's answer is not a stream of events: {self._noun} is without end"
            )
        for frame in frames:
            if (event := self._event(frame)) is not None:
                yield event

    def _event(self, frame: bytes) -> M | None:
        """Return the event of a frame; None for a comment, which only keeps the connection alive."""
        fields = dict(line.split(b": ", 1) for line in frame.split(b"\n") if b": " in line[1:])
        if b"data" not in fields:
            return None
        if fields.get(b"event") == b"error":
            raise _error_in(fields[b"data"])
        try:
            return self._model.model_validate_json(fields[b"data"])
        except ValidationError as error:
            raise BenchyardError(f"the server's answer is not {self._noun}") from error


def _error_in(data: bytes) -> BenchyardError:
    try:
        return error_from(int(json.loads(data)["code"]), data)
    except (ValueError, KeyError, TypeError):
        return error_from(500, data)
