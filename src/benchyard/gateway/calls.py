"""Calls of models, as they are kept and told, and what they came to."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TokenUsage:
    """What a call used, as its answer says."""

    input_tokens: int = 0
    """All that went in, with what was read from or written to a cache."""
    output_tokens: int = 0
    """All that came out, with what the model thought to itself."""
    cached_tokens: int = 0
    """Of the input, what was read from a cache."""
    cache_write_tokens: int = 0
    """Of the input, what was written to a cache."""
    reasoning_tokens: int = 0
    """Of the output, what the model thought to itself."""

    @property
    def total_tokens(self) -> int:
        """What a budget of tokens counts."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Call:
    """One request for a model, and what came of it."""

    number: int
    """From 1, in the order in which they came."""
    dialect: str
    """`anthropic`, `responses`, `chat` or `gemini`."""
    provider: str
    """The route it took, as `anthropic` or `openai`."""
    path: str
    model: str | None
    """As the agent named it."""
    status: int
    """Of the answer; 0 if there was none."""
    started_ms: int
    ended_ms: int
    request: Any = None
    """The body as the agent sent it."""
    response: Any = None
    """The whole answer: of a stream, what the same call without streaming would have answered."""
    first_byte_ms: int | None = None
    usage: TokenUsage | None = None
    """None if the answer does not say."""
    cost_usd: float | None = None
    """None if the model has no known price."""
    rate_limited_ms: int = 0
    """How long the gateway waited for the provider to take it."""
    error: str | None = None
    """What went wrong, in a line."""


@dataclass(frozen=True)
class ModelTotals:
    """The calls of one model."""

    model: str | None
    """As the agent named it; None for calls that named none."""
    calls: int = 0
    failed: int = 0
    """Of the calls, those that were not answered, or with an error."""
    usage: TokenUsage = field(default_factory=TokenUsage)
    cost_usd: float | None = 0.0
    """None as soon as one call has no known price."""
    first_byte_p50_ms: float | None = None
    """How long the middle one of the answered calls took until its answer began; None if none did."""
    rate_limited_ms: int = 0


def totals_by_model(calls: Iterable[Call]) -> list[ModelTotals]:
    """What the calls of each model came to; the model with the most tokens first."""
    groups: dict[str | None, list[Call]] = {}
    for call in calls:
        groups.setdefault(call.model, []).append(call)
    found = [_totals(model, group) for model, group in groups.items()]
    return sorted(found, key=lambda each: (-each.usage.total_tokens, each.model or ""))


def cost_of(calls: Iterable[Call]) -> float | None:
    """What calls cost together; a call that failed and says nothing of what it used costs nothing."""
    known = [call.cost_usd for call in calls if call.usage is not None or not is_failed(call)]
    costs = [cost for cost in known if cost is not None]
    return sum(costs) if len(costs) == len(known) else None


def usage_of(calls: Iterable[Call]) -> TokenUsage:
    """What calls used together."""
    return sum((call.usage for call in calls if call.usage is not None), TokenUsage())


def is_failed(call: Call) -> bool:
    """Whether a call came to no answer, or to one that is an error."""
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
