"""What a language owes: the official test command, and the tools for it that a server can bring along."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from benchyard.hosts.kits import Kit, Kits


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
    image: ClassVar[Tools] = Tools()
    """Where the image has all that is needed."""

    @abstractmethod
    async def of_server(self, kits: Kits) -> Tools:
        """Tools of this machine; raises ScorerFailed with what to install."""

    def prepared(self, path: str, content: bytes) -> bytes:
        """A test file as the official harness runs it."""
        return content
