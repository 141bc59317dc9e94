"""Costs of calls, in a worker: the list of prices is too large for the server."""

from collections.abc import Mapping
from typing import BinaryIO

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.records.prices import cost_usd


def call_cost(_: BinaryIO, prices: str | None, model: str, usage: Mapping[str, int]) -> float | None:
    """Return what calls with this usage cost; None if the price of the model is not known."""
    return cost_usd(prices, (model,), TokenUsage(**usage))
