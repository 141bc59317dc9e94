"""Interleaved measuring: every contender once per round, so that a busy machine is busy for all of them."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """What one contender needed, in milliseconds."""

    name: str
    values: tuple[float, ...]

    @property
    def p50(self) -> float:
        """The median."""
        return statistics.median(self.values)

    @property
    def p95(self) -> float:
        """The 95th percentile."""
        return self._percentile(0.95)

    @property
    def p99(self) -> float:
        """The 99th percentile."""
        return self._percentile(0.99)

    def _percentile(self, part: float) -> float:
        return sorted(self.values)[min(len(self.values) - 1, int(len(self.values) * part))]


def interleave(
    contenders: dict[str, Callable[[], object]], rounds: int, warm_up: int = 2
) -> dict[str, Figure]:
    """Run every contender once per round, in turning order; the first rounds do not count."""
    values: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(warm_up + rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            begin = time.perf_counter()
            contenders[name]()
            if number >= warm_up:
                values[name].append((time.perf_counter() - begin) * 1000)
    return {name: Figure(name, tuple(found)) for name, found in values.items()}
