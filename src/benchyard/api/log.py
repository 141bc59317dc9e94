"""The server's log, JSON lines on stderr with one per request, and the handler of last resort for errors."""

import json
import logging
import secrets
import sys
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benchyard.api.errors import error_response
from benchyard.errors import BenchyardError

logger = logging.getLogger("benchyard")

_MAX_REQUEST_ID = 256


class UnexpectedError(BenchyardError):
    """A fault of the server itself; the log has its trace under the same id."""


class JsonLines(logging.Formatter):
    """Log formatter that writes a JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_to_stderr() -> None:
    """Send all log records to stderr, except uvicorn's own access lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logger.setLevel(logging.INFO)


class RequestLog:
    """Writes a line per request, echoes `x-request-id`, and answers uncaught errors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        answer = _ResponseSender(send, _request_id(scope))
        try:
            await self._app(scope, receive, answer.send)
        except Exception as error:  # noqa: BLE001  (the API's last handler: nothing may reach the client as it is)
            await _give_up(error, scope, receive, answer)
        finally:
            logger.info("request", extra={"fields": _fields(scope, answer, time.monotonic() - started)})


class _ResponseSender:
    """Sender of an answer that adds the request's id and notes the status."""

    def __init__(self, send: Send, request_id: bytes) -> None:
        self._send = send
        self.request_id = request_id
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.request_id:
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", self.request_id)]
        await self._send(message)


async def _give_up(error: Exception, scope: Scope, receive: Receive, answer: _ResponseSender) -> None:
    if isinstance(error, BenchyardError) and answer.status is None:
        await error_response(error)(scope, receive, answer.send)
        return
    error_id = secrets.token_hex(8)
    logger.error("unexpected error", exc_info=error, extra={"fields": {"error_id": error_id}})
    if answer.status is None:
        message = f"the server failed on this request; its log has the reason under {error_id}"
        await error_response(UnexpectedError(message, error_id=error_id))(scope, receive, answer.send)


def _request_id(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            return bytes(value[:_MAX_REQUEST_ID])
    return b""


def _fields(scope: Scope, answer: _ResponseSender, seconds: float) -> dict[str, Any]:
    route = scope.get("route")
    return {
        "method": scope["method"],
        "path": getattr(route, "path", "(unmatched)"),
        "status": answer.status,
        "ms": round(seconds * 1000, 1),
        "request_id": answer.request_id.decode("latin-1"),
    }
