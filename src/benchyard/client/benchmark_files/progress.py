"""Progress of pushes and imports; subclasses show it."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from benchyard.benchmarks.sources.base import FetchProgress, SilentProgress
from benchyard.client.build_context import CONTEXT_TTL_MS, context_archive, remove_context
from benchyard.client.client import Client
from benchyard.models.blueprints import BlueprintRequest, BlueprintView, BuildContext
from benchyard.models.objects import ObjectRequest


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
        self, client: Client, scenario: str, request: BlueprintRequest, dockerfile: Path | None
    ) -> BlueprintView:
        """Build the environment of a scenario; its context is the Dockerfile's folder. Raises BuildFailed."""
        context = _store_context(client, dockerfile) if dockerfile else None
        view = client.blueprints.create(request.model_copy(update={"build_context": context}))
        try:
            return client.blueprints.wait(view.id)
        finally:
            remove_context(client, view)


SILENT = PushProgress()


def _store_context(client: Client, dockerfile: Path) -> BuildContext:
    with context_archive(dockerfile.parent, dockerfile) as archive:
        request = ObjectRequest(name="context.tgz", content_type="tgz", ttl_ms=CONTEXT_TTL_MS)
        return BuildContext(object_id=client.objects.upload(archive, request).id)
