"""Corrections for many tests at once: of false discoveries, or of any false claim."""

from collections.abc import Sequence


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted so that the share of false discoveries is bounded, in the given order."""
    count = len(p_values)
    order = sorted(range(count), key=lambda index: p_values[index], reverse=True)
    adjusted = [1.0] * count
    least = 1.0
    for turn, index in enumerate(order):
        least = min(least, p_values[index] * count / (count - turn))
        adjusted[index] = least
    return adjusted


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted so that the chance of any false claim is bounded, in the given order."""
    count = len(p_values)
    order = sorted(range(count), key=lambda index: p_values[index])
    adjusted = [1.0] * count
    most = 0.0
    for turn, index in enumerate(order):
        most = max(most, min(1.0, p_values[index] * (count - turn)))
        adjusted[index] = most
    return adjusted
