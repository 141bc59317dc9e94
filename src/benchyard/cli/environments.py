"""What a scenario's environment is called in its file, and what it is on the server."""

import hashlib
import os
import stat
from pathlib import Path

import click

from benchyard.benchmarks.scenario_folder import Draft, Origin
from benchyard.benchmarks.writing import Contents
from benchyard.cli.attaching import attached
from benchyard.cli.blueprint_build import built, sent_context
from benchyard.cli.context import ignored_in, included
from benchyard.cli.demanding import Recipe, demanded
from benchyard.cli.names import snapshot_named
from benchyard.cli.phases import phase_rules, with_setup_policy
from benchyard.client.client import Client
from benchyard.errors import NotFound, UsageError
from benchyard.models.blueprints import BlueprintRequest, BlueprintStatus, BlueprintView
from benchyard.models.scenarios import ScenarioEnvironment, ScenarioRequest, Step

PREFIX = "scenario-environment-"
"""What the names of blueprints begin with that were built for scenarios; what follows tells the content."""
_DOCKERFILE = "image/Dockerfile"
_PENDING = "(to be built)"
REFERENCE = "image-reference"
"""The kind of origin that is an image of a registry, by its name there."""


def resolved(client: Client, draft: Draft, *, dry_run: bool = False) -> ScenarioRequest:
    """What a draft asks for, its environment as the server knows it; builds what has to be built."""
    environment = draft.request.environment_parameters or ScenarioEnvironment()
    named = environment.model_copy(update=_ids(client, draft, draft.origin, dry_run))
    fields: dict[str, object] = {}
    if draft.scoring_origin is not None:
        made = _ids(client, draft, draft.scoring_origin, dry_run)
        fields["scoring_blueprint_id"] = made.get("blueprint_id")
    if draft.attachments:
        fields["attachments"] = attached(client, draft.attachments, dry_run=dry_run)
    if draft.step_files:
        fields["steps"] = _with_files(client, draft, dry_run)
    if draft.phases is not None:
        fields |= phase_rules(client, draft.phases, dry_run=dry_run)
        named = with_setup_policy(client, named, draft.phases, dry_run=dry_run)
    return draft.request.model_copy(update={"environment_parameters": named, **fields})


def origin_of(client: Client, environment: ScenarioEnvironment | None, contents: Contents | None) -> Origin:
    """The name by which an environment's file can call it, such that it means the same again.

    A Dockerfile that needs nothing beside it is put into `contents`.
    """
    if environment is None or not (environment.snapshot_id or environment.blueprint_id):
        return Origin()
    if environment.snapshot_id:
        return Origin("snapshot", environment.snapshot_id)
    id = environment.blueprint_id or ""
    try:
        view = client.blueprints.get(id)
    except NotFound:
        return Origin("image", id)
    parameters = view.parameters
    if parameters.dockerfile and view.name == _name({"Dockerfile": parameters.dockerfile.encode()}):
        if contents is not None:
            contents.add(_DOCKERFILE, parameters.dockerfile)
        return Origin("dockerfile", _DOCKERFILE)
    newest = _newest(client, view.name)
    return Origin("blueprint", view.name if newest and newest.id == id else id)


def _ids(client: Client, draft: Draft, origin: Origin, dry_run: bool) -> dict[str, str]:
    if origin.kind == "snapshot":
        return {"snapshot_id": snapshot_named(client, origin.name)}
    if origin.kind == "blueprint":
        return {"blueprint_id": _blueprint(client, origin.name)}
    if origin.kind == "image":
        return {"blueprint_id": origin.name}
    if origin.kind == "dockerfile":
        return {"blueprint_id": _dockerfile(client, draft, origin, dry_run)}
    if origin.kind == REFERENCE:
        recipe = Recipe(f"FROM {origin.name}\n")
        return {"blueprint_id": demanded(client, recipe, dry_run=dry_run)}
    return {}


def _with_files(client: Client, draft: Draft, dry_run: bool) -> list[Step]:
    """The steps of a scenario, each with what is stored for it."""
    stored = attached(client, draft.step_files, dry_run=dry_run)
    return [
        each.model_copy(update={"files": stored.get(each.name, each.files)})
        for each in draft.request.steps or []
    ]


def _blueprint(client: Client, given: str) -> str:
    try:
        return client.blueprints.get(given).id
    except NotFound:
        newest = _newest(client, given)
    if newest is None:
        raise NotFound(
            f"no blueprint that was built has the id or name {given!r}; see `benchyard blueprint list`"
        )
    return newest.id


def _newest(client: Client, name: str) -> BlueprintView | None:
    return next(iter(client.blueprints.list(name, BlueprintStatus.BUILD_COMPLETE, limit=1)), None)


def _dockerfile(client: Client, draft: Draft, origin: Origin, dry_run: bool) -> str:
    """The blueprint of a Dockerfile and its folder; built where the same was not built before."""
    dockerfile = draft.folder.inside(origin.name)
    if not dockerfile.is_file():
        raise UsageError(f"{draft.folder.path / origin.name}: there is no such Dockerfile")
    text = draft.folder.text(origin.name)
    files = _files(dockerfile)
    if origin.on_demand:
        recipe = Recipe(text, origin.prebuilt, dockerfile if files else None, _name(files))
        return demanded(client, recipe, dry_run=dry_run)
    name = _name({**files, "Dockerfile": text.encode()})
    known = _newest(client, name)
    if known is not None:
        return known.id
    if dry_run:
        return _PENDING
    click.echo(f"building the environment of {draft.request.name}", err=True)
    context = dockerfile.parent if files else None
    with sent_context(client, context, dockerfile if context else None) as sent:
        request = BlueprintRequest(name=name, dockerfile=text, build_context=sent)
        return built(client, client.blueprints.create(request)).id


def _files(dockerfile: Path) -> dict[str, bytes]:
    """What lies beside a Dockerfile and goes into its build: path -> what tells it from another."""
    folder = dockerfile.parent
    found = {}
    for name in included(folder, ignored_in(folder, dockerfile)):
        path = folder / name
        if path != dockerfile:
            found[name] = _told(path)
    return found


def _told(path: Path) -> bytes:
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        return b"link " + os.fsencode(path.readlink())
    if not stat.S_ISREG(about.st_mode):
        return b"folder"
    with path.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").digest()
    return f"{stat.S_IMODE(about.st_mode):o} ".encode() + content


def _name(files: dict[str, bytes]) -> str:
    found = hashlib.sha256()
    for name in sorted(files):
        found.update(f"{len(name)} {name} {len(files[name])} ".encode() + files[name])
    return PREFIX + found.hexdigest()[:20]
