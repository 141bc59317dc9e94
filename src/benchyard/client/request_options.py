"""Options of one request that every method of the original SDK takes beside its own parameters."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel

from benchyard.client.core import Open, Request, Send, Steps

T = TypeVar("T")
NAMES = ("extra_headers", "extra_query", "extra_body", "idempotency_key", "timeout", "polling_config")


def taken(given: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Take the options that are no parameters of the operation itself out of what was given.

    A `polling_config` says how long an operation that waits may wait.
    """
    options = {name: given.pop(name) for name in NAMES if name in given and name not in own}
    polling = options.pop("polling_config", None)
    if polling is not None and "timeout" in own and given.get("timeout") is None:
        given["timeout"] = _of(polling, "timeout_seconds")
    if "timeout" in given:
        given["timeout"] = _seconds(given["timeout"])
    return {name: value for name, value in options.items() if value is not None}


def applied(steps: Steps[T], options: Mapping[str, Any]) -> Steps[T]:
    """The same operation, its requests with these options."""
    keyed: str | None = None
    result: Any = None
    error: httpx.TransportError | None = None
    while True:
        try:
            action = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as done:
            value: T = done.value
            return value
        if isinstance(action, Send | Open) and not action.request.is_signed:
            request = _with(action.request, options)
            # A key stands for one request: what follows in the same operation has its own.
            if request.method != "GET" and keyed in (None, request.path) and "idempotency_key" in options:
                keyed = request.path
                request = replace(request, id=str(options["idempotency_key"]))
            action = replace(action, request=request)
        try:
            result, error = (yield action), None
        except httpx.TransportError as caught:
            result, error = None, caught


def _with(request: Request, options: Mapping[str, Any]) -> Request:
    seconds = _seconds(options.get("timeout"))
    body = request.json
    if extra := options.get("extra_body"):
        if isinstance(body, BaseModel):
            body = body.model_dump(mode="json", exclude_none=True, by_alias=True)
        body = {**(body or {}), **extra}
    return replace(
        request,
        query={**request.query, **(options.get("extra_query") or {})},
        headers={**request.headers, **(options.get("extra_headers") or {})},
        json=body,
        timeout=request.timeout if seconds is None or request.long_poll else seconds,
    )


def _seconds(given: Any) -> float | None:
    """A time limit: a number, or what `httpx.Timeout` says of reading."""
    if isinstance(given, httpx.Timeout):
        return given.read
    return float(given) if isinstance(given, int | float) else None


def _of(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
