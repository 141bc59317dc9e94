"""Numbers in the text format that Prometheus reads."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Sample:
    """One number; `suffix` follows the name of its family."""

    value: float
    labels: Labels
    suffix: str = ""


@dataclass(frozen=True)
class Family:
    """Numbers of one name."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Iterable[Sample]

    def lines(self) -> Iterator[str]:
        """How it is written."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for sample in self.samples:
            yield f"{self.name}{sample.suffix}{_labels(sample.labels)} {_number(sample.value)}"


def single(value: float) -> tuple[Sample, ...]:
    """The samples of a family that has only one number."""
    return (Sample(value, {}),)


class Histogram:
    """How often a value came to lie where."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Take a value in."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self, labels: Labels) -> Iterator[Sample]:
        """Its numbers, under these labels."""
        total = 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            yield Sample(total, {**labels, "le": _number(bound)}, "_bucket")
        yield Sample(self._sum, labels, "_sum")
        yield Sample(total, labels, "_count")


def written(families: Iterable[Family]) -> str:
    """The whole page."""
    return "".join(f"{line}\n" for family in families for line in family.lines())


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)
