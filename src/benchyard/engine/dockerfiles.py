"""Dockerfiles as text: one that continues a base, and one that describes a whole build."""

import re
import shlex

from benchyard.engine.launch import host_architecture
from benchyard.models.blueprints import Blueprint, BlueprintRequest

_FROM = re.compile(r"^[^\S\n]*FROM\s", re.IGNORECASE | re.MULTILINE)
_STARTER = "runloop:runloop/starter-{}"
_SHOWN_FILE_CHARACTERS = 120


def continued(dockerfile: str, base: Blueprint | None) -> str:
    """The Dockerfile itself; one without FROM continues its base blueprint."""
    if base is None or _FROM.search(dockerfile):
        return dockerfile
    lines = dockerfile.splitlines(keepends=True)
    # Parser directives and comments stay first.
    first = next((index for index, line in enumerate(lines) if not line.lstrip().startswith("#")), len(lines))
    if first and not lines[first - 1].endswith("\n"):
        lines[first - 1] += "\n"
    return "".join([*lines[:first], f"FROM {base.id}\n", *lines[first:]])


def preview(request: BlueprintRequest, base: Blueprint | None) -> str:
    """A Dockerfile that describes the whole build: what the engine itself does is written as RUN and COPY."""
    lines = [_beginning(request, base).rstrip("\n")]
    if request.secrets:
        lines.append(f"# In the environment of the commands below, in no layer: {', '.join(request.secrets)}")
    lines += _mounts(request)
    commands = request.system_setup_commands or []
    if commands or request.code_mounts:
        lines.append(f"USER {_user(request)}")
    for mount in request.code_mounts or []:
        reference = (
            f" && git -C {mount.repo_name} checkout {shlex.quote(mount.git_ref)}" if mount.git_ref else ""
        )
        lines.append(f"RUN git clone {mount.repo_owner}/{mount.repo_name} {mount.repo_name}{reference}")
        if mount.install_command:
            lines.append(_run(f"cd {mount.repo_name} && {mount.install_command}"))
    lines += [_run(command) for command in commands]
    return "\n".join(lines) + "\n"


def _beginning(request: BlueprintRequest, base: Blueprint | None) -> str:
    if request.dockerfile:
        return continued(request.dockerfile, base)
    if request.build_context:
        return f"# The Dockerfile at the top of object {request.build_context.object_id}"
    return f"FROM {base.id}" if base else f"FROM {_STARTER.format(host_architecture())}"


def _mounts(request: BlueprintRequest) -> list[str]:
    lines = []
    for path, text in (request.file_mounts or {}).items():
        shown = text[:_SHOWN_FILE_CHARACTERS]
        cut = "..." if len(text) > len(shown) else ""
        lines.append(f"# {path!r}: {len(text.encode(errors='surrogatepass'))} bytes: {shown!r}{cut}")
        lines.append(f"COPY {shlex.quote(path)} {shlex.quote(path)}".replace("\n", " "))
    return lines


def _user(request: BlueprintRequest) -> str:
    launch = request.launch_parameters
    return launch.user_parameters.username if launch and launch.user_parameters else "user"


def _run(command: str) -> str:
    if "\n" not in command.strip():
        return f"RUN {command.strip()}"
    mark = "BENCHYARD_END"
    while mark in command:
        mark += "_"
    return f"RUN <<'{mark}'\n{command.rstrip()}\n{mark}"
