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
    outcomes: ClassVar[re.Pattern[bytes] | None] = None
    """In what `passed` finds: the numbers of tests that ended in one way or another, which add up."""
    skipped: ClassVar[re.Pattern[bytes] | None] = None
    """What it prints of tests that it skipped: their number is the first group."""
    test_names: ClassVar[re.Pattern[bytes] | None] = None
    """What a test file calls one of its tests: the first group. The runner tells of as many."""
    list_command: ClassVar[str | None] = None
    """Runs tests that passed once more, so that each is told of, where the official command tells of none."""
    list_names: ClassVar[re.Pattern[bytes] | None] = None
    """How it tells of a test: the name is the first group."""
    replaced: ClassVar[tuple[str, re.Pattern[bytes], bytes] | None] = None
    """In test files whose names end so, what the official harness puts something else in the place of."""
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

    def prepared(self, path: str, content: bytes) -> bytes:
        """A test file as the official harness runs it."""
        if self.replaced is None or not path.endswith(self.replaced[0]):
            return content
        return self.replaced[1].sub(self.replaced[2], content)
