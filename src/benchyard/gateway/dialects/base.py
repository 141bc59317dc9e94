"""The dialect contract: what the gateway must understand of what passes through it. All of it is pure."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

from benchyard.gateway.calls import Usage

Refusal = Literal["auth", "forbidden", "budget", "too_large", "bad_request", "unavailable"]
"""Why the gateway answers by itself."""
STATUS: Mapping[Refusal, int] = {
    "auth": 401,
    "forbidden": 403,
    "budget": 402,
    "too_large": 413,
    "bad_request": 400,
    "unavailable": 502,
}
"""A used-up budget is a 402: every agent takes that as final, soon, where it would try again after a 429."""


class Dialect(ABC):
    """One way of speaking with models over HTTP."""

    name: ClassVar[str]
    shared: ClassVar[tuple[str, ...]]
    """Keys of a request whose values return in the next one: kept once each, lists item by item."""

    @abstractmethod
    def model(self, path: str, body: Any) -> str | None:
        """The model a request asks for."""

    @abstractmethod
    def streams(self, path: str, body: Any) -> bool:
        """Whether the answer will be a stream of events."""

    @abstractmethod
    def whole(self, events: Iterable[Any]) -> Any:
        """The answer that these events (their JSON) come to, as a call without streaming has it.

        Of a stream that broke off: what had come until then. None if nothing had.
        """

    def bare(self, events: list[Any]) -> list[Any]:
        """These events without content: enough for what the answer used, and which model says it answered."""
        return events

    @abstractmethod
    def usage(self, response: Any) -> Usage | None:
        """What an answer says it used; None if it says nothing that can be read."""

    @abstractmethod
    def refusal(self, kind: Refusal, message: str) -> Any:
        """The body of an answer that refuses a request, as clients of this dialect read it."""
