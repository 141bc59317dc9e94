"""Parts that OpenAI's two dialects share."""

from typing import Any

from benchyard.gateway.dialects.base import Refusal
from benchyard.gateway.dialects.values import fields, text

_CODES: dict[Refusal, str] = {
    "auth": "invalid_api_key",
    "forbidden": "permission_denied",
    "budget": "budget_exhausted",
    "too_large": "request_too_large",
    "bad_request": "invalid_request",
    "unavailable": "upstream_unavailable",
}


def model(body: Any) -> str | None:
    """Return the model that a request asks for."""
    return text(fields(body).get("model")) or None


def streams(body: Any) -> bool:
    """Tell whether a request asks for a stream."""
    return fields(body).get("stream") is True


def refusal(kind: Refusal, message: str) -> Any:
    """Return the body of an error."""
    error = "server_error" if kind == "unavailable" else "invalid_request_error"
    return {"error": {"message": message, "type": error, "param": None, "code": _CODES[kind]}}
