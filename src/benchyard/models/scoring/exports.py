"""A scorer in a form that another harness can run: a script, and the files it needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchyard.models.scoring.attachments import PackedFile

Attachments = Mapping[str, Mapping[str, PackedFile]]
"""Name of an archive beside a scenario -> its files."""


@dataclass(frozen=True)
class PythonNeeds:
    """The Python version and packages that a script requires."""

    version: str | None = None
    requirements: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScorerExport:
    """A part of a test script, in bash.

    It begins in the scenario's working directory, and finds `$name` and `$weight` of its scorer, its files
    in `$own`, a folder for temporary files in `$work`, and `$python` if it needs one. Its messages
    go to `$logs/$name.out` and `$logs/$name.err`. It ends by `passed "$name" "$weight" STATUS`, or by
    `rewarded "$name" "$weight" MAIN` after it printed its rewards as JSON there, or by `fail REASON`.
    """

    script: str
    files: Mapping[str, PackedFile] = field(default_factory=dict)
    python: PythonNeeds | None = None
    user: str | None = None
    """The user that must run it, if any."""
    around_sec: float = 0
    """Seconds it takes beyond the time of its tests."""
    storage_mb: int | None = None
    """The disk space it needs, if that is more than usual."""
