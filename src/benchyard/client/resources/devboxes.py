"""Devboxes: create, find, wait for, change and end them; one devbox as an object; its log."""

import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Generic, Unpack

from benchyard.client.bodies import Source, Target
from benchyard.client.listings import items_of_pages
from benchyard.client.methods import NounObject, S, VerbGroup, bound, call, items
from benchyard.client.operations import Flow, Request, Steps, at, fetch, long_poll, send
from benchyard.client.request_fields import DevboxExtras, SnapshotFields, request_of
from benchyard.client.resources.access import DevboxNetwork, Tunnels
from benchyard.client.resources.executions import Commands, Executions
from benchyard.client.resources.files import DevboxFiles, Files
from benchyard.client.resources.snapshots import Snapshots
from benchyard.client.sessions import AsyncSession, SyncSession
from benchyard.errors import DevboxGone, StartFailed
from benchyard.models.devboxes import (
    DevboxChange,
    DevboxRequest,
    DevboxStatus,
    DevboxUsageView,
    DevboxView,
    TunnelView,
    WaitRequest,
)
from benchyard.models.executions import LogLine, LogsView
from benchyard.models.snapshots import SnapshotRequest, SnapshotStatusView, SnapshotView

CREATE_TIMEOUT = 60.0
ENDED = (DevboxStatus.FAILURE, DevboxStatus.SHUTDOWN)


def why_ended(view: DevboxView) -> str:
    """Return the reason a devbox ended, in words, as far as it is known."""
    details = [transition.detail for transition in view.state_transitions if transition.detail]
    reason = view.failure_reason or view.shutdown_reason or view.status.value
    return f"{reason} ({details[-1]})" if details else reason


class Logs(VerbGroup[S]):
    """The logs of a server's devboxes."""

    @call
    def retrieve(
        self, devbox_id: str, execution_id: str | None = None, shell_name: str | None = None
    ) -> Steps[LogsView]:
        """Return the log of a devbox, or of one execution or shell in it."""
        query = {"execution_id": execution_id, "shell_name": shell_name}
        return (yield from fetch(Request("GET", at("/v1/devboxes/{}/logs", devbox_id), query), LogsView))

    @call
    def list(
        self, devbox_id: str, execution_id: str | None = None, shell_name: str | None = None
    ) -> Steps[list[LogLine]]:
        """Return all lines, oldest first, or those of one execution or shell."""
        return (yield from self.retrieve.steps(devbox_id, execution_id, shell_name)).logs


