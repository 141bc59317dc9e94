"""The plan of a build: a recipe whose bases are in the engine's storage."""

import dataclasses
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchyard.errors import BuildFailed
from benchyard.images.builders.base import BuildRecipe

_MOST_ENTRIES = 500_000
_PIECE = 1024 * 1024


def check_context(context: Path | None) -> None:
    """Raise an error unless it is a folder that is reached without a link."""
    if context is not None and (context.is_symlink() or not context.is_dir()):
        raise BuildFailed(
            f"the context {context.name!r} is not a folder: give the folder that COPY reads from"
        )


def add_context(digest: "hashlib._Hash", context: Path | None) -> None:
    """Add all names, modes and contents to a hash; for a link, its text counts, never its target."""
    if context is None:
        return
    for number, (path, status) in enumerate(_entries(context)):
        if number >= _MOST_ENTRIES:
            raise BuildFailed(
                f"the context has more than {_MOST_ENTRIES} entries: leave out what is not copied"
            )
        name = str(path.relative_to(context)).encode(errors="surrogateescape")
        digest.update(b"%d:%s:%o:" % (len(name), name, status.st_mode))
        if stat.S_ISREG(status.st_mode):
            _add_file(digest, path, status)
        elif stat.S_ISLNK(status.st_mode):
            digest.update(os.fsencode(path.readlink()))


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        yield Path(entry.path), entry.stat(follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(Path(entry.path))


def _add_file(digest: "hashlib._Hash", path: Path, status: os.stat_result) -> None:
    digest.update(b"%d:" % status.st_size)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 (a descriptor, so that no link is followed)
        while piece := file.read(_PIECE):
            digest.update(piece)


@dataclass(frozen=True)
class DockerfileImage:
    """An image that a Dockerfile names, in the engine's storage."""

    name: str
    """The engine's name for it."""
    identity: str
    """Equal for equal content."""
    env: Mapping[str, str]
    alias: str | None = None
    """The name of our image, if an alias put it in place of another."""


@dataclass(frozen=True)
class BuildPlan:
    """The inputs of a build."""

    recipe: BuildRecipe
    bases: Mapping[str, DockerfileImage]

    def key(self) -> str:
        """Return a key, equal for equivalent builds: only the names of secrets count, as for the cache."""
        recipe = self.recipe
        bases = {reference: base.identity for reference, base in self.bases.items()}
        parts = [recipe.dockerfile, sorted(recipe.args.items()), sorted(recipe.secrets), bases]
        door = recipe.door.rules if recipe.door else None
        around = [recipe.network.value, door, dataclasses.astuple(recipe.limits)]
        digest = hashlib.sha256(json.dumps([parts, around], sort_keys=True).encode())
        add_context(digest, recipe.context)
        return digest.hexdigest()
