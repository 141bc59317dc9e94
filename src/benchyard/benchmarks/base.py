"""The benchmark contract: where a public benchmark comes from, and what its scenarios are.

One module per benchmark, named after it. It reads the official data, whichever form that has, and says what
each item is as a scenario: prompt, environment, scorer, reference output. Reading happens on the side of
whoever imports it, never in the server.
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
"""Metadata of a scenario: what its benchmark calls it."""


@dataclass(frozen=True)
class BenchmarkFacts:
    """What people want to know of a benchmark before they import it."""

    title: str
    """As its authors write it."""
    summary: str
    """One line."""
    size: int
    """How many scenarios the whole of it has."""
    licence: str
    citation: str
    home: str
    """Where it is published."""
    aliases: tuple[str, ...] = ()
    """Names under which people know it, beside its own and its title."""
    needs: tuple[str, ...] = ()
    """What a server must have to run it, in words: a container registry, a token, much disk."""
    variants: tuple[str, ...] = ()
    """What `--variant` takes, the usual one first."""
    variants_are_parts: bool = False
    """Whether variants choose among the same scenarios; else each variant has scenarios of its own."""
    not_for_publication: bool = False
    """Whether its authors ask that items are not shown in plain text where everybody can read them."""


@dataclass(frozen=True)
class ImportOptions:
    """How a benchmark is to be imported."""

    work: Path
    """An empty folder for what has to be written on the way, such as contexts of builds."""
    variant: str | None = None
    seed: int = 0
    """For sets whose items are shuffled."""


@dataclass(frozen=True)
class BrokenItem:
    """An item that no scenario can be made of; the others are imported all the same."""

    name: str
    reason: str
    """What is wrong, with file and line, and what to do."""
    is_note: bool = False
    """It is no item: scenarios are made all the same, and this is to be known about them."""


class PublicBenchmark(ABC):
    """One public benchmark. Its name is the module's, with dashes."""

    about: ClassVar[BenchmarkFacts]
    source: ClassVar[Source]
    known_bad: ClassVar[Mapping[str, str]] = {}
    """Items whose fault their authors have acknowledged -> the reason, and where it is said."""

    @abstractmethod
    def scenarios(self, data: Path, options: ImportOptions) -> Iterator[ScenarioDraft | BrokenItem]:
        """The scenarios of the set, in its own order, one at a time.

        `data` is a folder with the files that `source` names, or a copy that somebody has, of the same
        content in another form. Names are `BENCHMARK/ITEM`. Raises UsageError where nothing can be read.
        """
