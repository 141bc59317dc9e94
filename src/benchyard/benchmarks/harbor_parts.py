"""What a scenario consists of beside its record, when it is exported."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchyard.benchmarks.access import Phases
from benchyard.benchmarks.harbor_images import Image
from benchyard.benchmarks.harbor_verifiers import Programs
from benchyard.models.attachments import PackedFile


@dataclass(frozen=True)
class Parts:
    """What a scenario consists of beside its record."""

    image: Image | None = None
    """None is the default image."""
    scoring_image: Image | None = None
    phases: Phases | None = None
    attachments: Mapping[str, Mapping[str, PackedFile]] = field(default_factory=dict)
    step_files: Mapping[str, Mapping[str, PackedFile]] = field(default_factory=dict)
    """Name of a step -> what is put into the working directory before it."""
    programs: Programs = field(default_factory=Programs)
    canary: str | None = None
    """A line that instructions begin with, which agents are not told."""
