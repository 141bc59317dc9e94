"""The contract of a wire: how requests are read and replies written in one dialect."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from benchyard.gateway.calls import TokenUsage
from benchyard.scripted_model.replies import ScriptedReply
from benchyard.scripted_model.requests import ModelRequest


@dataclass(frozen=True)
class ReportedUsage:
    """The usage reported by a reply: all of it, and the part sent at the beginning of a stream."""

    usage: TokenUsage | None
    early: TokenUsage | None = None
    followers: int = 0
    """Number of events of a stream after the one that reports all of it."""


class ModelWire(ABC):
    """A dialect of requests and replies."""

    name: ClassVar[str]
    stream_type: ClassVar[str] = "text/event-stream"

    @abstractmethod
    def read(self, path: str, body: Mapping[str, Any], size: int) -> ModelRequest:
        """Read a request; its body had `size` bytes."""

    @abstractmethod
    def whole(self, request: ModelRequest, reply: ScriptedReply) -> Any:
        """Return the body of a reply that is not a stream."""

    @abstractmethod
    def events(self, request: ModelRequest, reply: ScriptedReply) -> Iterator[bytes]:
        """Yield the events of a stream, in their form on the wire."""

    @abstractmethod
    def error(self, status: int, message: str) -> Any:
        """Return the body of a reply that reports an error."""

    def reported_usage(self, request: ModelRequest, reply: ScriptedReply) -> ReportedUsage:
        """Return the usage that this reply reports."""
        return ReportedUsage(reply.usage)


def to_json(value: Any) -> bytes:
    """Return JSON in its form on the wire."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def data_event(value: Any) -> bytes:
    """Return an event without a name."""
    return b"data: " + to_json(value) + b"\n\n"


def named_event(value: Mapping[str, Any]) -> bytes:
    """Return an event with its `type` as its name."""
    return f"event: {value['type']}\n".encode() + data_event(value)


def estimate_tokens(size: int) -> int:
    """Estimate the number of tokens of a request of so many bytes."""
    return max(1, size // 4)


_ERRORS = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "forbidden"),
    404: ("invalid_request_error", "not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def openai_error(status: int, message: str) -> Any:
    """Return the body of a reply that reports an error."""
    default = ("server_error", "server_error") if status >= 500 else ("invalid_request_error", None)
    kind, code = _ERRORS.get(status, default)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
