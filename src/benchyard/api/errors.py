"""Errors on the wire: `{"code", "message", "details"}`, with headers that tell whether a retry can help."""

import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from benchyard.errors import (
    BenchyardError,
    Conflict,
    DevboxGone,
    NotFound,
    StoreError,
    UsageError,
    from_os,
    is_disk_full,
)
from benchyard.models.base import Model

_MAX_MESSAGE = 2000


class ErrorView(Model):
    """An error as the wire shows it."""

    code: str
    message: str
    details: dict[str, Any]


class MethodNotAllowed(UsageError):
    """The path exists, but not for this method."""

    code = "method_not_allowed"
    http_status = 405


class RangeNotThere(UsageError):
    """The requested range has no byte of the object."""

    code = "range_not_there"
    http_status = 416


def add_error_handlers(app: FastAPI) -> None:
    """Let every error of a route be answered as JSON in our format."""
    app.add_exception_handler(BenchyardError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(OSError, _on_os)


def error_response(error: BenchyardError) -> Response:
    """Return the answer for an error."""
    body = error.body()
    body["message"] = body["message"][:_MAX_MESSAGE]
    # Details may hold any value; a failure to encode one would hide the error itself.
    content = json.dumps(body, default=str)
    return Response(content, error.http_status, dict(_headers(error)), "application/json")


def _headers(error: BenchyardError) -> Mapping[str, str]:
    headers = {}
    if error.retryable:
        headers["x-should-retry"] = "true"
    elif error.http_status >= 500 or isinstance(error, Conflict | DevboxGone):
        # Without this, a client would retry any 409 and 5xx, with pauses in between.
        headers["x-should-retry"] = "false"
    if isinstance(error, StoreError) and error.retryable:
        headers["retry-after"] = "1"
    if error.http_status == 401:
        headers["www-authenticate"] = "Bearer"
    return headers


async def _on_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, BenchyardError):
        raise error
    return error_response(error)


async def _on_os(request: Request, error: Exception) -> Response:
    if not isinstance(error, OSError) or not is_disk_full(error):
        raise error
    return error_response(from_os(error))


async def _on_invalid(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    first: dict[str, Any] = error.errors()[0]
    if first.get("type") == "json_invalid":
        return error_response(UsageError(f"the body is not JSON: {first['ctx']['error']}", field="body"))
    place, field = _place(first["loc"])
    return error_response(UsageError(f"{place}{field}: {first['msg']}", field=field))


async def _on_http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if isinstance(error.__cause__, BenchyardError):
        return error_response(error.__cause__)
    if error.status_code == 404:
        return error_response(NotFound(f"no such path: {request.url.path[:200]}"))
    if error.status_code == 405:
        wrong = MethodNotAllowed(f"{request.method} is not possible on {request.url.path[:200]}")
        response = error_response(wrong)
        response.headers["allow"] = ", ".join(sorted(_verbs(request)))
        return response
    body = {"code": "bad_request", "message": str(error.detail)[:_MAX_MESSAGE], "details": {}}
    return JSONResponse(body, status_code=error.status_code, headers=error.headers)


def _verbs(request: Request) -> set[str]:
    routes = (route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE)
    return {verb for route in routes for verb in getattr(route, "methods", None) or ()}


def _place(location: tuple[int | str, ...]) -> tuple[str, str]:
    where, *path = location or ("body",)
    name = ".".join(str(part) for part in path)
    if not name:
        return "", str(where)
    return ("" if where == "body" else f"{where} "), name[:200]
