"""How many rounds: few inside `make test`, many under `make faults`."""

import os
import random

SEEDS = int(os.environ.get("BENCHYARD_FAULT_SEEDS", "0"))
"""0 is the short form."""


def seeds(short: int = 1) -> range:
    """The seeds of this run."""
    return range(1, (SEEDS or short) + 1)


def seconds(short: float, long: float) -> float:
    """How long something lasts."""
    return long if SEEDS else short


def lasting(seed: int, short: float, long: float) -> float:
    """How long a fault lasts: `long` with the first seed, with others up to half of it, as they decide."""
    if not SEEDS:
        return short
    return long if seed == 1 else random.Random(seed).uniform(short, long / 2)
