"""Environments of scenarios on the server: blueprints, attachments and network policies, each made once."""

import hashlib
import ipaddress
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchyard.benchmarks.files.scenario_draft import (
    EnvironmentOrigin,
    NetworkAccess,
    PhaseAccess,
    ScenarioDraft,
)
from benchyard.benchmarks.files.writer import FolderContents
from benchyard.client.benchmark_files.progress import SILENT, PushProgress
from benchyard.client.blueprint_builds import BlueprintBuild, begin_build, finish_build
from benchyard.client.build_context import context_archive, ignore_rules, included_paths
from benchyard.client.lookup import find_one, find_snapshot_id
from benchyard.client.nouns import SyncNouns
from benchyard.client.resources.network import PolicyFields
from benchyard.errors import NotFound, UsageError
from benchyard.models.blueprints import BlueprintRequest, BlueprintStatus, BlueprintView, BuildContext
from benchyard.models.launch import LaunchParameters
from benchyard.models.network_policies import Egress, NetworkPolicyRequest, NetworkPolicyView
from benchyard.models.objects import ObjectRequest, ObjectState
from benchyard.models.scenarios import ScenarioEnvironment, ScenarioRequest, Step

OPEN_POLICY = "public-network"
NO_NETWORK_POLICY = "no-network"
_ALLOW_LIST_PREFIX = "allow-list-"
_PENDING_POLICY = "(to be made)"


def phase_rules(client: SyncNouns, phases: PhaseAccess, *, dry_run: bool) -> dict[str, str]:
    """Return the fields of a scenario that limit the network of its agent and its scorers."""
    rules = {"scoring_network": "none"}
    if phases.scoring.mode != "none":
        rules["scoring_network"] = policy_id(client, phases.scoring, dry_run=dry_run)
    if phases.agent != phases.setup:
        rules["agent_network_policy"] = policy_id(client, phases.agent, dry_run=dry_run)
    return rules


def with_setup_policy(
    client: SyncNouns, environment: ScenarioEnvironment, phases: PhaseAccess, *, dry_run: bool
) -> ScenarioEnvironment:
    """Return the environment with the network policy that its devboxes start with."""
    launch = environment.launch_parameters or LaunchParameters()
    found = policy_id(client, phases.setup, dry_run=dry_run)
    return environment.model_copy(
        update={"launch_parameters": launch.model_copy(update={"network_policy_id": found})}
    )


def policy_id(client: SyncNouns, access: NetworkAccess, *, dry_run: bool) -> str:
    """Return the id of the policy that allows this access; makes a missing one."""
    fields = _policy_fields(access)
    name = fields["name"]
    known = _known_policy(client, name)
    if known is None and dry_run:
        return _PENDING_POLICY
    if known is None:
        try:
            return client.network_policies.create(**fields).id
        except UsageError:
            # Another import may have made it in the meantime.
            known = _known_policy(client, name)
            if known is None:
                raise
    wanted = Egress().with_change(NetworkPolicyRequest.model_validate(fields))
    if _egress_rules(known.egress) != _egress_rules(wanted):
        raise UsageError(
            f"the network policy {name!r} ({known.id}) has other rules than tasks mean by that name; "
            "rename it with `benchyard network-policy update --name`, and import again"
        )
    return known.id


def _known_policy(client: SyncNouns, name: str) -> NetworkPolicyView | None:
    named = (
        network_policy
        for network_policy in client.network_policies.list(name=name)
        if network_policy.name == name
    )
    return find_one(named, name, "policy")


def _egress_rules(egress: Egress) -> dict[str, object]:
    """Return the rules of a policy, independent of their order."""
    return {
        **egress.model_dump(exclude={"allowed_cidrs", "allowed_hostnames"}),
        "cidrs": {allowed_cidr.model_dump_json() for allowed_cidr in egress.allowed_cidrs},
        "hostnames": set(egress.allowed_hostnames),
    }


def _policy_fields(access: NetworkAccess) -> PolicyFields:
    if access.mode == "open":
        return PolicyFields(
            name=OPEN_POLICY, description="Everything, as tasks of Harbor have it.", allow_all=True
        )
    if access.mode == "none":
        return PolicyFields(name=NO_NETWORK_POLICY, description="The gateway only.", allow_agent_gateway=True)
    digest = hashlib.sha256("\n".join(sorted(access.hosts)).encode()).hexdigest()[:12]
    blocks: list[dict[str, Any]] = [{"cidr": host} for host in access.hosts if _is_block(host)]
    return PolicyFields(
        name=_ALLOW_LIST_PREFIX + digest,
        description=f"Imported with a task: {', '.join(access.hosts)}"[:250],
        allow_agent_gateway=True,
        allowed_hostnames=[host for host in access.hosts if not _is_block(host)],
        allowed_cidrs=blocks,
    )


def _is_block(host: str) -> bool:
    try:
        ipaddress.ip_network(host)
    except ValueError:
        return False
    return True


