"""The contract of a wire: how requests are read and answers written in one dialect."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from benchyard.gateway.calls import Usage
from benchyard.testing.model.answers import Answer
from benchyard.testing.model.asked import Asked


@dataclass(frozen=True)
class Told:
    """What an answer says of its own cost: all of it, and what the beginning of a stream has said already."""

    usage: Usage | None
    early: Usage | None = None
    followers: int = 0
    """How many events of a stream come after the one that tells all of it."""


class Wire(ABC):
    """One dialect."""

    name: ClassVar[str]
    stream_type: ClassVar[str] = "text/event-stream"

    @abstractmethod
    def read(self, path: str, body: Mapping[str, Any], size: int) -> Asked:
        """What a request asks for; its body was so many bytes."""

    @abstractmethod
    def whole(self, asked: Asked, answer: Answer) -> Any:
        """The body of an answer that is no stream."""

    @abstractmethod
    def events(self, asked: Asked, answer: Answer) -> Iterator[bytes]:
        """The events of a stream, each as it goes over the wire."""

    @abstractmethod
    def error(self, status: int, message: str) -> Any:
        """The body of an answer that something went wrong."""

    def told(self, asked: Asked, answer: Answer) -> Told:
        """What this answer says it used."""
        return Told(answer.usage)


def dumped(value: Any) -> bytes:
    """JSON as it goes over the wire."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def data(value: Any) -> bytes:
    """An event without a name."""
    return b"data: " + dumped(value) + b"\n\n"


def named(value: Mapping[str, Any]) -> bytes:
    """An event with the name that its `type` is."""
    return f"event: {value['type']}\n".encode() + data(value)


def counted(size: int) -> int:
    """About how many tokens a request of so many bytes is."""
    return max(1, size // 4)
