"""A client of this machine's container engine, Docker or Podman: HTTP over its unix socket."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from benchyard.errors import DevboxError, NotFound, StartFailed, UsageError

_PIECE = 1024 * 1024


async def read_chunks(path: Path) -> AsyncIterator[bytes]:
    """Yield the content of a file."""
    file = await asyncio.to_thread(path.open, "rb")
    try:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece
    finally:
        file.close()


_NEWEST = (1, 47)
"""The newest version of the interface that this module was written for; older ones work as well."""
_SECONDS = 120.0
_REMEDY = (
    "start one (`systemctl start docker`, `systemctl start podman.socket`, or "
    "`podman system service --time=0 unix:///run/podman/podman.sock &`), or name its socket: "
    "`--driver-option socket=/path`"
)


def usual_sockets(environment: Mapping[str, str]) -> list[Path]:
    """Return the sockets on which engines listen by default."""
    own = environment.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    return [
        Path("/var/run/docker.sock"),
        Path("/run/podman/podman.sock"),
        Path(own) / "docker.sock",
        Path(own) / "podman" / "podman.sock",
    ]


def find_socket(option: str | None, environment: Mapping[str, str]) -> Path:
    """Return the requested socket, else the first existing one; raise StartFailed with a remedy."""
    address = option or environment.get("DOCKER_HOST")
    if address:
        scheme, separator, rest = address.rpartition("://")
        if separator and scheme != "unix":
            raise UsageError(
                f"the engine at {address} is not on this machine; the container driver needs a unix socket, "
                "because devboxes and their server share files: run a server beside that engine"
            )
        return Path(rest)
    usual = usual_sockets(environment)
    for path in usual:
        if path.is_socket():
            return path
    tried = ", ".join(map(str, usual))
    raise StartFailed(
        f"no container engine listens on this machine (tried {tried}): {_REMEDY}",
        step="engine",
        remedy=_REMEDY,
    )


@dataclass(frozen=True)
class EngineInfo:
    """Properties of an engine, by its own account."""

    name: str
    version: str
    storage: str
    shifts_ids: bool
    """User ids in a container differ from those outside."""
    runtimes: tuple[str, ...]
    default_runtime: str
    can_limit: Mapping[str, bool]
    has_plain_layers: bool
    """The changes of a container are one complete folder of overlayfs."""


class ContainerEngine:
    """A container engine. All methods raise DevboxError if it refuses, NotFound if the object is missing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        self._client = httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=_SECONDS)
        self._prefix = ""

    async def open(self) -> EngineInfo:
        """Agree on a version; raise StartFailed if the engine does not answer."""
        try:
            greeting = await self._client.get("/_ping")
        except httpx.HTTPError as error:
            message = f"no container engine answers at {self.path} ({error}): {_REMEDY}"
            raise StartFailed(message, step="engine", remedy=_REMEDY) from error
        if greeting.is_error or "api-version" not in greeting.headers:
            message = (
                f"the server at {self.path} is not a container engine: name another with the option socket"
            )
            raise StartFailed(message, step="engine")
        major, minor = min(_NEWEST, _version(greeting.headers["api-version"]))
        self._prefix = f"/v{major}.{minor}"
        name = "podman" if "libpod-api-version" in greeting.headers else "docker"
        return _about(name, await self.ask("GET", "/info"))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        timeout: float | None = _SECONDS,
    ) -> Any:
        """Send a request; return the answer's JSON, if it has any."""
        try:
            answer = await self._client.request(
                method, self._prefix + path, json=body, params=query, timeout=timeout
            )
        except httpx.HTTPError as error:
            raise self._lost(error) from error
        if answer.is_error:
            raise _refusal(answer.status_code, answer.text)
        is_json = "json" in answer.headers.get("content-type", "")
        return json.loads(answer.content) if is_json and answer.content else answer.content

    def _lost(self, error: httpx.HTTPError) -> DevboxError:
        return DevboxError(f"the container engine at {self.path} does not answer: {error!r}")

    async def inspect(self, name: str) -> dict[str, Any] | None:
        """Return the engine's record of a container; None if no container has that name."""
        try:
            answer: dict[str, Any] = await self.ask("GET", f"/containers/{quote(name)}/json")
        except NotFound:
            return None
        return answer

    async def containers(self, label: str) -> list[dict[str, Any]]:
        """List all containers, running or not, that have a label."""
        query = {"all": "true", "filters": json.dumps({"label": [label]})}
        answer: list[dict[str, Any]] = await self.ask("GET", "/containers/json", query=query)
        return answer

    async def remove(self, name: str) -> None:
        """Remove a container and its disk, if it exists."""
        try:
            await self.ask("DELETE", f"/containers/{quote(name)}", query={"force": "true", "v": "true"})
        except NotFound:
            return

    async def wait(self, name: str) -> None:
        """Return when a container does not run, or does not exist."""
        try:
            await self.ask("POST", f"/containers/{quote(name)}/wait", timeout=None)
        except NotFound:
            return

    async def end_of_output(self, name: str) -> str:
        """Return the end of a container's output."""
        query = {"stdout": "true", "stderr": "true", "tail": "20"}
        raw: bytes = await self.ask("GET", f"/containers/{quote(name)}/logs", query=query)
        return _plain(raw).decode(errors="replace").strip()[-2000:]

    async def images(self, label: str) -> list[dict[str, Any]]:
        """List all images that have a label."""
        query = {"filters": json.dumps({"label": [label]})}
        answer: list[dict[str, Any]] = await self.ask("GET", "/images/json", query=query)
        return answer

    async def has_image(self, reference: str) -> bool:
        """Tell whether an image of that name exists."""
        try:
            await self.ask("GET", f"/images/{quote(reference)}/json")
        except NotFound:
            return False
        return True

    async def load(self, archive: Path) -> None:
        """Load an image archive."""
        try:
            answer = await self._client.post(
                f"{self._prefix}/images/load",
                content=read_chunks(archive),
                headers={"content-type": "application/x-tar"},
                timeout=None,
            )
        except httpx.HTTPError as error:
            raise self._lost(error) from error
        if answer.is_error or b'"error"' in answer.content:
            raise _refusal(answer.status_code, answer.text)

    async def save(self, reference: str) -> AsyncIterator[bytes]:
        """Yield an image as an archive, piece by piece."""
        try:
            async with self._client.stream(
                "GET", f"{self._prefix}/images/{quote(reference)}/get", timeout=None
            ) as answer:
                if answer.is_error:
                    await answer.aread()
                    raise _refusal(answer.status_code, answer.text)
                async for piece in answer.aiter_raw():
                    yield piece
        except httpx.HTTPError as error:
            raise self._lost(error) from error


