"""Sources of agents: packages, repositories, and folders and files of this machine, which are uploaded."""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchyard.client.bodies import Meter, no_meter
from benchyard.client.build_context import context_archive
from benchyard.client.nouns import SyncNouns
from benchyard.client.resources.objects import content_type
from benchyard.errors import UsageError
from benchyard.models.objects import ObjectRequest

_SECONDS = 600


@dataclass(frozen=True)
class AgentSourceOptions:
    """Options that describe the source of an agent."""

    given: Mapping[str, str]
    """Values of the given source options, by kind."""
    ref: str | None = None
    registry: str | None = None
    setup: Sequence[str] = ()
    meter: Meter = no_meter
    """Shows the bytes of uploads."""


def source_of(client: SyncNouns, name: str, wanted: AgentSourceOptions) -> dict[str, Any]:
    """Return the source of an agent; uploads local files. Raises UsageError for contradicting options."""
    if len(wanted.given) != 1:
        raise UsageError("give one of --npm, --pip, --git and --object: where the agent comes from")
    ((kind, value),) = wanted.given.items()
    if wanted.ref and kind != "git":
        raise UsageError("--ref is for --git; of a package give --version")
    if wanted.registry and kind not in ("npm", "pip"):
        raise UsageError("--registry is for --npm and --pip")
    if kind in ("npm", "pip"):
        part = {"package_name": value, "registry_url": wanted.registry}
    elif kind == "git" and not Path(value).is_dir():
        part = {"repository": value, "ref": wanted.ref}
    else:
        part = {"object_id": _object_id(client, name, kind, wanted)}
        kind = "object"
    return {"type": kind, kind: {**part, "agent_setup": list(wanted.setup) or None}}


def _object_id(client: SyncNouns, name: str, kind: str, wanted: AgentSourceOptions) -> str:
    """Return the id of an object, uploaded first if it is a path."""
    value = wanted.given[kind]
    path = Path(value).expanduser()
    if kind == "git":
        return _repository(client, name, path, wanted)
    if path.is_dir():
        with context_archive(path) as archive:
            return _upload(client, archive, f"{name}.tgz", wanted.meter)
    if path.is_file():
        return _upload(client, path, path.name, wanted.meter)
    if "/" in value or value.startswith("."):
        raise UsageError(f"there is no folder or file {value}")
    return value


def _repository(client: SyncNouns, name: str, folder: Path, wanted: AgentSourceOptions) -> str:
    ref = wanted.ref or "HEAD"
    if ref.startswith("-"):
        raise UsageError(f"{ref!r} is not a branch, tag or commit")
    command = ["git", "-C", str(folder), "archive", "--format=tar.gz", ref]
    with tempfile.NamedTemporaryFile(prefix="benchyard-agent-", suffix=".tgz") as file:
        try:
            ended = subprocess.run(
                command, stdout=file, stderr=subprocess.PIPE, check=False, timeout=_SECONDS, text=True
            )
        except FileNotFoundError as error:
            raise UsageError("a local repository needs git; give --object to send the folder") from error
        except subprocess.TimeoutExpired as error:
            raise UsageError(f"{folder} at {ref} was not packed after {_SECONDS} s") from error
        if ended.returncode != 0:
            raise UsageError(f"{folder} at {ref} could not be packed: {ended.stderr.strip()}")
        return _upload(client, Path(file.name), f"{name}.tgz", wanted.meter)


def _upload(client: SyncNouns, path: Path, name: str, meter: Meter) -> str:
    request = ObjectRequest(name=name.rpartition("/")[2], content_type=content_type(name))
    with meter(name, path.stat().st_size) as progress:
        return client.objects.upload(path, request, progress).id
