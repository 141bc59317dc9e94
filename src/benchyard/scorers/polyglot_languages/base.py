"""What a language owes: the official test command, and the tools for it that a server can bring along."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from benchyard.hosts.kits import Kit, Kits

PRUNED_ANYWHERE = (".*", "node_modules", "__pycache__")
PRUNED_AT_THE_TOP = ("build", "target", "vendor", "gradle")
"""Folders of what tools made or fetched, which may hold any number of files."""
_NAME = r"[A-Za-z0-9_$+][A-Za-z0-9_.$+-]*"
_ASIDE = rf"(?:tests?|{'|'.join(PRUNED_AT_THE_TOP)})/|(?:.*/)?(?:node_modules|__pycache__|META-INF)/"


@dataclass(frozen=True)
class Tools:
    """What runs the tests: what the image has, or what a server shows in the room."""

    kits: tuple[Kit, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    """Name -> value, for the variables that the test command reads."""
    substitutes: tuple[str, ...] = ()
    """What stands in for official tools, in words."""


class Language(ABC):
    """One language of the benchmark."""

    programs: ClassVar[tuple[str, ...]]
    """What an image must have, unless the server brings it."""
    command: ClassVar[str]
    """A shell script that runs the tests of the exercise in the working directory."""
    passed: ClassVar[re.Pattern[bytes]]
    """What the runner of the tests prints when they passed: without it, an exit with 0 earns nothing."""
    complete: ClassVar[tuple[re.Pattern[bytes], ...]] = ()
    """What else the runner prints when it has run the tests; their numbers agree."""
    skipped: ClassVar[re.Pattern[bytes] | None] = None
    """What it prints of tests that it skipped: their number is the first group."""
    sources: ClassVar[tuple[str, ...]]
    """How names of source files end, without the dot."""
    reserved: ClassVar[str]
    """A pattern of paths that are no part of an answer: tests, and what the tools take for their settings."""
    image: ClassVar[Tools] = Tools()
    """Where the image has all that is needed."""

    @property
    def taken(self) -> str:
        """The pattern of the paths that are taken from an answer, which Python and `grep -P` read alike."""
        return rf"(?!{_ASIDE}|{self.reserved})(?:{_NAME}/)*{_NAME}\.(?:{'|'.join(self.sources)})"

    @abstractmethod
    async def of_server(self, kits: Kits) -> Tools:
        """Tools of this machine; raises ScorerFailed with what to install."""

    def is_complete(self, output: bytes) -> bool:
        """Whether a runner that printed that they passed has printed all that it does when it ran them."""
        found = [each.search(output) for each in self.complete]
        counts = {int(match[1]) for match in found if match and match.re.groups}
        return all(found) and len(counts) <= 1

    def prepared(self, path: str, content: bytes) -> bytes:
        """A test file as the official harness runs it."""
        return content
