"""The alias table: images of the store that stand in for registry images in Dockerfiles."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from benchyard.errors import NotFound, UsageError
from benchyard.images.image import check_name
from benchyard.images.references import normal_reference

_MOST = 10_000


class Aliases:
    """Mapping of full reference to name or id of an image, in a file of the store."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "aliases.json"

    def all(self) -> Mapping[str, str]:
        """Return every alias, by reference."""
        try:
            aliases = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        return {str(reference): str(image) for reference, image in sorted(aliases.items())}

    def find(self, reference: str) -> str | None:
        """Return the image that stands in for a reference in any spelling; None if there is none."""
        return self.all().get(normal_reference(reference))

    def set(self, reference: str, image: str) -> str:
        """Let an image stand in for a reference; return the reference's full form."""
        check_name(image)
        full = normal_reference(reference)
        table = {**self.all(), full: image}
        if len(table) > _MOST:
            raise UsageError(f"there are {_MOST} aliases already: remove some with `benchyard image unalias`")
        self._write(table)
        return full

    def remove(self, reference: str) -> None:
        """Remove an alias; raises NotFound."""
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
