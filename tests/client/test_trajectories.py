"""Trajectories by the client, against a server that answers from a script."""

import asyncio
import json
from typing import Any

import pytest

from benchyard.client import AsyncClient
from benchyard.errors import BenchyardError, NotFound
from tests.client.stub import Answer, in_turn, stub, talking

STOPPING = b'event: error\ndata: {"code": 408, "message": "the server is stopping; connect again"}\n\n'


def frame(cursor: str, kind: str = "step", **fields: Any) -> bytes:
    return f"id: {cursor}\ndata: {json.dumps({'kind': kind, 'cursor': cursor, **fields})}\n\n".encode()


def test_steps_go_on_after_the_last_one_and_come_once() -> None:
    streams = in_turn(
        Answer(frame("1-1-1-0", number=1) + b": still here\n\n" + frame("1-2-2-0")[:9], cut=True),
        Answer(frame("1-2-2-0", number=2) + STOPPING),
        Answer(frame("1-3-3-0", number=3) + frame("1-3-3-0", "end", message="over")),
    )
    with talking(streams) as (client, server):
        events = list(client.trajectories.follow("trl_1"))
        assert [(event.kind, event.number) for event in events] == [
            ("step", 1),
            ("step", 2),
            ("step", 3),
            ("end", None),
        ]
        assert {each.path for each in server.asked} == {"/v1/trials/trl_1/steps/live"}
        assert [each.query.get("after") for each in server.asked] == [None, "1-1-1-0", "1-2-2-0"]


def test_an_invalid_stream_of_steps_is_an_error() -> None:
    gone = b'event: error\ndata: {"code": 404, "message": "there is no trial trl_1"}\n\n'
    for body, kind in ((gone, NotFound), (b"data: {}\n\n", BenchyardError)):
        with talking(in_turn(Answer(body))) as (client, _), pytest.raises(kind):
            list(client.trajectories.follow("trl_1"))


def test_ranges_are_fetched_page_by_page() -> None:
    def page(*numbers: int, **fields: Any) -> Answer:
        steps = [{"number": number, "size_bytes": 2, "step": {}} for number in numbers]
        return Answer({"trace": "t", "count": 203, "steps": steps, **fields})

    async def read() -> list[int]:
        async with AsyncClient(server.server) as client:
            return [step.number async for step in client.trajectories.steps("scr_1", 2, trace="t")]

    # The first page is cut short by its size.
    with stub(in_turn(page(2, 3, next=4), page(4))) as server:
        found = asyncio.run(read())
    assert found == [2, 3, 4]
    assert [(each.query["from"], each.query["to"]) for each in server.asked] == [("2", "201"), ("4", "203")]
    assert {(each.path, each.query["trace"]) for each in server.asked} == {
        ("/v1/scenarios/runs/scr_1/steps", "t")
    }
