"""Progress of pushes, imports and validations; subclasses show it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from benchyard.benchmarks.sources.base import FetchProgress, SilentProgress
from benchyard.client.benchmark_files.results import ValidationAttempt
from benchyard.client.nouns import SyncNouns
from benchyard.models.blueprints import BlueprintRequest, BlueprintView

OnAttempt = Callable[[str, ValidationAttempt], None]
"""Called with the scenario's name and each attempt that is over."""


def ignore_attempt(name: str, attempt: ValidationAttempt) -> None:
    """Ignore an attempt."""


class PushProgress:
    """Progress that is not shown; a subclass shows it."""

    def say(self, text: str) -> None:
        """Show a sentence, such as the licence of a data set."""

    def activity(self, text: str) -> AbstractContextManager[object]:
        """Show an activity until the block ends."""
        return nullcontext()

    def counter(self, title: str) -> AbstractContextManager[FetchProgress]:
        """Count the bytes or items that pass in the block."""
        return nullcontext(SilentProgress())

    def build(
        self, client: SyncNouns, scenario: str, request: BlueprintRequest, dockerfile: Path | None
    ) -> BlueprintView | None:
        """Build the environment of a scenario and show that; None leaves the build to the caller.

        Its context is the Dockerfile's folder. Raises BuildFailed.
        """
        return None

    def attempts(self, total: int) -> AbstractContextManager[OnAttempt]:
        """Show the attempts of a validation that end in the block, about so many."""
        return nullcontext(ignore_attempt)


SILENT = PushProgress()