ATTACHMENT_PREFIX = "attachment-"
_PENDING_OBJECT = "(to be stored)"
_DIGITS = 32
_PAGE = 50


def store_attachments(client: SyncNouns, archives: Mapping[str, bytes], *, dry_run: bool) -> dict[str, str]:
    """Store archives that the server lacks; returns the ids of their objects, by name."""
    found = {}
    for name, content in archives.items():
        digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
        found[name] = store_archive(client, ATTACHMENT_PREFIX + digest, content, dry_run=dry_run)
    return found


def store_archive(client: SyncNouns, name: str, archive: bytes, *, dry_run: bool) -> str:
    """Return the id of the object with this name, which derives from its content; stores a missing one."""
    found = [
        each.id
        for each in client.objects.list(name=name, limit=_PAGE)
        if each.name == name and each.state == ObjectState.READ_ONLY
    ]
    if found:
        # Simultaneous imports may have stored it twice: all of them use the oldest.
        return found[-1]
    if dry_run:
        return _PENDING_OBJECT
    return client.objects.upload(archive, ObjectRequest(name=name, content_type="tgz")).id


ON_DEMAND_PREFIX = "environment-"
_CONTEXT_PREFIX = "context-"
_PENDING = "(to be built)"


@dataclass(frozen=True)
class EnvironmentRecipe:
    """Description of an image to build."""

    text: str
    """Content of the Dockerfile."""
    prebuilt: str | None = None
    dockerfile: Path | None = None
    """Path of the Dockerfile in its context folder; None if the build needs no other file."""
    digest: str = ""
    """Digest of the other files in that folder."""


def on_demand_blueprint(client: SyncNouns, recipe: EnvironmentRecipe, *, dry_run: bool) -> str:
    """Return the blueprint of a recipe, built on demand; equal recipes share a blueprint."""
    told = f"{recipe.text}\0{recipe.prebuilt}\0{recipe.digest}"
    name = ON_DEMAND_PREFIX + hashlib.sha256(told.encode()).hexdigest()[:20]
    if known := _first_blueprint(client, name):
        return known
    if dry_run:
        return _PENDING
    request = BlueprintRequest(
        name=name,
        dockerfile=recipe.text,
        build_context=_stored_context(client, recipe) if recipe.dockerfile else None,
        prebuilt_image=recipe.prebuilt,
        on_demand=True,
    )
    made = client.blueprints.create(request).id
    first = _first_blueprint(client, name)
    if first is None or first == made:
        return made
    # Another import made it at the same moment, and earlier.
    client.blueprints.delete(made)
    return first


def _first_blueprint(client: SyncNouns, name: str) -> str | None:
    """Return the oldest usable blueprint of a name; lists begin with the newest."""
    found = [
        blueprint.id
        for blueprint in client.blueprints.list(name, limit=_PAGE)
        if blueprint.state == "created"
        and (blueprint.parameters.on_demand or blueprint.status is BlueprintStatus.BUILD_COMPLETE)
    ]
    return found[-1] if found else None


def _stored_context(client: SyncNouns, recipe: EnvironmentRecipe) -> BuildContext:
    assert recipe.dockerfile is not None
    name = _CONTEXT_PREFIX + hashlib.sha256(recipe.digest.encode()).hexdigest()[:20]
    with context_archive(recipe.dockerfile.parent, recipe.dockerfile) as archive:
        return BuildContext(object_id=store_archive(client, name, archive.read_bytes(), dry_run=False))


BUILT_PREFIX = "scenario-environment-"
"""Prefix of the names of blueprints built for scenarios; a digest of the content follows."""
_DOCKERFILE = "image/Dockerfile"
REFERENCE = "image-reference"
"""Kind of origin that is an image of a registry, named by its reference."""


def resolve_draft(
    client: SyncNouns, draft: ScenarioDraft, *, dry_run: bool = False, progress: PushProgress = SILENT
) -> ScenarioRequest:
    """Return a draft's request with its environment by the server's ids; builds missing images."""
    environment = draft.request.environment_parameters or ScenarioEnvironment()
    named = environment.model_copy(update=_ids(client, draft, draft.origin, progress, dry_run=dry_run))
    fields: dict[str, object] = {}
    if draft.scoring_origin is not None:
        made = _ids(client, draft, draft.scoring_origin, progress, dry_run=dry_run)
        fields["scoring_blueprint_id"] = made.get("blueprint_id")
    if draft.attachments:
        fields["attachments"] = store_attachments(client, draft.attachments, dry_run=dry_run)
    if draft.step_files:
        fields["steps"] = _steps_with_files(client, draft, dry_run=dry_run)
    if draft.phases is not None:
        fields |= phase_rules(client, draft.phases, dry_run=dry_run)
        named = with_setup_policy(client, named, draft.phases, dry_run=dry_run)
    return draft.request.model_copy(update={"environment_parameters": named, **fields})


