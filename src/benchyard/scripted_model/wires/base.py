"""The contract of a wire: how requests are read and answers written in one dialect."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from benchyard.gateway.calls import TokenUsage
from benchyard.scripted_model.answers import ScriptedAnswer
from benchyard.scripted_model.requests import ModelRequest


@dataclass(frozen=True)
class ToldUsage:
    """What an answer says of its own cost: all of it, and what the beginning of a stream has said already."""

    usage: TokenUsage | None
    early: TokenUsage | None = None
    followers: int = 0
    """How many events of a stream come after the one that tells all of it."""


class ModelWire(ABC):
    """One dialect."""

    name: ClassVar[str]
    stream_type: ClassVar[str] = "text/event-stream"

    @abstractmethod
    def read(self, path: str, body: Mapping[str, Any], size: int) -> ModelRequest:
        """What a request asks for; its body was so many bytes."""

    @abstractmethod
    def whole(self, asked: ModelRequest, answer: ScriptedAnswer) -> Any:
        """The body of an answer that is no stream."""

    @abstractmethod
    def events(self, asked: ModelRequest, answer: ScriptedAnswer) -> Iterator[bytes]:
        """The events of a stream, each as it goes over the wire."""

    @abstractmethod
    def error(self, status: int, message: str) -> Any:
        """The body of an answer that something went wrong."""

    def told(self, asked: ModelRequest, answer: ScriptedAnswer) -> ToldUsage:
        """What this answer says it used."""
        return ToldUsage(answer.usage)


def to_json(value: Any) -> bytes:
    """JSON as it goes over the wire."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def data_event(value: Any) -> bytes:
    """An event without a name."""
    return b"data: " + to_json(value) + b"\n\n"


def named_event(value: Mapping[str, Any]) -> bytes:
    """An event with the name that its `type` is."""
    return f"event: {value['type']}\n".encode() + data_event(value)


def estimate_tokens(size: int) -> int:
    """About how many tokens a request of so many bytes is."""
    return max(1, size // 4)


_ERRORS = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "forbidden"),
    404: ("invalid_request_error", "not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def openai_error(status: int, message: str) -> Any:
    """The body of an answer that something went wrong."""
    default = ("server_error", "server_error") if status >= 500 else ("invalid_request_error", None)
    kind, code = _ERRORS.get(status, default)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
