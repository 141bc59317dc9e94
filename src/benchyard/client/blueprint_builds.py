"""Builds of blueprints from a Dockerfile, a context and files of this machine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchyard.client.bodies import Meter, no_meter
from benchyard.client.build_context import remove_context, upload_context
from benchyard.client.lookup import find_policy
from benchyard.client.nouns import SyncNouns
from benchyard.errors import UsageError
from benchyard.models.blueprints import BlueprintRequest, BlueprintView, BuildLogLine

OnLine = Callable[[BuildLogLine], None]
"""Called with each line of a build's log."""

_ID_PREFIX = "bpt_"


@dataclass(frozen=True)
class BlueprintBuild:
    """A build to begin: its request, and the folder that is sent as its context."""

    request: BlueprintRequest
    context: Path | None
    dockerfile: Path | None


def build_of(
    context: Path | None,
    *,
    name: str | None = None,
    dockerfile: Path | None = None,
    build_args: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    commands: Sequence[str] = (),
    files: Mapping[str, Path] | None = None,
    base: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> BlueprintBuild:
    """Return the build of these files; raises UsageError where one is missing, or all are."""
    found = _dockerfile(context, dockerfile)
    if not (context or found or commands or files or base):
        given = "a CONTEXT (such as .), --dockerfile, --base, --run or --file"
        raise UsageError(f"there is nothing to build: give {given}")
    called = name or (context.resolve().name if context else None)
    if not called:
        raise UsageError("give the blueprint a name with --name")
    is_id = bool(base and base.startswith(_ID_PREFIX))
    request = BlueprintRequest(
        name=called,
        dockerfile=_text(found) if found else None,
        build_args=dict(build_args or {}) or None,
        secrets=dict(secrets or {}) or None,
        system_setup_commands=list(commands) or None,
        file_mounts={remote: _text(local) for remote, local in (files or {}).items()} or None,
        base_blueprint_id=base if is_id else None,
        base_blueprint_name=None if is_id else base,
        metadata=dict(metadata or {}) or None,
    )
    return BlueprintBuild(request, context, found)


def begin_build(
    client: SyncNouns, build: BlueprintBuild, network_policy: str | None = None, meter: Meter = no_meter
) -> BlueprintView:
    """Send the context and ask for the build, under a network policy by its id or name."""
    policy = find_policy(client, network_policy).id if network_policy else None
    sent = upload_context(client, build.context, build.dockerfile, meter) if build.context else None
    update = {"build_context": sent, "network_policy_id": policy}
    return client.blueprints.create(build.request.model_copy(update=update))


def finish_build(client: SyncNouns, view: BlueprintView, tell: OnLine | None = None) -> BlueprintView:
    """Wait for the end of a build, and delete its context afterwards; raises BuildFailed."""
    try:
        if tell is not None:
            for line in client.blueprints.follow(view.id):
                tell(line)
        return client.blueprints.wait(view.id)
    finally:
        remove_context(client, view)


def _dockerfile(context: Path | None, given: Path | None) -> Path | None:
    if given is not None or context is None:
        return given
    usual = context / "Dockerfile"
    if not usual.is_file():
        raise UsageError(f"there is no {usual}; name another with --dockerfile")
    return usual


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text; send it in a CONTEXT") from error
    except OSError as error:
        raise UsageError(f"{path} could not be read: {error.strerror}") from error
