"""A scorer as something that another harness can run: a script, and the files it needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchyard.models.scoring.attachments import PackedFile

Attachments = Mapping[str, Mapping[str, PackedFile]]
"""Name of an archive beside a scenario -> its files."""


@dataclass(frozen=True)
class PythonNeeds:
    """What a script asks for, in its head and beside it."""

    version: str | None = None
    requirements: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScorerExport:
    """A part of a test script, in bash.

    It begins in the scenario's working directory, and finds `$name` and `$weight` of its scorer, its files
    in `$own`, a folder for what it makes in `$work`, and `$python` where it asked for one. What it has to
    tell is in `$logs/$name.out` and `$logs/$name.err`. It ends by `passed "$name" "$weight" STATUS`, or by
    `rewarded "$name" "$weight" MAIN` after it printed its rewards as JSON there, or by `fail REASON`.
    """

    script: str
    files: Mapping[str, PackedFile] = field(default_factory=dict)
    python: PythonNeeds | None = None
    user: str | None = None
    """Who has to run it, where that matters."""
    around_sec: float = 0
    """What it takes beside the time that its tests have."""
    storage_mb: int | None = None
    """What it needs of the disk, where that is more than usual."""