def _refusal(status: int, text: str) -> DevboxError | NotFound:
    try:
        told = json.loads(text)
        text = told.get("message") or told.get("cause") or text
    except (ValueError, AttributeError):
        pass
    message = f"the container engine refused: {text.strip()[:1000]}"
    return NotFound(message) if status == 404 else DevboxError(message, status=status)


def _version(text: str) -> tuple[int, int]:
    match = re.match(r"(\d{1,3})\.(\d{1,3})", text)
    return (int(match[1]), int(match[2])) if match else _NEWEST


def _about(name: str, info: dict[str, Any]) -> EngineInfo:
    storage = str(info.get("Driver", ""))
    status = {str(key): str(value) for key, value in info.get("DriverStatus") or ()}
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    return EngineInfo(
        name=name,
        version=str(info.get("ServerVersion", "")),
        storage=storage,
        shifts_ids=bool(info.get("Rootless"))
        or any("rootless" in option or "userns" in option for option in options),
        runtimes=tuple(info.get("Runtimes") or ()),
        default_runtime=str(info.get("DefaultRuntime", "")),
        can_limit={
            "limit_cpu": bool(info.get("CpuCfsQuota")),
            "limit_memory": bool(info.get("MemoryLimit")),
            "limit_pids": bool(info.get("PidsLimit")),
        },
        has_plain_layers=storage.startswith("overlay")
        and status.get("Native Overlay Diff", "true") == "true"
        and status.get("Using metacopy", "false") == "false",
    )


def _plain(raw: bytes) -> bytes:
    """Return the printed text, without the headers that separate the two streams."""
    text, rest = b"", raw
    while len(rest) >= 8 and rest[0] in (0, 1, 2) and rest[1:4] == b"\0\0\0":
        size = int.from_bytes(rest[4:8], "big")
        text, rest = text + rest[8 : 8 + size], rest[8 + size :]
    return text + rest
