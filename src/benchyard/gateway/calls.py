"""Calls of models as they are recorded and reported, and what several cost."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TokenUsage:
    """Tokens that a call used, as its answer reports them."""

    input_tokens: int = 0
    """All input tokens, including those read from or written to a cache."""
    output_tokens: int = 0
    """All output tokens, including the model's reasoning."""
    cached_tokens: int = 0
    """Input tokens that were read from a cache."""
    cache_write_tokens: int = 0
    """Input tokens that were written to a cache."""
    reasoning_tokens: int = 0
    """Output tokens that the model spent on reasoning."""

    @property
    def total_tokens(self) -> int:
        """Tokens counted against a token budget."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Call:
    """Request for a model, and its outcome."""

    number: int
    """Number of the call, from 1, in order of arrival."""
    dialect: str
    """`anthropic`, `responses`, `chat` or `gemini`."""
    provider: str
    """The route that the call took, such as `anthropic` or `openai`."""
    path: str
    model: str | None
    """The model as the agent named it."""
    status: int
    """Status of the answer; 0 if there was no answer."""
    started_ms: int
    ended_ms: int
    request: Any = None
    """The body as the agent sent it."""
    response: Any = None
    """The whole reply; of a stream, the reply that the same call without streaming would have got."""
    first_byte_ms: int | None = None
    usage: TokenUsage | None = None
    """None if the answer does not report its usage."""
    cost_usd: float | None = None
    """None if the model has no known price."""
    rate_limited_ms: int = 0
    """Milliseconds that the gateway waited for the provider to accept the call."""
    error: str | None = None
    """The failure, in one line."""


def cost_of(calls: Iterable[Call]) -> float | None:
    """Return the total cost of calls, None if unknown; a failed call without reported usage costs nothing."""
    known = [call.cost_usd for call in calls if call.usage is not None or not is_failed(call)]
    costs = [cost for cost in known if cost is not None]
    return sum(costs) if len(costs) == len(known) else None


def usage_of(calls: Iterable[Call]) -> TokenUsage:
    """Return the total usage of calls."""
    return sum((call.usage for call in calls if call.usage is not None), TokenUsage())


def is_failed(call: Call) -> bool:
    """Tell whether a call has no answer, or an error as its answer."""
    return not 200 <= call.status < 400
