"""Where a registered agent comes from, as people say it: packages, repositories, objects, local folders."""

import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchyard.cli.context import packed_context
from benchyard.cli.object import content_type
from benchyard.cli.progress import Meter
from benchyard.client.client import Client
from benchyard.errors import UsageError
from benchyard.models.objects import ObjectRequest

_SECONDS = 600


@dataclass(frozen=True)
class Wanted:
    """What was typed."""

    given: Mapping[str, str]
    """Kind -> value, of those that were given."""
    ref: str | None = None
    registry: str | None = None
    setup: list[str] = field(default_factory=list)


def source_of(client: Client, name: str, wanted: Wanted) -> dict[str, Any]:
    """The source of an agent; what is local is uploaded. Raises UsageError for what does not fit together."""
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
        part = {"object_id": _object(client, name, kind, wanted)}
        kind = "object"
    return {"type": kind, kind: {**part, "agent_setup": wanted.setup or None}}


def _object(client: Client, name: str, kind: str, wanted: Wanted) -> str:
    """The id of an object, uploaded where it is a path."""
    value = wanted.given[kind]
    path = Path(value).expanduser()
    if kind == "git":
        return _repository(client, name, path, wanted.ref or "HEAD")
    if path.is_dir():
        with packed_context(path) as archive:
            return _sent(client, archive, f"{name}.tgz")
    if path.is_file():
        return _sent(client, path, path.name)
    if "/" in value or value.startswith("."):
        raise UsageError(f"there is no folder or file {value}")
    return value


def _repository(client: Client, name: str, folder: Path, ref: str) -> str:
    if ref.startswith("-"):
        raise UsageError(f"{ref!r} is no branch, tag or commit")
    command = ["git", "-C", str(folder), "archive", "--format=tar.gz", ref]
    with tempfile.NamedTemporaryFile(prefix="benchyard-agent-", suffix=".tgz") as file:
        try:
            ended = subprocess.run(
                command, stdout=file, stderr=subprocess.PIPE, check=False, timeout=_SECONDS, text=True
            )
        except FileNotFoundError as error:
            raise UsageError("a local repository needs git; give --object to send the folder") from error
        if ended.returncode != 0:
            raise UsageError(f"{folder} at {ref} could not be packed: {ended.stderr.strip()}")
        return _sent(client, Path(file.name), f"{name}.tgz")


def _sent(client: Client, path: Path, name: str) -> str:
    request = ObjectRequest(name=name.rpartition("/")[2], content_type=content_type(name))
    with Meter(name, path.stat().st_size) as meter:
        return client.objects.upload(path, request, meter.add).id
