"""One devbox as an object: run commands, move files, keep its disk."""

import uuid
from types import TracebackType
from typing import Generic

from benchyard.client import files, lifecycle, snapshots
from benchyard.client.bodies import Source, Target
from benchyard.client.commands import Commands
from benchyard.client.core import Steps
from benchyard.client.devbox_files import DevboxFiles
from benchyard.client.executions import ExecutionResult, run
from benchyard.client.sessions import AsyncSession, SyncSession
from benchyard.client.verbs import Group, S, call
from benchyard.models.devboxes import DevboxRequest, DevboxView
from benchyard.models.snapshots import SnapshotRequest, SnapshotView


class Devbox(Group[S]):
    """A devbox; as a context manager it ends with its block."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session)
        self.id = id
        self.cmd: Commands[S] = Commands(session, id)
        self.file: DevboxFiles[S] = DevboxFiles(session, id)

    def __repr__(self) -> str:
        return f"<Devbox {self.id}>"

    def shell(self, name: str | None = None) -> Commands[S]:
        """A shell that keeps directory and environment from command to command."""
        return Commands(self.session, self.id, name or f"shell-{uuid.uuid4()}")

    @call
    def get_info(self) -> Steps[DevboxView]:
        """As it is now."""
        return (yield from lifecycle.get(self.id))

    @call
    def await_running(self, timeout: float | None = None) -> Steps[DevboxView]:
        """Wait until it runs; raises StartFailed if it never will, StillWaiting after the timeout."""
        return (yield from lifecycle.reach_running(self.id, timeout))

    @call
    def keep_alive(self) -> Steps[None]:
        """Start its idle time over."""
        yield from lifecycle.keep_alive(self.id)

    @call
    def run(self, command: str, shell_name: str | None = None) -> Steps[ExecutionResult]:
        """Run a command to its end and return its exit status and its whole output."""
        return (yield from run(self.id, command, shell_name))

    @call
    def read(self, path: str) -> Steps[str]:
        """The text of a file."""
        return (yield from files.read_text(self.id, path))

    @call
    def write(self, path: str, text: str) -> Steps[None]:
        """Write a file of this text, making its folders."""
        yield from files.write_text(self.id, path, text)

    @call
    def upload(self, path: str, source: Source) -> Steps[None]:
        """Write a file of any bytes and size."""
        yield from files.upload_file(self.id, path, source)

    @call
    def download(self, path: str, target: Target) -> Steps[int]:
        """Fetch a file of any bytes and size."""
        return (yield from files.download_file(self.id, path, target))

    @call
    def snapshot(self, request: SnapshotRequest | None = None) -> Steps[SnapshotView]:
        """Keep its disk, so that others can start from it."""
        return (yield from snapshots.create(self.id, request or SnapshotRequest()))

    @call
    def snapshot_disk(
        self,
        name: str | None = None,
        commit_message: str | None = None,
        metadata: dict[str, str] | None = None,
    ) -> Steps[SnapshotView]:
        """Keep its disk under a name, and wait until it is safe."""
        request = SnapshotRequest(name=name, commit_message=commit_message, metadata=metadata)
        return (yield from snapshots.create(self.id, request))

    @call
    def shutdown(self) -> Steps[DevboxView]:
        """End it."""
        return (yield from lifecycle.shutdown(self.id, force=True))

    def __enter__(self: "Devbox[SyncSession]") -> "Devbox[SyncSession]":
        return self

    def __exit__(
        self: "Devbox[SyncSession]",
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()

    async def __aenter__(self: "Devbox[AsyncSession]") -> "Devbox[AsyncSession]":
        return self

    async def __aexit__(
        self: "Devbox[AsyncSession]",
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.shutdown()


class Opening(Generic[S]):
    """A devbox that lives as long as a `with` or `async with` block."""

    def __init__(self, session: S, request: DevboxRequest) -> None:
        self._session = session
        self._request = request
        self._id: str | None = None

    def __enter__(self: "Opening[SyncSession]") -> Devbox[SyncSession]:
        view = self._session.run(lifecycle.create(self._request))
        self._id = view.id
        try:
            return Devbox(self._session, self._session.run(lifecycle.await_running(view, None)).id)
        except BaseException:
            self._session.run(lifecycle.shutdown(view.id, force=True))
            raise

    def __exit__(
        self: "Opening[SyncSession]",
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._id is not None:
            self._session.run(lifecycle.shutdown(self._id, force=True))

    async def __aenter__(self: "Opening[AsyncSession]") -> Devbox[AsyncSession]:
        view = await self._session.run(lifecycle.create(self._request))
        self._id = view.id
        try:
            return Devbox(self._session, (await self._session.run(lifecycle.await_running(view, None))).id)
        except BaseException:
            await self._session.run(lifecycle.shutdown(view.id, force=True))
            raise

    async def __aexit__(
        self: "Opening[AsyncSession]",
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._id is not None:
            await self._session.run(lifecycle.shutdown(self._id, force=True))
