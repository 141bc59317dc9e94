"""The program `docker`, connected to an engine that builds with BuildKit."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchyard.images.builders import processes
from benchyard.images.builders.base import Log
from benchyard.images.builders.buildah_tool import BuildahCall, inherited_environment

_ANSWER_SECONDS = 20.0
_BUILDX_SINCE = 23
"""From this version on, the program needs a plugin for builds, which may be missing."""
_HEREDOCS_SINCE = 23
_WHERE = ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")


@dataclass(frozen=True)
class DockerEngine:
    """An engine that answers, and the program that connects to it."""

    program: str
    host: str | None
    """URL that it listens on; None is the program's default."""
    version: str
    storage: Path
    """Folder of its layers."""

    @property
    def knows_heredocs(self) -> bool:
        """Tell whether this version reads here-documents itself."""
        return _major(self.version) >= _HEREDOCS_SINCE


class DockerTool:
    """Calls of `docker` with our own settings."""

    def __init__(self, engine: DockerEngine, folder: Path) -> None:
        self.engine = engine
        self._folder = folder

    async def run(self, call: BuildahCall, log: Log) -> int:
        """Call the program; return its exit status."""
        own = {"DOCKER_CONFIG": str(self._folder / "settings"), "HOME": str(call.folder)}
        work = processes.BuildProcess(
            [self.engine.program, *call.arguments],
            {**_environment(self.engine.host), **own, **call.environment},
            call.folder,
            seconds=call.seconds,
            overfull=call.overfull,
        )
        return await processes.run_process(work, log)

    async def ask(self, scratch: Path, *arguments: str) -> list[str] | None:
        """Return the output of a short query, line by line; None if it fails."""
        lines: list[str] = []
        status = await self.run(BuildahCall(arguments, scratch), lines.append)
        return lines if status == 0 else None


def find_engine(host: str | None) -> DockerEngine | str:
    """Find an engine with BuildKit; else return why there is none, with the remedy (blocks)."""
    problem = "the program docker is not there: `apt-get install docker.io`"
    if processes.missing_programs():
        return f"not installed: {', '.join(processes.missing_programs())} (of the package util-linux)"
    for program in _programs():
        engine = _look(program, host)
        if isinstance(engine, DockerEngine):
            return engine
        problem = engine
    return problem


def _programs() -> Iterator[str]:
    """Yield every `docker` on the path: the first may lack a plugin."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder and (program := shutil.which("docker", path=folder)):
            yield program


def _look(program: str, host: str | None) -> DockerEngine | str:
    version = _json(program, host, "version")
    server = version.get("Server") or {}
    if not server:
        return "no Docker engine answers: start it (`systemctl start docker`)"
    if any("Podman" in str(part.get("Name")) for part in server.get("Components") or ()):
        return "the engine is Podman, which builds with buildah: `apt-get install buildah`"
    client = str((version.get("Client") or {}).get("Version", ""))
    if _major(client) >= _BUILDX_SINCE and _call(program, host, "buildx", "version") is None:
        return f"{program} {client} cannot build without its part buildx: `apt-get install docker-buildx`"
    about = _json(program, host, "info")
    return DockerEngine(
        program, host, str(server.get("Version", "")), Path(str(about.get("DockerRootDir") or "/nowhere"))
    )


def _json(program: str, host: str | None, verb: str) -> dict[str, Any]:
    answer = _call(program, host, verb, "--format", "{{json .}}")
    try:
        parsed = json.loads(answer or "{}")
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _call(program: str, host: str | None, *arguments: str) -> str | None:
    try:
        ended = subprocess.run(
            [program, *arguments],
            env=_environment(host),
            capture_output=True,
            text=True,
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout if ended.returncode == 0 else None


def _environment(host: str | None) -> Mapping[str, str]:
    """Return an environment that forces BuildKit: the older builder lacks secrets and parallel stages."""
    own = {"DOCKER_BUILDKIT": "1", "BUILDX_NO_DEFAULT_ATTESTATIONS": "1", "DOCKER_CONFIG": "/nonexistent"}
    meant = {name: os.environ[name] for name in _WHERE if name in os.environ}
    return {**inherited_environment(), **own, **({"DOCKER_HOST": host} if host else meant)}


def _major(version: str) -> int:
    match = re.match(r"\d+", version)
    return int(match[0]) if match else 0
