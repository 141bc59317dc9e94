"""Calls of models as they are recorded and reported, and their totals."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
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
    """The whole answer: of a stream, what the same call without streaming would have answered."""
    first_byte_ms: int | None = None
    usage: TokenUsage | None = None
    """None if the answer does not report its usage."""
    cost_usd: float | None = None
    """None if the model has no known price."""
    rate_limited_ms: int = 0
    """Milliseconds that the gateway waited for the provider to accept the call."""
    error: str | None = None
    """The failure, in one line."""


@dataclass(frozen=True)
class ModelTotals:
    """Totals over the calls of one model."""

    model: str | None
    """The model as the agent named it; None for calls that named none."""
    calls: int = 0
    failed: int = 0
    """Number of calls without an answer, or answered with an error."""
    usage: TokenUsage = field(default_factory=TokenUsage)
    cost_usd: float | None = 0.0
    """None as soon as one call has no known price."""
    first_byte_p50_ms: float | None = None
    """Median time to the first byte of the answer, over the answered calls; None if no call was answered."""
    rate_limited_ms: int = 0


def totals_by_model(calls: Iterable[Call]) -> list[ModelTotals]:
    """Return the totals per model, sorted by tokens, the largest first."""
    groups: dict[str | None, list[Call]] = {}
    for call in calls:
        groups.setdefault(call.model, []).append(call)
    totals = [_totals(model, group) for model, group in groups.items()]
    return sorted(totals, key=lambda row: (-row.usage.total_tokens, row.model or ""))


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


def _totals(model: str | None, calls: list[Call]) -> ModelTotals:
    begun = [(call.started_ms, call.first_byte_ms) for call in calls if not is_failed(call)]
    waits = [first - started for started, first in begun if first is not None]
    return ModelTotals(
        model,
        calls=len(calls),
        failed=sum(map(is_failed, calls)),
        usage=usage_of(calls),
        cost_usd=cost_of(calls),
        first_byte_p50_ms=statistics.median(waits) if waits else None,
        rate_limited_ms=sum(call.rate_limited_ms for call in calls),
    )
