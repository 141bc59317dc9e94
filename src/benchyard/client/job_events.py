"""The events of a job, over as many connections as it takes."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
from pydantic import ValidationError

from benchyard.client.core import Emit, Flow, Request, Steps, at, backoff, fetch, open_body, pause, read
from benchyard.client.failures import error_from
from benchyard.errors import BenchyardError, ServerUnreachable, StillWaiting
from benchyard.models.jobs import ENDED_JOBS, BenchmarkJobView, JobEvent, JobState

SILENCE_SECONDS = 60.0
PATIENCE_SECONDS = 600.0
LONGEST_PAUSE = 5.0
LARGEST_FRAME = 4 * 1024**2

Told = Callable[[bool], None]
"""Told False when the server is away, and True when it is there again."""


@dataclass
class _Place:
    """How far a stream was followed."""

    seq: int
    state: JobState | None = None
    failures: int = 0
    heard: float = 0.0


def follow(id: str, after: int, patience: float, told: Told) -> Flow[JobEvent]:
    """Every event after a number, once, until the job has ended and all is told.

    A server that stops ends its streams as if all was said, so the end of a stream is believed only when
    the job has ended, and its end was told or asking again brings nothing.
    """
    place = _Place(after, heard=time.monotonic())
    while True:
        begin = place.seq
        try:
            yield from _connection(id, place, told)
            view = yield from fetch(Request("GET", at("/v1/benchmark_jobs/{}", id)), BenchmarkJobView)
        except (httpx.TransportError, ServerUnreachable, StillWaiting) as error:
            yield from _away(place, patience, told, error)
            continue
        _heard(place, told)
        if view.state in ENDED_JOBS and (place.state is view.state or place.seq == begin):
            return
        # What a stopping server cuts at once is not asked for in a tight loop.
        yield from pause(backoff(0))


def _connection(id: str, place: _Place, told: Told) -> Flow[JobEvent]:
    path = at("/v1/benchmark_jobs/{}/events", id)
    yield from open_body(Request("GET", path, {"after": place.seq}, timeout=SILENCE_SECONDS))
    _heard(place, told)
    left = b""
    while chunk := (yield from read()):
        place.heard = time.monotonic()
        *frames, left = (left + chunk).replace(b"\r\n", b"\n").split(b"\n\n")
        if len(left) > LARGEST_FRAME:
            raise BenchyardError("the server's answer is not a stream of events: one is without end")
        for event in events_in(frames):
            if event.seq > place.seq:
                place.seq = event.seq
                place.state = event.state or place.state
                yield Emit(event)


def _heard(place: _Place, told: Told) -> None:
    if place.failures:
        told(True)
    place.failures = 0
    place.heard = time.monotonic()


def _away(place: _Place, patience: float, told: Told, error: Exception) -> Steps[None]:
    if time.monotonic() - place.heard > patience:
        raise ServerUnreachable(
            f"the server was away for more than {patience:g} seconds; the job goes on when it is back"
        ) from error
    if not place.failures:
        told(False)
    place.failures += 1
    yield from pause(min(backoff(place.failures), LONGEST_PAUSE))


def events_in(frames: list[bytes]) -> Iterator[JobEvent]:
    """The events of whole frames of a stream; comments keep the connection alive and say nothing."""
    for frame in frames:
        fields = dict(line.split(b": ", 1) for line in frame.split(b"\n") if b": " in line[1:])
        if b"data" not in fields:
            continue
        if fields.get(b"event") == b"error":
            raise _error(fields[b"data"])
        try:
            yield JobEvent.model_validate_json(fields[b"data"])
        except ValidationError as error:
            raise BenchyardError("the server's answer is not an event of a job") from error


def _error(data: bytes) -> BenchyardError:
    try:
        return error_from(int(json.loads(data)["code"]), data)
    except (ValueError, KeyError, TypeError):
        return error_from(500, data)
