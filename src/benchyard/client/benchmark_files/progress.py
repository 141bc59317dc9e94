"""Progress of pushes, imports and validations; subclasses show it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from benchyard.benchmarks.sources.base import FetchProgress, SilentProgress
from benchyard.client.benchmark_files.results import ValidationAttempt
from benchyard.client.build_context import CONTEXT_TTL_MS, context_archive, remove_context
from benchyard.client.nouns import SyncNouns
from benchyard.models.blueprints import BlueprintRequest, BlueprintView, BuildContext
from benchyard.models.objects import ObjectRequest

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
    ) -> BlueprintView:
        """Build the environment of a scenario; its context is the Dockerfile's folder. Raises BuildFailed."""
        context = _store_context(client, dockerfile) if dockerfile else None
        view = client.blueprints.create(request.model_copy(update={"build_context": context}))
        try:
            return client.blueprints.wait(view.id)
        finally:
            remove_context(client, view)

    def attempts(self, total: int) -> AbstractContextManager[OnAttempt]:
        """Show the attempts of a validation that end in the block, about so many."""
        return nullcontext(ignore_attempt)


SILENT = PushProgress()


def _store_context(client: SyncNouns, dockerfile: Path) -> BuildContext:
    with context_archive(dockerfile.parent, dockerfile) as archive:
        request = ObjectRequest(name="context.tgz", content_type="tgz", ttl_ms=CONTEXT_TTL_MS)
        return BuildContext(object_id=client.objects.upload(archive, request).id)
