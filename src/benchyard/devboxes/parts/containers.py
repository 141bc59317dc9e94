"""The containers of devboxes in an engine: made, started, met, frozen, ended, removed."""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchyard.devboxes.base import DevboxSpec
from benchyard.devboxes.parts import meeting, roll, running
from benchyard.devboxes.parts.container_engine import About, ContainerEngine
from benchyard.devboxes.parts.container_request import FOLDER, OWNER, Ways, container
from benchyard.errors import DevboxError, NotFound, StartFailed

_PATIENCE_SECONDS = 120
_RUNTIME = "It needs a runtime that shares this machine's kernel, such as runc or crun; not runsc or kata"
_OWN_KERNEL = ("runsc", "gvisor", "kata", "krun", "io.containerd.runsc", "io.containerd.kata")


def check_runtime(about: About, wanted: str | None) -> None:
    """Refuse a runtime that the engine has not, would not take, or that no devbox can start with."""
    known = ", ".join(about.runtimes)
    used = wanted or about.default_runtime
    if wanted and about.runtimes and wanted not in about.runtimes:
        raise StartFailed(f"the engine has no runtime {wanted!r}; it has: {known}", step="runtime")
    if used.startswith(_OWN_KERNEL):
        message = (
            f"with the runtime {used!r} a devbox's first process has a kernel of its own, where the server "
            "cannot reach it: take runc or crun, or give the whole server a virtual machine"
        )
        raise StartFailed(message, step="runtime")
    if about.name == "podman" and used != about.default_runtime:
        message = (
            f"Podman takes no runtime over its socket, and would use {about.default_runtime!r}: "
            f'write runtime = "{used}" into [engine] of its containers.conf, start its service again, '
            "and leave the option out"
        )
        raise StartFailed(message, step="runtime")


class Containers:
    """One container per devbox of an owner, named after both."""

    def __init__(self, engine: ContainerEngine, ways: Ways) -> None:
        self._engine = engine
        self._ways = ways

    def name(self, devbox_id: str) -> str:
        """The container of a devbox."""
        return self._ways.name(devbox_id)

    async def create(self, spec: DevboxSpec, image: str) -> None:
        """Make the container of a new devbox."""
        (spec.folder / meeting.FOLDER).mkdir(exist_ok=True)
        body = container(spec, image, self._ways)
        await self.remove(spec.id)
        await self._ask("/containers/create", body, {"name": self.name(spec.id)})

    async def reset(self, devbox_id: str) -> None:
        """End the container of a devbox with a disk, if it runs; raises StartFailed if it is gone."""
        found = await self._engine.inspect(self.name(devbox_id))
        if found is None:
            message = f"the disk of devbox {devbox_id} is gone: its container was removed from the engine"
            raise StartFailed(message, step="container")
        if found["State"]["Running"]:
            await self.kill(devbox_id)

    async def run(self, spec: DevboxSpec, request: dict[str, Any]) -> int:
        """Start the container and meet its first process, which takes requests from then on; its pid."""
        name = self.name(spec.id)
        with running.listen(spec.folder) as listener, meeting.convened(spec.folder) as place:
            await self._begin(name)
            ended = asyncio.ensure_future(self._engine.wait(name))
            met = asyncio.ensure_future(meeting.meet(place, request, listener))
            try:
                await asyncio.wait(
                    [ended, met], timeout=_PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                if not met.done():
                    said = await self._engine.said(name) or "it said nothing"
                    message = f"the devbox's first process did not start: {said}. {_RUNTIME}"
                    raise StartFailed(message, step="container")
                return met.result()
            finally:
                for task in (ended, met):
                    task.cancel()
                await asyncio.wait([ended, met])

    async def _begin(self, name: str) -> None:
        try:
            await self._ask(f"/containers/{name}/start")
        except StartFailed as error:
            if self._ways.runtime is None:
                raise
            message = f"{error.message} (with the runtime {self._ways.runtime!r}). {_RUNTIME}"
            raise StartFailed(message, step="container") from error

    async def _ask(self, path: str, body: Any = None, query: Mapping[str, str] | None = None) -> None:
        try:
            await self._engine.ask("POST", path, body, query)
        except (DevboxError, NotFound) as error:
            raise StartFailed(error.message, step="container") from error

    async def kill(self, devbox_id: str) -> None:
        """End whatever runs in a container, in whatever state it is; it may not be there."""
        for action in ("unpause", "kill"):
            # Refused unless it is paused, or runs.
            with contextlib.suppress(DevboxError, NotFound):
                await self._engine.ask("POST", f"/containers/{self.name(devbox_id)}/{action}")
        await self.ended(devbox_id)

    async def ended(self, devbox_id: str) -> None:
        """Return when the engine has noticed the end of a container, too."""
        await self._engine.wait(self.name(devbox_id))

    async def remove(self, devbox_id: str) -> None:
        """Remove a container with its disk, if it is there."""
        await self._engine.remove(self.name(devbox_id))

    async def freeze(self, devbox_id: str) -> None:
        """Stop every process where it stands."""
        await self._engine.ask("POST", f"/containers/{self.name(devbox_id)}/pause")

    async def thaw(self, devbox_id: str) -> None:
        """Let them go on."""
        await self._engine.ask("POST", f"/containers/{self.name(devbox_id)}/unpause")

    async def changes(self, devbox_id: str) -> Path | None:
        """The folder of what a container has changed, where the engine has one."""
        found = await self._engine.inspect(self.name(devbox_id)) or {}
        folder = ((found.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir")
        return Path(folder) if folder else None

    async def was_out_of_memory(self, devbox_id: str) -> bool:
        """Whether a container that has ended did so for want of memory."""
        found = await self._engine.inspect(self.name(devbox_id)) or {}
        return bool(found.get("State", {}).get("OOMKilled"))

    async def sweep(self) -> None:
        """Clear what an earlier server left: containers that no disk stands for, and half-started ones."""
        for found in await self._engine.containers(f"{OWNER}={self._ways.owner}"):
            folder = Path(found["Labels"][FOLDER])
            held = running.Held.load(folder)
            if not (folder / "changes").exists():
                await self._engine.remove(found["Id"])
            elif found["State"] in ("running", "paused") and (held is None or not roll.lives(held)):
                await self.kill(folder.name)
