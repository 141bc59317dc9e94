"""Blueprints that are built when somebody first needs them: made once for each content."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from benchyard.cli.attaching import stored
from benchyard.cli.context import packed_context
from benchyard.client.client import Client
from benchyard.models.blueprints import BlueprintRequest, BlueprintStatus, BuildContext

PREFIX = "environment-"
_CONTEXT = "context-"
_PENDING = "(to be built)"


@dataclass(frozen=True)
class Recipe:
    """What an image is made of."""

    text: str
    """Of the Dockerfile."""
    prebuilt: str | None = None
    dockerfile: Path | None = None
    """In the folder that is its context; None where it needs nothing beside it."""
    digest: str = ""
    """Of what lies in that folder."""


def demanded(client: Client, recipe: Recipe, *, dry_run: bool) -> str:
    """The blueprint of a recipe, built on demand; the same recipe is the same blueprint."""
    told = f"{recipe.text}\0{recipe.prebuilt}\0{recipe.digest}"
    name = PREFIX + hashlib.sha256(told.encode()).hexdigest()[:20]
    for known in client.blueprints.list(name, limit=5):
        if known.state == "created" and (
            known.parameters.on_demand or known.status is BlueprintStatus.BUILD_COMPLETE
        ):
            return known.id
    if dry_run:
        return _PENDING
    request = BlueprintRequest(
        name=name,
        dockerfile=recipe.text,
        build_context=_context(client, recipe) if recipe.dockerfile else None,
        prebuilt_image=recipe.prebuilt,
        on_demand=True,
    )
    return client.blueprints.create(request).id


def _context(client: Client, recipe: Recipe) -> BuildContext:
    assert recipe.dockerfile is not None
    name = _CONTEXT + hashlib.sha256(recipe.digest.encode()).hexdigest()[:20]
    with packed_context(recipe.dockerfile.parent, recipe.dockerfile) as archive:
        return BuildContext(object_id=stored(client, name, archive.read_bytes(), dry_run=False))
