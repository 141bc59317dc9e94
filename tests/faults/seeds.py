"""How many rounds: few inside `make test`, many under `make faults`."""

import os

SEEDS = int(os.environ.get("BENCHYARD_FAULT_SEEDS", "0"))
"""0 is the short form."""


def seeds(short: int = 1) -> range:
    """The seeds of this run."""
    return range(1, (SEEDS or short) + 1)


def seconds(short: float, long: float) -> float:
    """How long a fault lasts."""
    return long if SEEDS else short
