"""Remains of a container driver in its engine, found from outside, with or without a server."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from benchyard.devboxes.container.containers import FOLDER_LABEL, OWNER_LABEL
from benchyard.devboxes.container.images import LAYERS_LABEL, is_stale
from benchyard.devboxes.shared import cgroups, devbox_index
from benchyard.devboxes.shared.running_devbox import FirstProcess

_NOTE = "engine.json"
_SECONDS = 30.0
_RUNNING = ("running", "paused")


def note_engine(folder: Path, path: Path) -> None:
    """Note the socket of the engine in the driver's folder."""
    (folder / _NOTE).write_text(json.dumps({"socket": str(path)}))


def find_leftovers(folder: Path, layers: Path) -> Iterator[tuple[str, str, str]]:
    """Yield containers and images that no devbox or layer explains: kind, name, and reason.

    `folder` is the driver's; `layers` is the folder of this server's layers. An engine that does not answer
    runs no container, and has nothing to report.
    """
    try:
        path = json.loads((folder / _NOTE).read_text())["socket"]
    except (FileNotFoundError, ValueError, KeyError):
        return
    with socket.socket(socket.AF_UNIX) as probe:
        if probe.connect_ex(path) != 0:
            return
    transport = httpx.HTTPTransport(uds=path)
    with httpx.Client(transport=transport, base_url="http://engine", timeout=_SECONDS) as client:
        try:
            containers = _list(client, "/containers/json", f"{OWNER_LABEL}={cgroups.owner(folder)}")
            images = _list(client, "/images/json", LAYERS_LABEL)
        except httpx.HTTPError:
            return
    for container in containers:
        if reason := _reason(Path(container["Labels"][FOLDER_LABEL]), container["State"]):
            yield "container", container["Names"][0].lstrip("/"), reason
    for image in images:
        if f'"{layers}/' in image["Labels"][LAYERS_LABEL] and is_stale(image):
            yield "image", (image.get("RepoTags") or [image["Id"]])[0], "its layers are gone"


def _list(client: httpx.Client, path: str, label: str) -> list[dict[str, Any]]:
    answer = client.get(path, params={"all": "true", "filters": json.dumps({"label": [label]})})
    answer.raise_for_status()
    found: list[dict[str, Any]] = answer.json()
    return found


def _reason(folder: Path, state: str) -> str | None:
    if not (folder / "changes").exists():
        return "no devbox has it as its disk"
    held = FirstProcess.load(folder)
    if state in _RUNNING and (held is None or not devbox_index.is_alive(held)):
        return "it runs, but its devbox does not"
    return None
