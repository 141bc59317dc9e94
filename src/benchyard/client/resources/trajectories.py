"""Trajectories of trials and scenario runs, step by step: index, steps, search, steps as they come."""

import time
from typing import Any

import httpx

from benchyard.client.event_streams import EventParser
from benchyard.client.methods import S, VerbGroup, call, items
from benchyard.client.operations import (
    TRANSFER_TIMEOUT,
    Emit,
    Flow,
    Request,
    Steps,
    at,
    backoff,
    fetch,
    open_body,
    pause,
    read,
    send,
)
from benchyard.errors import ServerUnreachable, StillWaiting
from benchyard.models.trajectories.live_steps import LiveStep
from benchyard.models.trajectories.steps import FoundStepsView, NumberedStep, StepIndexView, StepRangeView

SILENCE_SECONDS = 60.0
PATIENCE_SECONDS = 600.0
_TRIAL_PREFIX = "trl_"
_PAGE = 200


class Trajectories(VerbGroup[S]):
    """The trajectories of a server, each by the id of its trial or scenario run."""

    @call
    def index(self, id: str, trace: str | None = None) -> Steps[StepIndexView]:
        """Return the index of a trajectory: facts about each step and its first 80 characters."""
        request = Request("GET", _path(id, "/index"), {"trace": trace}, timeout=TRANSFER_TIMEOUT)
        return (yield from fetch(request, StepIndexView))

    @items
    def steps(
        self, id: str, first: int = 1, last: int | None = None, trace: str | None = None
    ) -> Flow[NumberedStep]:
        """Yield the steps from one number to another, else to the end; texts of giant steps are cut."""
        following: int | None = first
        while following is not None and (last is None or following <= last):
            upto = following + _PAGE - 1 if last is None else min(last, following + _PAGE - 1)
            query = {"from": following, "to": upto, "trace": trace}
            request = Request("GET", _path(id), query, timeout=TRANSFER_TIMEOUT)
            found = yield from fetch(request, StepRangeView)
            for step in found.steps:
                yield Emit(step)
            following = found.next or (upto + 1 if upto < found.count else None)

    @call
    def step(self, id: str, number: int, trace: str | None = None) -> Steps[Any]:
        """Return one step whole, in ATIF as its author wrote it; raises NotFound."""
        path = _path(id, f"/{number:d}")
        return (yield from send(Request("GET", path, {"trace": trace}, timeout=TRANSFER_TIMEOUT))).data()

    @call
    def find(
        self, id: str, text: str, limit: int | None = None, trace: str | None = None
    ) -> Steps[FoundStepsView]:
        """Find the steps that contain a text, in upper or lower case."""
        query = {"q": text, "limit": limit, "trace": trace}
        request = Request("GET", _path(id, "/find"), query, timeout=TRANSFER_TIMEOUT)
        return (yield from fetch(request, FoundStepsView))

    @items
    def follow(self, id: str, after: str | None = None, patience: float = PATIENCE_SECONDS) -> Flow[LiveStep]:
        """Yield an agent's steps while it works, after the event with a cursor; the last event is its end.

        Goes on after a restart of the server; raises ServerUnreachable when the server is away for longer
        than the patience.
        """
        cursor, heard, failures = after, time.monotonic(), 0
        while True:
            try:
                request = Request("GET", _path(id, "/live"), {"after": cursor}, timeout=SILENCE_SECONDS)
                yield from open_body(request)
                parser = EventParser(LiveStep, "a step of an agent")
                while chunk := (yield from read()):
                    heard, failures = time.monotonic(), 0
                    for event in parser.feed(chunk):
                        cursor = event.cursor or cursor
                        yield Emit(event)
                        if event.kind == "end":
                            return
            except (httpx.TransportError, ServerUnreachable, StillWaiting) as error:
                if time.monotonic() - heard > patience:
                    told = f"the server was away for more than {patience:g} seconds; follow again later"
                    raise ServerUnreachable(told) from error
            failures += 1
            yield from pause(backoff(min(failures, 4)))


def _path(id: str, rest: str = "") -> str:
    """Return the address of the steps of a trial or of a scenario run."""
    noun = "/v1/trials/{}/steps" if id.startswith(_TRIAL_PREFIX) else "/v1/scenarios/runs/{}/steps"
    return at(noun, id) + rest
