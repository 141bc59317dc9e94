"""How errors leave the server, whatever raised them."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.middleware import Middleware

from benchyard.api.errors import add_error_handlers, error_response
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.log import RequestLog
from benchyard.api.middleware.limits import RequestLimits
from benchyard.errors import (
    Conflict,
    DevboxGone,
    NotFound,
    NotYet,
    StartFailed,
    StillWaiting,
    StoreError,
    UsageError,
)
from benchyard.models.base import Model
from benchyard.settings import Settings


class Body(Model):
    text: str


def small_app(client_seconds: float) -> FastAPI:
    settings = Settings(data=Path("unused"), max_body_bytes=100, client_seconds=client_seconds)
    app = FastAPI(middleware=[Middleware(RequestLog), Middleware(RequestLimits, settings=settings)])
    add_error_handlers(app)

    app.router.route_class = LazyRoute

    @app.post("/fail")
    async def fail(request: Request) -> None:
        raise RuntimeError("a secret detail")

    @app.post("/take")
    async def take(body: Body) -> int:
        return len(body.text)

    return app


def sent(path: str, content: bytes | AsyncIterator[bytes], client_seconds: float = 60) -> httpx.Response:
    async def main() -> httpx.Response:
        transport = httpx.ASGITransport(small_app(client_seconds), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.post(path, content=content, headers={"content-type": "application/json"})

    return asyncio.run(main())


def test_an_unexpected_error_is_500_with_an_id_that_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "benchyard"):
        answer = sent("/fail", b"")
    assert answer.status_code == 500
    assert "secret detail" not in answer.text
    assert answer.headers["x-should-retry"] == "false"
    (logged,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert logged.__dict__["fields"]["error_id"] == answer.json()["details"]["error_id"]
    assert logged.exc_info is not None


def test_a_body_that_grows_over_the_limit_is_413() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"text": "'
        for _ in range(20):
            yield b"x" * 10

    answer = sent("/take", pieces())
    assert answer.status_code == 413
    assert answer.json()["details"] == {"limit_bytes": 100}


def test_a_body_within_the_limit_is_taken() -> None:
    assert sent("/take", b'{"text": "abc"}').json() == 3


def test_a_body_that_does_not_arrive_is_408() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"text":'
        await asyncio.sleep(3600)

    answer = sent("/take", pieces(), client_seconds=0.05)
    assert answer.status_code == 408


def test_a_body_that_drips_is_408_however_short_its_pauses_are() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"text": "'
        while True:
            await asyncio.sleep(0.01)
            yield b"x"

    answer = sent("/take", pieces(), client_seconds=0.2)
    assert answer.status_code == 408


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (UsageError("x"), 400, None),
        (NotFound("x"), 404, None),
        (Conflict("x"), 409, "false"),
        (DevboxGone("x"), 409, "false"),
        (StillWaiting("x"), 408, "true"),
        (NotYet("x"), 501, "false"),
        (StartFailed("x"), 500, "false"),
        (StoreError("x"), 503, "true"),
    ],
)
def test_an_error_says_whether_a_retry_helps(error: UsageError, status: int, retry: str | None) -> None:
    answer = error_response(error)
    assert answer.status_code == status
    assert answer.headers.get("x-should-retry") == retry


def test_a_database_that_fails_asks_to_come_back() -> None:
    assert error_response(StoreError("x")).headers["retry-after"] == "1"


def test_details_of_any_kind_can_be_sent() -> None:
    body = json.loads(bytes(error_response(UsageError("x" * 10_000, path=Path("/a"))).body))
    assert body["details"] == {"path": "/a"}
    assert len(body["message"]) == 2000
