"""Imports of images that are under way, and those that failed with nobody waiting for them."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from benchyard.engine.journal import now_ms
from benchyard.errors import ImageError, NotFound
from benchyard.images.store import Label
from benchyard.models.images import ImageView

IMPORTING = "importing"
"""The kind that an image is shown with until it is there."""
_REMEMBERED = 100


class Imports:
    """What is being imported, by the id it will have."""

    def __init__(self) -> None:
        self.active: dict[str, Label] = {}
        self._begun_ms: dict[str, int] = {}
        self._failed: OrderedDict[str, tuple[str, str]] = OrderedDict()

    @contextmanager
    def under_way(self, label: Label) -> Iterator[None]:
        """Show an import until it ends."""
        self.active[label.id] = label
        self._begun_ms[label.id] = now_ms()
        self._failed.pop(label.id, None)
        try:
            yield
        finally:
            self.active.pop(label.id, None)
            self._begun_ms.pop(label.id, None)

    def note_failure(self, label: Label, reason: str) -> None:
        """Remember why an import failed."""
        self._failed[label.id] = (label.name, reason)
        while len(self._failed) > _REMEMBERED:
            self._failed.popitem(last=False)

    def views(self) -> list[ImageView]:
        """Everything under way, newest first."""
        return [self._view(label) for label in reversed(self.active.values())]

    def find(self, id_or_name: str) -> ImageView:
        """The import of that id or name; raises ImageError if it failed, and NotFound if there is none."""
        for label in self.active.values():
            if id_or_name in (label.id, label.name):
                return self._view(label)
        for id, (name, reason) in reversed(self._failed.items()):
            if id_or_name in (id, name):
                raise ImageError(f"{name} was not imported: {reason}")
        raise NotFound(f"there is no image {id_or_name[:200]!r}: see `benchyard image list`")

    def _view(self, label: Label) -> ImageView:
        begun = self._begun_ms[label.id]
        return ImageView(
            id=label.id, name=label.name, kind=IMPORTING, size_bytes=0, create_time_ms=begun, layers=0
        )
