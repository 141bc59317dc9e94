"""The alias table: which image of ours stands in for a registry's, wherever a Dockerfile names that one."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from benchyard.errors import NotFound, UsageError
from benchyard.images.image import check_name
from benchyard.images.references import normal_reference

_MOST = 10_000


class Aliases:
    """Full reference -> name or id of an image, in one file of the store."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "aliases.json"

    def all(self) -> Mapping[str, str]:
        """Every alias, by reference."""
        try:
            found = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        return {str(reference): str(image) for reference, image in sorted(found.items())}

    def find(self, reference: str) -> str | None:
        """The image that stands in for a reference, however it is spelled."""
        return self.all().get(normal_reference(reference))

    def set(self, reference: str, image: str) -> str:
        """Let an image stand in for a reference; returns its full form."""
        check_name(image)
        full = normal_reference(reference)
        table = {**self.all(), full: image}
        if len(table) > _MOST:
            raise UsageError(f"there are {_MOST} aliases already: remove some with `benchyard image unalias`")
        self._write(table)
        return full

    def remove(self, reference: str) -> None:
        """Forget an alias; raises NotFound."""
        full = normal_reference(reference)
        table = {**self.all()}
        if table.pop(full, None) is None:
            raise NotFound(f"there is no alias for {full}: see `benchyard image alias`")
        self._write(table)

    def _write(self, table: Mapping[str, str]) -> None:
        partial = self._path.with_name(f".{self._path.name}.partial")
        with partial.open("w") as file:
            json.dump(table, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._path)
