"""Parts that OpenAI's two dialects share."""

from collections.abc import Callable
from typing import Any

from benchyard.gateway.dialects.base import Dialect, Refusal
from benchyard.gateway.dialects.entries import Piece, Who, text_from_value
from benchyard.gateway.dialects.values import fields

_CODES: dict[Refusal, str] = {
    "auth": "invalid_api_key",
    "forbidden": "permission_denied",
    "budget": "budget_exhausted",
    "too_large": "request_too_large",
    "bad_request": "invalid_request",
    "unavailable": "upstream_unavailable",
}
ROLES: dict[str, Who] = {"system": "system", "developer": "system", "assistant": "agent"}


class OpenAiDialect(Dialect):
    """Conventions of both."""

    def refusal(self, kind: Refusal, message: str) -> Any:
        error = "server_error" if kind == "unavailable" else "invalid_request_error"
        return {"error": {"message": message, "type": error, "param": None, "code": _CODES[kind]}}


def content_pieces(content: Any, piece: Callable[[dict[str, Any]], Piece]) -> tuple[Piece, ...]:
    """Return the pieces of a message's content: a text, or parts that `piece` reads."""
    if isinstance(content, list):
        return tuple(piece(fields(part)) for part in content)
    return () if content is None else (text_from_value(content),)
