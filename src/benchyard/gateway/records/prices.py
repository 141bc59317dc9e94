"""What a call cost, by a published list of prices; unknown stays unknown.

The list is asked once for each model and band of its prices: within one, a token costs what a token costs.
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
"""Of one token that goes in, is read from a cache, is written to one, and comes out."""


def cost_usd(prices: str | None, models: tuple[str | None, ...], usage: TokenUsage) -> float | None:
    """The price by the first of these names that the list knows; None if it knows none of them."""
    if prices is None:
        return None
    for model in models:
        if model is None or len(model) > _LONGEST_NAME:
            continue
        try:
            return float(_cost(prices, model, usage))
        except (LookupError, ValueError):
            # No such provider or model, or numbers that contradict each other: nothing is known.
            continue
    return None


def _cost(prices: str, model: str, usage: TokenUsage) -> Decimal:
    """Raises LookupError, ValueError."""
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
    """Beyond how much input a token costs another price; None if its price depends on more than that."""
    found = calc_price(Priced(input_tokens=0, output_tokens=0), model, provider_id=prices)
    if not isinstance(found.model.prices, ModelPrice) or found.total_price:
        return None
    tiered = [each for each in vars(found.model_price).values() if isinstance(each, TieredPrices)]
    return tuple({tier.start for each in tiered for tier in each.tiers})


@lru_cache(_MOST_KNOWN)
def _rates(prices: str, model: str, below: int) -> Rates:
    """What tokens cost in a request with just more input than that."""
    size = below + 1
    fresh = _usage_cost(prices, model, TokenUsage(size))
    read = _usage_cost(prices, model, TokenUsage(size, cached_tokens=size))
    written = _usage_cost(prices, model, TokenUsage(size, cache_write_tokens=size))
    out = _usage_cost(prices, model, TokenUsage(size, 1)) - fresh
    return fresh / size, read / size, written / size, out
