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
_PAGE = 50


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
    if known := _known(client, name):
        return known
    if dry_run:
        return _PENDING
    request = BlueprintRequest(
        name=name,
        dockerfile=recipe.text,
        build_context=_context(client, recipe) if recipe.dockerfile else None,
        prebuilt_image=recipe.prebuilt,
        on_demand=True,
    )
    made = client.blueprints.create(request).id
    first = _known(client, name)
    if first is None or first == made:
        return made
    # Another import made it at the same moment, and before us.
    client.blueprints.delete(made)
    return first


def _known(client: Client, name: str) -> str | None:
    """The one that was made first: lists begin with the newest."""
    found = [
        each.id
        for each in client.blueprints.list(name, limit=_PAGE)
        if each.state == "created"
        and (each.parameters.on_demand or each.status is BlueprintStatus.BUILD_COMPLETE)
    ]
    return found[-1] if found else None


def _context(client: Client, recipe: Recipe) -> BuildContext:
    assert recipe.dockerfile is not None
    name = _CONTEXT + hashlib.sha256(recipe.digest.encode()).hexdigest()[:20]
    with packed_context(recipe.dockerfile.parent, recipe.dockerfile) as archive:
        return BuildContext(object_id=stored(client, name, archive.read_bytes(), dry_run=False))
