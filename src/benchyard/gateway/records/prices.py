"""Prices of calls, by a published list; the cost of a call stays unknown if its price is.

Each model and price band is looked up only once, since the price per token is constant within a
band.
"""

from decimal import Decimal
from functools import lru_cache

from genai_prices import Usage as Priced
from genai_prices import calc_price
from genai_prices.types import ModelPrice, TieredPrices

from benchyard.gateway.calls import TokenUsage

_LONGEST_NAME = 200
_MOST_KNOWN = 1000

Rates = tuple[Decimal, Decimal, Decimal, Decimal]
"""Prices of a token: input, read from a cache, written to a cache, output."""


def cost_usd(prices: str | None, models: tuple[str | None, ...], usage: TokenUsage) -> float | None:
    """Return the cost by the first of these names that the list knows; None if it knows none of them."""
    if prices is None:
        return None
    for model in models:
        if model is None or len(model) > _LONGEST_NAME:
            continue
        try:
            return float(_cost(prices, model, usage))
        except (LookupError, ValueError):
            # The provider or model is unknown, or the numbers contradict each other.
            continue
    return None


def _cost(prices: str, model: str, usage: TokenUsage) -> Decimal:
    """Return the cost of a call; raises LookupError, ValueError."""
    plain = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
    steps = _steps(prices, model)
    if steps is None or plain < 0:
        return _usage_cost(prices, model, usage)
    below = max((step for step in steps if step < usage.input_tokens), default=0)
    fresh, read, written, out = _rates(prices, model, below)
    return (
        plain * fresh
        + usage.cached_tokens * read
        + usage.cache_write_tokens * written
        + usage.output_tokens * out
    )


def _usage_cost(prices: str, model: str, usage: TokenUsage) -> Decimal:
    priced = Priced(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    return calc_price(priced, model, provider_id=prices).total_price


@lru_cache(_MOST_KNOWN)
def _steps(prices: str, model: str) -> tuple[int, ...] | None:
    """Return the input sizes at which the price per token changes; None if it depends on anything else."""
    price = calc_price(Priced(input_tokens=0, output_tokens=0), model, provider_id=prices)
    if not isinstance(price.model.prices, ModelPrice) or price.total_price:
        return None
    tiered = [rate for rate in vars(price.model_price).values() if isinstance(rate, TieredPrices)]
    return tuple({tier.start for each in tiered for tier in each.tiers})


@lru_cache(_MOST_KNOWN)
def _rates(prices: str, model: str, below: int) -> Rates:
    """Return the prices of tokens in the band just above an input size."""
    size = below + 1
    fresh = _usage_cost(prices, model, TokenUsage(size))
    read = _usage_cost(prices, model, TokenUsage(size, cached_tokens=size))
    written = _usage_cost(prices, model, TokenUsage(size, cache_write_tokens=size))
    out = _usage_cost(prices, model, TokenUsage(size, 1)) - fresh
    return fresh / size, read / size, written / size, out
