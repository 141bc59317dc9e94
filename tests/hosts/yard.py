"""A host over a real driver, for tests: opened, restarted as after a crash, and cleared away."""

from collections.abc import Mapping
from pathlib import Path

from benchyard import registry
from benchyard.devboxes.base import Driver
from benchyard.hosts.host import ExecRequest, ExecutionState, Host, StartRequest
from benchyard.images.store import ImageStore
from benchyard.store.vault import Vault

PATIENCE_SECONDS = 90.0


class HostYard:
    """One machine with its host, over the fake driver unless told otherwise."""

    def __init__(
        self, folder: Path, images: Path, options: Mapping[str, str] | None = None, name: str = "fake"
    ) -> None:
        self.folder = folder
        self.image_folder = images
        self.options = dict(options or {})
        self.name = name
        self.count = 0
        self.driver: Driver
        self.images: ImageStore
        self.host: Host

    async def open(self) -> None:
        """Start the server's side."""
        self.driver = registry.load("devboxes", self.name)(self.folder / "driver", self.options)
        await self.driver.__aenter__()
        self.images = ImageStore(self.image_folder, self.driver.trees)
        await self.images.open()
        self.host = Host(self.folder / "host", self.driver, self.images, Vault(self.folder / "key"))
        await self.host.__aenter__()

    async def close(self) -> None:
        """End the server's side; devboxes live on."""
        await self.host.__aexit__(None, None, None)
        await self.driver.__aexit__(None, None, None)

    async def restart(self) -> None:
        """What a server does that ends and starts again."""
        await self.close()
        await self.open()

    async def clear(self) -> None:
        """End everything."""
        for devbox in self.host.running():
            await self.host.stop(devbox, keep_disk=False)
        await self.close()

    async def devbox(self, name: str = "dbx_1", **changes: object) -> str:
        """Start a devbox."""
        await self.host.start(StartRequest(**{"id": name, "image": "host", **changes}))  # type: ignore[arg-type]
        return name

    async def run(self, devbox: str, command: str, **changes: object) -> ExecutionState:
        """Run a command to its end."""
        state = await self.host.exec(devbox, self.request(command, **changes))
        return await self.host.wait(devbox, state.id, PATIENCE_SECONDS)

    async def text(self, devbox: str, command: str, **changes: object) -> str:
        """What a command prints on stdout."""
        state = await self.run(devbox, command, **changes)
        assert state.status == "completed", state
        return (await self.output(devbox, state.id)).decode()

    async def output(self, devbox: str, execution: str, stream: str = "stdout", offset: int = 0) -> bytes:
        """All of a stream."""
        return b"".join([piece async for piece in self.host.output(devbox, execution, stream, offset)])

    async def output_so_far(self, devbox: str, execution: str) -> bytes:
        """What stdout holds now."""
        pieces = self.host.output(devbox, execution, "stdout", follow=False)
        return b"".join([piece async for piece in pieces])

    def request(self, command: str, **changes: object) -> ExecRequest:
        """A request with an id of its own."""
        self.count += 1
        changes = {"id": f"exec_{self.count}", "command": command, **changes}
        return ExecRequest(**changes)  # type: ignore[arg-type]
