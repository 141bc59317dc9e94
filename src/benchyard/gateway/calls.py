"""One call of a model, as it is kept and told."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Usage:
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

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


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
    usage: Usage | None = None
    """None if the answer does not say."""
    cost_usd: float | None = None
    """None if the model has no known price."""
    rate_limited_ms: int = 0
    """How long the gateway waited for the provider to take it."""
    error: str | None = None
    """What went wrong, in a line."""
