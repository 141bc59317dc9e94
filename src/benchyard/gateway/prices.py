"""What a call cost, by a published list of prices; unknown stays unknown."""

from genai_prices import Usage as Priced
from genai_prices import calc_price

from benchyard.gateway.calls import Usage


def cost_usd(prices: str | None, models: tuple[str | None, ...], usage: Usage) -> float | None:
    """The price by the first of these names that the list knows; None if it knows none of them."""
    if prices is None:
        return None
    priced = Priced(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    for model in models:
        if model is None:
            continue
        try:
            return float(calc_price(priced, model, provider_id=prices).total_price)
        except (LookupError, ValueError):
            # No such provider or model, or numbers that contradict each other: nothing is known.
            continue
    return None
