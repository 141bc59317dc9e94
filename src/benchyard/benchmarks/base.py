"""The benchmark contract: the source of a public benchmark's data, and its items as scenarios.

Each benchmark is one module, named after it. It reads the official data in any of its forms, and turns each
item into a scenario: prompt, environment, scorer, reference output. The client that imports a benchmark reads
the data, never the server.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.benchmarks.sources.base import Source

PUBLIC_KEY = "benchyard.benchmark"
"""Metadata of a benchmark and of its scenarios: the public benchmark they were imported as."""
REVISION_KEY = "benchyard.revision"
"""Metadata of a benchmark: the revision of the data it was imported from."""
ITEM_KEY = "benchyard.item"
"""Metadata of a scenario: its name in its benchmark."""


@dataclass(frozen=True)
class BenchmarkFacts:
    """Facts that people want to know about a benchmark before they import it."""

    title: str
    """Title as its authors write it."""
    summary: str
    """Summary in one line."""
    size: int
    """Number of scenarios in the whole benchmark."""
    licence: str
    citation: str
    home: str
    """Address of the page where it is published."""
    aliases: tuple[str, ...] = ()
    """Further names people use for it, in addition to its own name and its title."""
    needs: tuple[str, ...] = ()
    """Things a server must have to run it, in words: a container registry, a token, much disk."""
    variants: tuple[str, ...] = ()
    """Values that `--variant` takes, the default first."""
    variants_are_parts: bool = False
    """True if variants choose among the same scenarios; else each variant has separate scenarios."""
    not_for_publication: bool = False
    """True if its authors ask not to publish items in plain text."""


@dataclass(frozen=True)
class ImportOptions:
    """Options of one import of a benchmark."""

    work: Path
    """Empty folder for files written during the import, such as build contexts."""
    variant: str | None = None
    seed: int = 0
    """Seed for sets with shuffled items."""


@dataclass(frozen=True)
class BrokenItem:
    """An item that cannot be turned into a scenario; the others are imported all the same."""

    name: str
    reason: str
    """The fault, with file and line, and the remedy."""
    is_note: bool = False
    """True for a note about the data: no item is missing, and the scenarios are imported all the same."""


class PublicBenchmark(ABC):
    """Base class of public benchmarks. A benchmark's name is its module's, with dashes."""

    about: ClassVar[BenchmarkFacts]
    source: ClassVar[Source]
    known_bad: ClassVar[Mapping[str, str]] = {}
    """Faulty item -> the reason, and where its authors acknowledge it."""

    @abstractmethod
    def scenarios(self, data: Path, options: ImportOptions) -> Iterator[ScenarioDraft | BrokenItem]:
        """Yield the scenarios of the set, in its own order, one at a time.

        `data` is a folder with the files that `source` names, or a user's copy of the same content in another
        form. Names are `BENCHMARK/ITEM`. Raises UsageError if the data cannot be read.
        """