def origin_of(
    client: SyncNouns, environment: ScenarioEnvironment | None, contents: FolderContents | None
) -> EnvironmentOrigin:
    """Return the name by which an environment's file can refer to it, so that it means the same again.

    A Dockerfile that needs no other file is put into `contents`.
    """
    if environment is None or not (environment.snapshot_id or environment.blueprint_id):
        return EnvironmentOrigin()
    if environment.snapshot_id:
        return EnvironmentOrigin("snapshot", environment.snapshot_id)
    id = environment.blueprint_id or ""
    try:
        view = client.blueprints.get(id)
    except NotFound:
        return EnvironmentOrigin("image", id)
    parameters = view.parameters
    if parameters.dockerfile and view.name == _content_name({"Dockerfile": parameters.dockerfile.encode()}):
        if contents is not None:
            contents.add(_DOCKERFILE, parameters.dockerfile)
        return EnvironmentOrigin("dockerfile", _DOCKERFILE)
    newest = _newest_blueprint(client, view.name)
    return EnvironmentOrigin("blueprint", view.name if newest and newest.id == id else id)


def _ids(
    client: SyncNouns,
    draft: ScenarioDraft,
    origin: EnvironmentOrigin,
    progress: PushProgress,
    *,
    dry_run: bool,
) -> dict[str, str]:
    if origin.kind == "snapshot":
        return {"snapshot_id": find_snapshot_id(client, origin.name)}
    if origin.kind == "blueprint":
        return {"blueprint_id": _built_blueprint_id(client, origin.name)}
    if origin.kind == "image":
        return {"blueprint_id": origin.name}
    if origin.kind == "dockerfile":
        return {"blueprint_id": _dockerfile_blueprint_id(client, draft, origin, progress, dry_run=dry_run)}
    if origin.kind == REFERENCE:
        recipe = EnvironmentRecipe(f"FROM {origin.name}\n")
        return {"blueprint_id": on_demand_blueprint(client, recipe, dry_run=dry_run)}
    return {}


def _steps_with_files(client: SyncNouns, draft: ScenarioDraft, *, dry_run: bool) -> list[Step]:
    """Return the steps of a scenario, each with its stored files."""
    stored = store_attachments(client, draft.step_files, dry_run=dry_run)
    return [
        each.model_copy(update={"files": stored.get(each.name, each.files)})
        for each in draft.request.steps or []
    ]


def _built_blueprint_id(client: SyncNouns, given: str) -> str:
    try:
        return client.blueprints.get(given).id
    except NotFound:
        newest = _newest_blueprint(client, given)
    if newest is None:
        raise NotFound(
            f"no blueprint that was built has the id or name {given!r}; see `benchyard blueprint list`"
        )
    return newest.id


def _newest_blueprint(client: SyncNouns, name: str) -> BlueprintView | None:
    return next(iter(client.blueprints.list(name, BlueprintStatus.BUILD_COMPLETE, limit=1)), None)


def _dockerfile_blueprint_id(
    client: SyncNouns,
    draft: ScenarioDraft,
    origin: EnvironmentOrigin,
    progress: PushProgress,
    *,
    dry_run: bool,
) -> str:
    """Return the blueprint of a Dockerfile and its folder; builds it unless an equal one exists."""
    dockerfile = draft.folder.inside(origin.name)
    if not dockerfile.is_file():
        raise UsageError(f"{draft.folder.path / origin.name}: there is no such Dockerfile")
    text = draft.folder.text(origin.name)
    files = _context_files(dockerfile)
    if origin.on_demand:
        recipe = EnvironmentRecipe(text, origin.prebuilt, dockerfile if files else None, _content_name(files))
        return on_demand_blueprint(client, recipe, dry_run=dry_run)
    name = _content_name({**files, "Dockerfile": text.encode()})
    known = _newest_blueprint(client, name)
    if known is not None:
        return known.id
    if dry_run:
        return _PENDING
    request = BlueprintRequest(name=name, dockerfile=text)
    context = dockerfile if files else None
    view = progress.build(client, draft.request.name, request, context)
    if view is None:
        build = BlueprintBuild(request, context.parent if context else None, context)
        view = finish_build(client, begin_build(client, build))
    return view.id


def _context_files(dockerfile: Path) -> dict[str, bytes]:
    """Return fingerprints of the files beside a Dockerfile that are part of its build, by path."""
    folder = dockerfile.parent
    found = {}
    for name in included_paths(folder, ignore_rules(folder, dockerfile)):
        path = folder / name
        if path != dockerfile:
            found[name] = _fingerprint(path)
    return found


def _fingerprint(path: Path) -> bytes:
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        return b"link " + os.fsencode(path.readlink())
    if not stat.S_ISREG(about.st_mode):
        return b"folder"
    with path.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").digest()
    return f"{stat.S_IMODE(about.st_mode):o} ".encode() + content


def _content_name(files: dict[str, bytes]) -> str:
    found = hashlib.sha256()
    for name in sorted(files):
        found.update(f"{len(name)} {name} {len(files[name])} ".encode() + files[name])
    return BUILT_PREFIX + found.hexdigest()[:20]