class Devboxes(VerbGroup[S]):
    """The devboxes of a server."""

    def open(self, request: DevboxRequest | None = None) -> "DevboxBlock[S]":
        """Open a devbox for the time of a `with` (or `async with`) block."""
        return DevboxBlock(self.session, request or DevboxRequest())

    @call
    def create(self, request: DevboxRequest | None = None) -> Steps[DevboxView]:
        """Ask for a devbox; it may not run yet."""
        asked = Request("POST", "/v1/devboxes", json=request or DevboxRequest())
        return (yield from fetch(asked, DevboxView))

    @call
    def create_and_await_running(
        self, request: DevboxRequest | None = None, timeout: float | None = None
    ) -> Steps[DevboxView]:
        """Ask for a devbox and wait until it runs; raises StartFailed if it never will."""
        path = "/v1/devboxes/create_and_await_running"
        asked = Request("POST", path, json=request or DevboxRequest(), timeout=CREATE_TIMEOUT)
        view = yield from fetch(asked, DevboxView)
        if view.status == DevboxStatus.RUNNING:
            return view
        return (yield from self.await_running.steps(view.id, timeout))

    @call
    def get(self, id: str) -> Steps[DevboxView]:
        """Look one up; raises NotFound."""
        return (yield from fetch(Request("GET", at("/v1/devboxes/{}", id)), DevboxView))

    retrieve = get

    @call
    def await_running(self, id: str, timeout: float | None = None) -> Steps[DevboxView]:
        """Wait until a devbox runs; raises StartFailed if it never will, StillWaiting after the timeout."""
        view = yield from self.wait.steps(id, (DevboxStatus.RUNNING, *ENDED), timeout)
        if view.status != DevboxStatus.RUNNING:
            raise StartFailed(f"devbox {id} did not start: {why_ended(view)}", devbox_id=id)
        return view

    @items
    def list(self, status: DevboxStatus | None = None, limit: int | None = None) -> Flow[DevboxView]:
        """Yield devboxes, newest first; all, or those with one status."""
        yield from items_of_pages(
            Request("GET", "/v1/devboxes", {"status": status}), "devboxes", DevboxView, limit
        )

    @call
    def wait(
        self, id: str, statuses: Sequence[DevboxStatus], timeout: float | None = None
    ) -> Steps[DevboxView]:
        """Wait until a devbox has one of these statuses; raises StillWaiting after the timeout."""
        path = at("/v1/devboxes/{}/wait_for_status", id)

        def ask(hold: float) -> Steps[DevboxView]:
            wanted = WaitRequest(statuses=list(statuses), timeout_seconds=hold)
            return (yield from fetch(Request("POST", path, json=wanted, long_poll=True), DevboxView))

        return (yield from long_poll(ask, timeout))

    @call
    def update(self, id: str, change: DevboxChange) -> Steps[DevboxView]:
        """Change a devbox's name or metadata."""
        return (yield from fetch(Request("POST", at("/v1/devboxes/{}", id), json=change), DevboxView))

    @call
    def shutdown(self, id: str, *, force: bool = False) -> Steps[DevboxView]:
        """End a devbox; with `force` even while a snapshot is being made."""
        query = {"force": True} if force else {}
        return (yield from fetch(Request("POST", at("/v1/devboxes/{}/shutdown", id), query), DevboxView))

    @call
    def reach(self, id: str, status: DevboxStatus, timeout: float | None = None) -> Steps[DevboxView]:
        """Wait for a status; raises DevboxGone if the devbox ended instead."""
        view = yield from self.wait.steps(id, (status, *ENDED), timeout)
        if view.status != status:
            instead = f"devbox {id} is {view.status.value} instead of {status.value}"
            raise DevboxGone(f"{instead}: {why_ended(view)}")
        return view

    @call
    def suspend(self, id: str, timeout: float | None = None) -> Steps[DevboxView]:
        """Stop all processes of a devbox, keep its disk, and wait until it is suspended."""
        yield from fetch(Request("POST", at("/v1/devboxes/{}/suspend", id)), DevboxView)
        return (yield from self.reach.steps(id, DevboxStatus.SUSPENDED, timeout))

    @call
    def await_suspended(self, id: str, timeout: float | None = None) -> Steps[DevboxView]:
        """Wait until a devbox is suspended; raises DevboxGone if it ended instead."""
        return (yield from self.reach.steps(id, DevboxStatus.SUSPENDED, timeout))

    @call
    def resume_async(self, id: str) -> Steps[DevboxView]:
        """Begin to start a suspended devbox again, and return at once."""
        return (yield from fetch(Request("POST", at("/v1/devboxes/{}/resume", id)), DevboxView))

    @call
    def resume(self, id: str, timeout: float | None = None) -> Steps[DevboxView]:
        """Start a suspended devbox again and wait until it runs."""
        yield from self.resume_async.steps(id)
        return (yield from self.reach.steps(id, DevboxStatus.RUNNING, timeout))

    @call
    def keep_alive(self, id: str) -> Steps[None]:
        """Start a devbox's idle time over."""
        yield from send(Request("POST", at("/v1/devboxes/{}/keep_alive", id)))

    @call
    def usage(self, id: str) -> Steps[DevboxUsageView]:
        """Return what a devbox has used so far."""
        return (yield from fetch(Request("GET", at("/v1/devboxes/{}/usage", id)), DevboxUsageView))


