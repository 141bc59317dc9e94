"""Clients that dawdle, vanish or come in crowds: each costs bounded time and memory, others do not notice."""

import asyncio
import hashlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from benchyard.models.objects import StoredObject
from benchyard.store.database import Store
from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create, good
from tests.api.load import MB, address, answer, head, is_dropped, memory, peak_memory, request, unread

CLIENT_SECONDS = 2.0
MOST = 40
SLOW_READERS = 20
PAGE = 5000
PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that waits for nobody for long, and takes few."""
    options = ["--driver", "fake", "--client-timeout", str(CLIENT_SECONDS), "--max-connections", str(MOST)]
    with RunningServer(tmp_path_factory.mktemp("strict") / "data", options) as running:
        yield running


@pytest.fixture(scope="module")
def box(strict: RunningServer) -> Iterator[DevboxOverHttp]:
    headers = {"authorization": f"Bearer {strict.key}"}
    with httpx.Client(base_url=strict.url, headers=headers, timeout=60) as client:
        yield create(client)


def soon(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def is_served(server: RunningServer) -> bool:
    return asyncio.run(answer(server, request(server, "GET", "/v1/devboxes?limit=1")))[0] == 200


def stream(server: RunningServer, box: DevboxOverHttp, script: str) -> bytes:
    """A request for the output of a command, as it is written."""
    path = f"/v1/devboxes/{box.id}/executions/{box.start(script)}/stream_stdout_updates"
    return head(server, "GET", path)


def test_readers_that_take_nothing_are_dropped_and_cost_little(
    strict: RunningServer, box: DevboxOverHttp
) -> None:
    asked = stream(strict, box, "head -c 50000000 /dev/zero | tr '\\0' x | fold -w 99")
    before = memory(strict)
    with ExitStack() as held:
        slow = [held.enter_context(unread(strict, asked)) for _ in range(SLOW_READERS)]
        assert is_served(strict)
        soon(lambda: all(map(is_dropped, slow)), "the end of those who take nothing")
    # What is on its way to one client, never what it has not taken.
    assert peak_memory(strict) - before < SLOW_READERS * 2 * MB
    assert is_served(strict)


def test_a_reader_that_takes_little_but_steadily_gets_everything(
    strict: RunningServer, box: DevboxOverHttp
) -> None:
    script = "head -c 600000 /dev/zero | tr '\\0' x | fold -w 99"
    digest, seen, rest = hashlib.sha256(), 0, b""
    begin = time.monotonic()
    with unread(strict, stream(strict, box, script)) as reader:
        while seen < 600_000:
            piece = reader.recv(4096)
            assert piece, f"cut off after {seen} bytes in {time.monotonic() - begin:.1f} s"
            *lines, rest = (rest + piece).split(b"\n\n")
            for line in lines:
                text = json.loads(line[line.index(b"data: ") + 6 :])["output"]
                digest.update(text.encode())
                seen += text.count("x")
            time.sleep(0.02)
    assert time.monotonic() - begin > CLIENT_SECONDS, "too fast to show anything"
    expected = ("x" * 99 + "\n") * (600_000 // 99) + "x" * (600_000 % 99)
    assert digest.hexdigest() == hashlib.sha256(expected.encode()).hexdigest()


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /v1/dev", b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-half: "],
    ids=["nothing", "half a line", "half a header"],
)
def test_a_connection_that_never_asks_is_closed(strict: RunningServer, sent: bytes) -> None:
    with socket.create_connection(address(strict), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(sent)
        assert connection.recv(100) == b""


def test_a_body_that_never_comes_is_408_and_changes_nothing(strict: RunningServer) -> None:
    headers = ("content-type: application/json", "content-length: 100")
    with socket.create_connection(address(strict), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(head(strict, "POST", "/v1/secrets", *headers) + b'{"name": "HALF", "val')
        assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
    status, body = asyncio.run(answer(strict, request(strict, "GET", "/v1/secrets")))
    assert (status, json.loads(body)["secrets"]) == (200, [])


def test_a_client_that_closed_its_side_still_gets_its_answer(strict: RunningServer) -> None:
    with socket.create_connection(address(strict), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(request(strict, "GET", "/healthz"))
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_vanished_in_a_long_poll_is_forgotten(
    strict: RunningServer, box: DevboxOverHttp
) -> None:
    asked = stream(strict, box, "sleep 600")
    for _ in range(3 * MOST):
        with unread(strict, asked) as connection:
            assert connection.recv(9) == b"HTTP/1.1 "
    assert is_served(strict)


def test_idle_connections_make_room_for_whoever_asks(strict: RunningServer) -> None:
    with ExitStack() as held:
        idle = [held.enter_context(socket.create_connection(address(strict))) for _ in range(2 * MOST)]
        assert is_served(strict)
        soon(lambda: any(map(is_dropped, idle)), "room")


def test_when_all_are_busy_one_more_is_told_to_come_again(strict: RunningServer, box: DevboxOverHttp) -> None:
    asked = stream(strict, box, "sleep 600")
    with ExitStack() as held:
        for _ in range(MOST):
            reader = held.enter_context(unread(strict, asked))
            assert reader.recv(9) == b"HTTP/1.1 "
        refused = held.enter_context(unread(strict, request(strict, "GET", "/healthz")))
        told = refused.recv(1000)
        assert told.startswith(b"HTTP/1.1 429 "), told
        assert b"try again" in told
    soon(lambda: is_served(strict), "room after they went")


def test_pages_of_five_thousand_cost_the_same_every_time(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", ["--driver", "fake"]) as server:
        server.stop()
        asyncio.run(_keep_objects(tmp_path / "data" / "benchyard.db"))
        server.start()
        headers = {"authorization": f"Bearer {server.key}"}
        used = []
        with httpx.Client(base_url=server.url, headers=headers, timeout=PATIENCE_SECONDS) as client:
            for _ in range(12):
                page = good(client.get("/v1/objects", params={"limit": PAGE}))
                assert len(page["objects"]) == PAGE
                assert page["has_more"]
                used.append(memory(server))
            rest = good(client.get("/v1/objects", params={"limit": PAGE, "starting_after": _last(page)}))
            assert (len(rest["objects"]), rest["has_more"]) == (1, False)
            too_many = client.get("/v1/objects", params={"limit": PAGE + 1})
            assert too_many.status_code == 400, too_many.text
        assert used[-1] - used[3] < 8 * MB, used


async def _keep_objects(database: Path) -> None:
    async with Store(f"sqlite:///{database}") as store:
        objects = store.collection("objects", StoredObject)
        for number in range(PAGE + 1):
            await objects.insert(_object(number))


def _object(number: int) -> StoredObject:
    return StoredObject(
        id=f"obj_{number:06}", create_time_ms=number, name=f"object {number}", content_type="text"
    )


def _last(page: dict[str, list[dict[str, str]]]) -> str:
    return page["objects"][-1]["id"]
