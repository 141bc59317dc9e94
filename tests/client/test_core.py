"""Requests, retries and errors, the same for both clients."""

import asyncio

import pytest

from benchyard.client import AsyncClient, Client, Server, operations
from benchyard.client.operations import at
from benchyard.errors import (
    BenchyardError,
    Conflict,
    ImageError,
    NotFound,
    NotYet,
    ServerUnreachable,
    StillWaiting,
    TooMany,
    Unauthorized,
    UsageError,
)
from benchyard.models.devboxes import DevboxStatus
from tests.client.stub import Answer, devbox, error, in_turn, stub, talking


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "FIRST_DELAY", 0.001)


def test_the_key_goes_with_every_request() -> None:
    with stub(lambda asked: Answer(devbox())) as server, Client(server.server) as client:
        client.devboxes.get("dbx_1")
    assert server.asked[0].headers["authorization"] == "Bearer test-key"


def test_both_clients_speak_the_same() -> None:
    async def awaited(server: Server) -> str:
        async with AsyncClient(server) as client:
            return (await client.devboxes.get("dbx_1")).id

    with stub(lambda asked: Answer(devbox())) as server, Client(server.server) as client:
        assert client.devboxes.get("dbx_1").id == asyncio.run(awaited(server.server))
    first, second = server.asked
    assert (first.method, first.path, first.headers) == (second.method, second.path, second.headers)


def test_a_retry_carries_the_same_request_id_and_a_new_call_another() -> None:
    script = in_turn(Answer(status=503), Answer(status=500), Answer(devbox()))
    with stub(script) as server, Client(server.server) as client:
        client.devboxes.create()
        client.devboxes.create()
    ids = [asked.headers["x-request-id"] for asked in server.asked]
    assert len(ids) == 4
    assert ids[0] == ids[1] == ids[2] != ids[3]


def test_reading_carries_no_request_id() -> None:
    with stub(lambda asked: Answer(devbox())) as server, Client(server.server) as client:
        client.devboxes.get("dbx_1")
    assert "x-request-id" not in server.asked[0].headers


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_passing_failures_are_tried_again(status: int) -> None:
    with stub(in_turn(Answer(status=status), Answer(devbox()))) as server, Client(server.server) as client:
        assert client.devboxes.get("dbx_1").id == "dbx_1"
    assert len(server.asked) == 2


def test_the_server_can_forbid_a_retry() -> None:
    script = in_turn(error(500, "devbox_error", x_should_retry="false"), Answer(devbox()))
    with stub(script) as server, Client(server.server) as client, pytest.raises(BenchyardError):
        client.devboxes.get("dbx_1")
    assert len(server.asked) == 1


def test_the_server_can_ask_for_a_retry() -> None:
    script = in_turn(error(409, "conflict", x_should_retry="true", retry_after="0.01"), Answer(devbox()))
    with stub(script) as server, Client(server.server) as client:
        client.devboxes.get("dbx_1")
    assert len(server.asked) == 2


def test_retries_come_to_an_end() -> None:
    with talking(lambda asked: error(429, "too_many")) as (client, server), pytest.raises(TooMany):
        client.devboxes.get("dbx_1")
    assert len(server.asked) == operations.RETRIES + 1


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "bad_request", UsageError),
        (400, "image_error", ImageError),
        (401, "unauthorized", Unauthorized),
        (404, "not_found", NotFound),
        (409, "conflict", Conflict),
        (501, "not_implemented", NotYet),
        (404, "a code of the future", NotFound),
        (418, "a code of the future", UsageError),
    ],
)
def test_the_code_of_an_answer_names_the_class(status: int, code: str, kind: type[BenchyardError]) -> None:
    with (
        talking(lambda asked: error(status, code, "told why")) as (client, _server),
        pytest.raises(BenchyardError) as caught,
    ):
        client.devboxes.get("dbx_1")
    assert type(caught.value) is kind
    assert caught.value.message == "told why"
    assert caught.value.details == {"why": "test"}


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"message": 7, "details": "none"}', b""])
def test_an_error_that_is_not_ours_is_still_an_error(body: bytes) -> None:
    with talking(lambda asked: Answer(body, 404)) as (client, _server), pytest.raises(NotFound, match="404"):
        client.devboxes.get("dbx_1")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}"])
def test_an_answer_that_is_not_ours_is_an_error(body: bytes) -> None:
    with (
        talking(lambda asked: Answer(body)) as (client, _server),
        pytest.raises(BenchyardError, match="answer"),
    ):
        client.devboxes.get("dbx_1")


def test_no_server_is_an_error_that_says_what_to_check(unused_url: str) -> None:
    with Client(Server(unused_url, "key")) as client, pytest.raises(ServerUnreachable, match="BENCHYARD_URL"):
        client.devboxes.get("dbx_1")


def test_a_wait_asks_again_until_the_status_is_reached() -> None:
    script = in_turn(error(408, "still_waiting"), error(408, "still_waiting"), Answer(devbox("running")))
    with stub(script) as server, Client(server.server) as client:
        assert client.devboxes.wait("dbx_1", [DevboxStatus.RUNNING]).status == "running"
    assert len(server.asked) == 3
    assert server.asked[0].json["statuses"] == ["running"]


def test_a_wait_ends_with_its_time() -> None:
    with talking(lambda asked: error(408, "still_waiting")) as (client, server), pytest.raises(StillWaiting):
        client.devboxes.wait("dbx_1", [DevboxStatus.RUNNING], timeout=0.0)
    assert len(server.asked) == 1


def test_fields_that_were_never_set_are_not_sent() -> None:
    with stub(lambda asked: Answer(devbox())) as server, Client(server.server) as client:
        client.devboxes.create()
    assert server.asked[0].json == {}


@pytest.mark.parametrize("id", ["", ".", ".."])
def test_an_id_that_would_leave_the_path_is_refused(id: str) -> None:
    with pytest.raises(UsageError):
        at("/v1/devboxes/{}", id)


def test_an_id_stays_one_segment() -> None:
    assert at("/v1/devboxes/{}/usage", "a/b?c#d e") == "/v1/devboxes/a%2Fb%3Fc%23d%20e/usage"


def test_the_key_is_not_in_the_repr() -> None:
    assert "test-key" not in repr(Server("http://127.0.0.1:1", "test-key"))


def test_a_class_without_its_own_code_stands_for_no_error() -> None:
    class Particular(UsageError):
        """As any module may define one."""

    with (
        talking(lambda asked: error(400, "bad_request", "told why")) as (client, _server),
        pytest.raises(UsageError) as caught,
    ):
        client.devboxes.get("dbx_1")
    assert type(caught.value) is UsageError
    assert issubclass(Particular, UsageError)
