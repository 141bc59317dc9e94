"""A build's log, followed over connections that break."""

import asyncio
import json

import pytest

from benchyard.client import AsyncClient, Client, operations
from benchyard.errors import BenchyardError, NotFound, ServerUnreachable
from tests.client.stub import Answer, Asked, error, stub, talking

LINES = [
    {"level": "info", "message": f"line {number}", "timestamp_ms": 1, "offset": 10 * number}
    for number in range(1, 6)
]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "FIRST_DELAY", 0.001)


def frames(lines: list[dict[str, object]], end: str = "") -> bytes:
    return ("".join(f": still here\n\ndata: {json.dumps(line)}\n\n" for line in lines) + end).encode()


def broken_twice(asked: Asked) -> Answer:
    offset = int(asked.query["offset"])
    left = [line for line in LINES if int(str(line["offset"])) > offset]
    if offset == 0:
        return Answer(frames(left[:2]) + b'data: {"level": "in', cut=True)
    if offset == 20:
        return Answer(frames(left[:1], 'event: error\ndata: {"code": 408, "message": "stopping"}\n\n'))
    return Answer(frames(left))


def test_a_log_goes_on_after_its_last_whole_line() -> None:
    with stub(broken_twice) as server, Client(server.server) as client:
        assert [line.message for line in client.blueprints.follow("bpt_1")] == [
            f"line {number}" for number in range(1, 6)
        ]
    assert [asked.query["offset"] for asked in server.asked] == ["0", "20", "30"]


def test_an_async_log_is_the_same() -> None:
    async def followed() -> list[int]:
        async with AsyncClient(server.server) as client:
            return [line.offset async for line in client.blueprints.follow("bpt_1", 20)]

    with stub(broken_twice) as server:
        assert asyncio.run(followed()) == [30, 40, 50]


def test_errors_of_a_log_are_reported() -> None:
    with talking(lambda asked: error(404, "not_found")) as (client, _), pytest.raises(NotFound):
        list(client.blueprints.follow("bpt_1"))
    with talking(lambda asked: Answer(b"", cut=True)) as (client, _), pytest.raises(ServerUnreachable):
        list(client.blueprints.follow("bpt_1"))
    with talking(lambda asked: Answer(b"data: nonsense\n\n")) as (client, _), pytest.raises(BenchyardError):
        list(client.blueprints.follow("bpt_1"))
    ended = b'event: error\ndata: {"code": 500, "message": "broken"}\n\n'
    with (
        talking(lambda asked: Answer(ended)) as (client, _),
        pytest.raises(BenchyardError, match="broken"),
    ):
        list(client.blueprints.follow("bpt_1"))