class Devbox(NounObject[S]):
    """A devbox; as a context manager it ends with its block."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session, id)
        self.cmd: Commands[S] = Commands(session, id)
        self.file: DevboxFiles[S] = DevboxFiles(session, id)
        self.net: DevboxNetwork[S] = DevboxNetwork(session, id)

    get_info = bound(Devboxes.get)
    await_running = bound(Devboxes.await_running)
    keep_alive = bound(Devboxes.keep_alive)
    suspend = bound(Devboxes.suspend)
    await_suspended = bound(Devboxes.await_suspended)
    resume_async = bound(Devboxes.resume_async)
    logs = bound(Logs.retrieve)
    run = bound(Executions.run)
    read = bound(Files.read)
    write = bound(Files.write)
    snapshot = bound(Snapshots.create)

    def shell(self, shell_name: str | None = None) -> Commands[S]:
        """Return a shell that keeps directory and environment from command to command."""
        return Commands(self.session, self.id, shell_name or f"shell-{uuid.uuid4()}")

    @call
    def upload(self, path: str, source: Source) -> Steps[None]:
        """Write a file of any bytes and size."""
        yield from Files(self.session).upload.steps(self.id, path, source)

    @call
    def download(self, path: str, target: Target) -> Steps[int]:
        """Fetch a file of any bytes and size."""
        return (yield from Files(self.session).download.steps(self.id, path, target))

    @call
    def snapshot_disk(
        self,
        name: str | None = None,
        commit_message: str | None = None,
        metadata: dict[str, str] | None = None,
        timeout: float | None = None,
    ) -> Steps["Snapshot[S]"]:
        """Snapshot its disk under a name, and wait until the snapshot is complete."""
        begun = yield from self.snapshot_disk_async.steps(name, commit_message, metadata)
        yield from Snapshots(self.session).wait.steps(begun.id, timeout)
        return begun

    @call
    def snapshot_disk_async(
        self,
        name: str | None = None,
        commit_message: str | None = None,
        metadata: dict[str, str] | None = None,
    ) -> Steps["Snapshot[S]"]:
        """Begin to snapshot its disk, and return at once; `Snapshot.await_completed` waits for the end."""
        request = SnapshotRequest(name=name, commit_message=commit_message, metadata=metadata)
        return Snapshot(self.session, (yield from Snapshots(self.session).begin.steps(self.id, request)).id)

    @call
    def resume(self, timeout: float | None = None) -> Steps[DevboxView]:
        """Start it again after it was suspended, and wait until it runs."""
        yield from self.resume_async.steps()
        return (yield from self.await_running.steps(timeout))

    @call
    def get_tunnel(self) -> Steps[TunnelView | None]:
        """Return its tunnel; None if it has none."""
        return (yield from self.get_info.steps()).tunnel

    @call
    def get_tunnel_url(self, port: int) -> Steps[str | None]:
        """Return the URL of one of its ports from outside; None if it has no tunnel."""
        tunnel = yield from self.get_tunnel.steps()
        return Tunnels(self.session).url(tunnel, port) if tunnel is not None else None

    @call
    def shutdown(self) -> Steps[DevboxView]:
        """End it, as a `with` block does."""
        return (yield from Devboxes(self.session).shutdown.steps(self.id, force=True))

    close = shutdown

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


class Snapshot(NounObject[S]):
    """The kept disk of a devbox."""

    get_info = bound(Snapshots.status)
    delete = bound(Snapshots.delete)

    @call
    def await_completed(self, timeout: float | None = None) -> Steps[SnapshotStatusView]:
        """Wait until it is safe on the server's disk; raises DevboxError if it failed."""
        yield from Snapshots(self.session).wait.steps(self.id, timeout)
        return (yield from self.get_info.steps())

    @call
    def update(self, **changes: Unpack[SnapshotFields]) -> Steps[SnapshotView]:
        """Change its name, message or metadata."""
        change = request_of(SnapshotRequest, changes)
        return (yield from Snapshots(self.session).update.steps(self.id, change))

    @call
    def create_devbox(
        self, *, timeout: float | None = None, **fields: Unpack[DevboxExtras]
    ) -> Steps[Devbox[S]]:
        """Make a devbox from it, and wait until the devbox runs."""
        request = request_of(DevboxRequest, {**fields, "snapshot_id": self.id})
        view = yield from Devboxes(self.session).create_and_await_running.steps(request, timeout)
        return Devbox(self.session, view.id)


class DevboxBlock(Generic[S]):
    """A devbox that lives as long as a `with` or `async with` block."""

    def __init__(self, session: S, request: DevboxRequest) -> None:
        self._devboxes = Devboxes(session)
        self._request = request
        self._devbox: Devbox[S] | None = None

    def __enter__(self: "DevboxBlock[SyncSession]") -> Devbox[SyncSession]:
        view = self._devboxes.create(self._request)
        self._devbox = Devbox(self._devboxes.session, view.id)
        try:
            if view.status != DevboxStatus.RUNNING:
                self._devbox.await_running()
        except BaseException:
            self._devbox.shutdown()
            raise
        return self._devbox

    def __exit__(
        self: "DevboxBlock[SyncSession]",
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._devbox is not None:
            self._devbox.shutdown()

    async def __aenter__(self: "DevboxBlock[AsyncSession]") -> Devbox[AsyncSession]:
        view = await self._devboxes.create(self._request)
        self._devbox = Devbox(self._devboxes.session, view.id)
        try:
            if view.status != DevboxStatus.RUNNING:
                await self._devbox.await_running()
        except BaseException:
            await self._devbox.shutdown()
            raise
        return self._devbox

    async def __aexit__(
        self: "DevboxBlock[AsyncSession]",
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._devbox is not None:
            await self._devbox.shutdown()
