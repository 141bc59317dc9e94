"""One devbox as an object: run commands, move files, keep its disk."""

import uuid
from types import TracebackType
from typing import Generic, Unpack

from benchyard.client import files, lifecycle, logs, snapshots, tunnels
from benchyard.client.bodies import Source, Target
from benchyard.client.commands import Commands
from benchyard.client.core import Steps
from benchyard.client.devbox_files import DevboxFiles
from benchyard.client.devbox_network import DevboxNetwork
from benchyard.client.executions import ExecutionResult, run
from benchyard.client.sessions import AsyncSession, SyncSession
from benchyard.client.verbs import Group, S, call
from benchyard.client.wanted import DevboxExtras, SnapshotFields, request_of
from benchyard.models.devboxes import DevboxRequest, DevboxStatus, DevboxView
from benchyard.models.executions import LogsView
from benchyard.models.snapshots import SnapshotRequest, SnapshotStatusView, SnapshotView
from benchyard.models.tunnels import TunnelView


class Devbox(Group[S]):
    """A devbox; as a context manager it ends with its block."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session)
        self.id = id
        self.cmd: Commands[S] = Commands(session, id)
        self.file: DevboxFiles[S] = DevboxFiles(session, id)
        self.net: DevboxNetwork[S] = DevboxNetwork(session, id)

    def __repr__(self) -> str:
        return f"<Devbox {self.id}>"

    def shell(self, shell_name: str | None = None) -> Commands[S]:
        """A shell that keeps directory and environment from command to command."""
        return Commands(self.session, self.id, shell_name or f"shell-{uuid.uuid4()}")

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
        timeout: float | None = None,
    ) -> Steps["Snapshot[S]"]:
        """Keep its disk under a name, and wait until it is safe."""
        request = SnapshotRequest(name=name, commit_message=commit_message, metadata=metadata)
        view = yield from snapshots.begin(self.id, request)
        yield from snapshots.await_complete(view.id, timeout)
        return Snapshot(self.session, view.id)

    @call
    def snapshot_disk_async(
        self,
        name: str | None = None,
        commit_message: str | None = None,
        metadata: dict[str, str] | None = None,
    ) -> Steps["Snapshot[S]"]:
        """Begin to keep its disk, and return at once; `Snapshot.await_completed` waits for it."""
        request = SnapshotRequest(name=name, commit_message=commit_message, metadata=metadata)
        return Snapshot(self.session, (yield from snapshots.begin(self.id, request)).id)

    @call
    def suspend(self, timeout: float | None = None) -> Steps[DevboxView]:
        """Stop all its processes, keep its disk, and wait until that is done."""
        yield from lifecycle.suspend(self.id)
        return (yield from lifecycle.reach(self.id, DevboxStatus.SUSPENDED, timeout))

    @call
    def resume(self, timeout: float | None = None) -> Steps[DevboxView]:
        """Start it again after it was suspended, and wait until it runs."""
        yield from lifecycle.resume(self.id)
        return (yield from lifecycle.reach_running(self.id, timeout))

    @call
    def resume_async(self) -> Steps[DevboxView]:
        """Begin to start it again, and return at once."""
        return (yield from lifecycle.resume(self.id))

    @call
    def await_suspended(self, timeout: float | None = None) -> Steps[DevboxView]:
        """Wait until it is suspended; raises DevboxGone if it ended instead."""
        return (yield from lifecycle.reach(self.id, DevboxStatus.SUSPENDED, timeout))

    @call
    def logs(self, execution_id: str | None = None, shell_name: str | None = None) -> Steps[LogsView]:
        """Its log, or that of one execution or shell."""
        return (yield from logs.lines(self.id, execution_id, shell_name))

    @call
    def get_tunnel(self) -> Steps[TunnelView | None]:
        """Its tunnel, if it has one."""
        return (yield from lifecycle.get(self.id)).tunnel

    @call
    def get_tunnel_url(self, port: int) -> Steps[str | None]:
        """Where one of its ports is from outside, if it has a tunnel."""
        tunnel = (yield from lifecycle.get(self.id)).tunnel
        return tunnels.url(self.session.server, tunnel, port) if tunnel is not None else None

    @call
    def shutdown(self) -> Steps[DevboxView]:
        """End it."""
        return (yield from lifecycle.shutdown(self.id, force=True))

    @call
    def close(self) -> Steps[DevboxView]:
        """End it, as a `with` block does."""
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


class Snapshot(Group[S]):
    """The kept disk of a devbox."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session)
        self.id = id

    def __repr__(self) -> str:
        return f"<Snapshot {self.id}>"

    @call
    def get_info(self) -> Steps[SnapshotStatusView]:
        """How far it is, and what it holds once it is complete."""
        return (yield from snapshots.status(self.id))

    @call
    def await_completed(self, timeout: float | None = None) -> Steps[SnapshotStatusView]:
        """Wait until it is safe on the server's disk; raises DevboxError if it was not made."""
        yield from snapshots.await_complete(self.id, timeout)
        return (yield from snapshots.status(self.id))

    @call
    def update(self, **changes: Unpack[SnapshotFields]) -> Steps[SnapshotView]:
        """Change its name, message or metadata."""
        return (yield from snapshots.update(self.id, request_of(SnapshotRequest, changes)))

    @call
    def delete(self) -> Steps[None]:
        """Remove it; devboxes that stand on it go on."""
        yield from snapshots.delete(self.id)

    @call
    def create_devbox(
        self, *, timeout: float | None = None, **fields: Unpack[DevboxExtras]
    ) -> Steps[Devbox[S]]:
        """Make a devbox from it, and wait until that runs."""
        request = request_of(DevboxRequest, {**fields, "snapshot_id": self.id})
        view = yield from lifecycle.create_running(request, timeout)
        return Devbox(self.session, view.id)


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
