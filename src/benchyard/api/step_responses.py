"""Answers with the steps of a run's trajectory, and with the steps of an agent as they come."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Header, Request
from fastapi import Query as Parameter
from fastapi.responses import Response, StreamingResponse

from benchyard.api.deps import Services
from benchyard.api.job_reports import Report
from benchyard.api.responses import bytes_stream, frame_stream, wait_for_answer
from benchyard.engine.trajectories.steps import MOST_FOUND
from benchyard.models.base import MAX_INT
from benchyard.models.runs import ScenarioRun

TraceName = Annotated[
    str | None, Parameter(description="Name of the trace; the first trajectory without it.")
]
First = Annotated[int, Parameter(alias="from", ge=1, le=MAX_INT)]
Last = Annotated[int | None, Parameter(alias="to", ge=1, le=MAX_INT)]
SearchText = Annotated[str, Parameter(min_length=1, max_length=1000)]
FoundLimit = Annotated[int, Parameter(ge=1, le=MOST_FOUND)]
Cursor = Annotated[str | None, Parameter(max_length=100)]
LastEventId = Annotated[str | None, Header(max_length=100)]

USUAL_STEPS = 50
"""Number of steps in an answer that asks for none in particular."""
USUAL_FOUND = 100


async def index_answer(services: Services, request: Request, run: ScenarioRun, trace: str | None) -> Response:
    """Return the index of a trajectory, compressed as it is kept."""
    packed = await wait_for_answer(services, services.engine.steps.index(run, trace), request)
    return await asyncio.to_thread(Report(packed).respond, request)


async def range_answer(
    services: Services, request: Request, run: ScenarioRun, trace: str | None, span: tuple[int, int | None]
) -> Response:
    """Return some steps of a trajectory."""
    first, last = span
    last = first + USUAL_STEPS - 1 if last is None else last
    text = await wait_for_answer(services, services.engine.steps.some(run, trace, first, last), request)
    return await asyncio.to_thread(_respond, text, request)


async def find_answer(
    services: Services, request: Request, run: ScenarioRun, trace: str | None, text: str, limit: int
) -> Response:
    """Return the steps that contain a text."""
    found = services.engine.steps.find(run, trace, text, limit)
    return await asyncio.to_thread(_respond, await wait_for_answer(services, found, request), request)


async def step_answer(services: Services, run: ScenarioRun, trace: str | None, number: int) -> Response:
    """Return one step, whole."""
    pieces = await services.engine.steps.whole(run, trace, number)
    return bytes_stream(services, pieces, "application/json")


def live_answer(services: Services, frames: AsyncIterator[bytes]) -> StreamingResponse:
    """Return the steps of an agent as they come."""
    return frame_stream(services, frames)


def _respond(text: bytes, request: Request) -> Response:
    return Report(gzip.compress(text, 1, mtime=0)).respond(request)
