"""Devboxes: create, find, wait for, change and end them; one devbox as an object; its log."""

import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Generic, Unpack

from benchyard.client.bodies import Source, Target
from benchyard.client.listings import items_of_pages
from benchyard.client.methods import S, VerbGroup, call, items
from benchyard.client.operations import Flow, Request, Steps, at, fetch, long_poll, send
from benchyard.client.request_fields import DevboxExtras, SnapshotFields, request_of
from benchyard.client.resources import access, files, snapshots
from benchyard.client.resources.access import DevboxNetwork
from benchyard.client.resources.executions import Commands, ExecutionResult, run_command
from benchyard.client.resources.files import DevboxFiles
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


def create_devbox(request: DevboxRequest) -> Steps[DevboxView]:
    """Ask for a devbox."""
    return (yield from fetch(Request("POST", "/v1/devboxes", json=request), DevboxView))


def get_devbox(id: str) -> Steps[DevboxView]:
    """Look a devbox up."""
    return (yield from fetch(Request("GET", at("/v1/devboxes/{}", id)), DevboxView))


def keep_devbox_alive(id: str) -> Steps[None]:
    """Start a devbox's idle time over."""
    yield from send(Request("POST", at("/v1/devboxes/{}/keep_alive", id)))


def create_running_devbox(request: DevboxRequest, timeout: float | None) -> Steps[DevboxView]:
    """Ask for a devbox and wait until it runs."""
    path = "/v1/devboxes/create_and_await_running"
    view = yield from fetch(Request("POST", path, json=request, timeout=CREATE_TIMEOUT), DevboxView)
    return (yield from await_running(view, timeout))


def await_running(view: DevboxView, timeout: float | None) -> Steps[DevboxView]:
    """Wait until a new devbox runs; raises StartFailed if it never will."""
    if view.status == DevboxStatus.RUNNING:
        return view
    return (yield from reach_running_devbox(view.id, timeout))


def reach_running_devbox(id: str, timeout: float | None) -> Steps[DevboxView]:
    """Wait until a devbox runs; raises StartFailed if it never will."""
    view = yield from wait_for_status(id, (DevboxStatus.RUNNING, *ENDED), timeout)
    if view.status != DevboxStatus.RUNNING:
        raise StartFailed(f"devbox {id} did not start: {why_ended(view)}", devbox_id=id)
    return view


def reach_status(id: str, status: DevboxStatus, timeout: float | None = None) -> Steps[DevboxView]:
    """Wait for a status; raises DevboxGone if the devbox ended instead."""
    view = yield from wait_for_status(id, (status, *ENDED), timeout)
    if view.status != status:
        raise DevboxGone(f"devbox {id} is {view.status.value} instead of {status.value}: {why_ended(view)}")
    return view


def wait_for_status(id: str, statuses: Sequence[DevboxStatus], timeout: float | None) -> Steps[DevboxView]:
    """Long-poll until the devbox has one of the statuses."""
    path = at("/v1/devboxes/{}/wait_for_status", id)

    def ask(hold: float) -> Steps[DevboxView]:
        wanted = WaitRequest(statuses=list(statuses), timeout_seconds=hold)
        return (yield from fetch(Request("POST", path, json=wanted, long_poll=True), DevboxView))

    return (yield from long_poll(ask, timeout))


def suspend_devbox(id: str) -> Steps[DevboxView]:
    """Begin to suspend a devbox."""
    return (yield from fetch(Request("POST", at("/v1/devboxes/{}/suspend", id)), DevboxView))


def resume_devbox(id: str) -> Steps[DevboxView]:
    """Begin to resume a suspended devbox."""
    return (yield from fetch(Request("POST", at("/v1/devboxes/{}/resume", id)), DevboxView))


def shut_down_devbox(id: str, *, force: bool = False) -> Steps[DevboxView]:
    """End a devbox."""
    query = {"force": True} if force else {}
    return (yield from fetch(Request("POST", at("/v1/devboxes/{}/shutdown", id), query), DevboxView))


def why_ended(view: DevboxView) -> str:
    """Return the reason a devbox ended, in words, as far as it is known."""
    details = [transition.detail for transition in view.state_transitions if transition.detail]
    reason = view.failure_reason or view.shutdown_reason or view.status.value
    return f"{reason} ({details[-1]})" if details else reason


class Logs(VerbGroup[S]):
    """The logs of a server's devboxes."""

    @call
    def list(
        self, devbox_id: str, execution_id: str | None = None, shell_name: str | None = None
    ) -> Steps[list[LogLine]]:
        """Return all lines, oldest first, or those of one execution or shell."""
        return (yield from log_lines(devbox_id, execution_id, shell_name)).logs


def log_lines(devbox_id: str, execution_id: str | None, shell_name: str | None) -> Steps[LogsView]:
    """Return the log of a devbox, or of one execution or shell in it."""
    query = {"execution_id": execution_id, "shell_name": shell_name}
    return (yield from fetch(Request("GET", at("/v1/devboxes/{}/logs", devbox_id), query), LogsView))


class Devbox(VerbGroup[S]):
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
        """Return a shell that keeps directory and environment from command to command."""
        return Commands(self.session, self.id, shell_name or f"shell-{uuid.uuid4()}")

    @call
    def get_info(self) -> Steps[DevboxView]:
        """Return its present state."""
        return (yield from get_devbox(self.id))

    @call
    def await_running(self, timeout: float | None = None) -> Steps[DevboxView]:
        """Wait until it runs; raises StartFailed if it never will, StillWaiting after the timeout."""
        return (yield from reach_running_devbox(self.id, timeout))

    @call
    def keep_alive(self) -> Steps[None]:
        """Start its idle time over."""
        yield from keep_devbox_alive(self.id)

    @call
    def run(self, command: str, shell_name: str | None = None) -> Steps[ExecutionResult]:
        """Run a command to its end and return its exit status and its whole output."""
        return (yield from run_command(self.id, command, shell_name))

    @call
    def read(self, path: str) -> Steps[str]:
        """Return the text of a file."""
        return (yield from files.read_text(self.id, path))

    @call
    def write(self, path: str, text: str) -> Steps[None]:
        """Write this text to a file, making its folders."""
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
        """Snapshot its disk, so that other devboxes can start from it."""
        return (yield from snapshots.create(self.id, request or SnapshotRequest()))

    @call
    def snapshot_disk(
        self,
        name: str | None = None,
        commit_message: str | None = None,
        metadata: dict[str, str] | None = None,
        timeout: float | None = None,
    ) -> Steps["Snapshot[S]"]:
        """Snapshot its disk under a name, and wait until the snapshot is complete."""
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
        """Begin to snapshot its disk, and return at once; `Snapshot.await_completed` waits for the end."""
        request = SnapshotRequest(name=name, commit_message=commit_message, metadata=metadata)
        return Snapshot(self.session, (yield from snapshots.begin(self.id, request)).id)

    @call
    def suspend(self, timeout: float | None = None) -> Steps[DevboxView]:
        """Stop all its processes, keep its disk, and wait until it is suspended."""
        yield from suspend_devbox(self.id)
        return (yield from reach_status(self.id, DevboxStatus.SUSPENDED, timeout))

    @call
    def resume(self, timeout: float | None = None) -> Steps[DevboxView]:
        """Start it again after it was suspended, and wait until it runs."""
        yield from resume_devbox(self.id)
        return (yield from reach_running_devbox(self.id, timeout))

    @call
    def resume_async(self) -> Steps[DevboxView]:
        """Begin to start it again, and return at once."""
        return (yield from resume_devbox(self.id))

    @call
    def await_suspended(self, timeout: float | None = None) -> Steps[DevboxView]:
        """Wait until it is suspended; raises DevboxGone if it ended instead."""
        return (yield from reach_status(self.id, DevboxStatus.SUSPENDED, timeout))

    @call
    def logs(self, execution_id: str | None = None, shell_name: str | None = None) -> Steps[LogsView]:
        """Return its log, or that of one execution or shell."""
        return (yield from log_lines(self.id, execution_id, shell_name))

    @call
    def get_tunnel(self) -> Steps[TunnelView | None]:
        """Return its tunnel; None if it has none."""
        return (yield from get_devbox(self.id)).tunnel

    @call
    def get_tunnel_url(self, port: int) -> Steps[str | None]:
        """Return the URL of one of its ports from outside; None if it has no tunnel."""
        tunnel = (yield from get_devbox(self.id)).tunnel
        return access.tunnel_url(self.session.server, tunnel, port) if tunnel is not None else None

    @call
    def shutdown(self) -> Steps[DevboxView]:
        """End it."""
        return (yield from shut_down_devbox(self.id, force=True))

    @call
    def close(self) -> Steps[DevboxView]:
        """End it, as a `with` block does."""
        return (yield from shut_down_devbox(self.id, force=True))

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


class Snapshot(VerbGroup[S]):
    """The kept disk of a devbox."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session)
        self.id = id

    def __repr__(self) -> str:
        return f"<Snapshot {self.id}>"

    @call
    def get_info(self) -> Steps[SnapshotStatusView]:
        """Return its status, and its properties once it is complete."""
        return (yield from snapshots.status(self.id))

    @call
    def await_completed(self, timeout: float | None = None) -> Steps[SnapshotStatusView]:
        """Wait until it is safe on the server's disk; raises DevboxError if it failed."""
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
        """Make a devbox from it, and wait until the devbox runs."""
        request = request_of(DevboxRequest, {**fields, "snapshot_id": self.id})
        view = yield from create_running_devbox(request, timeout)
        return Devbox(self.session, view.id)


class DevboxBlock(Generic[S]):
    """A devbox that lives as long as a `with` or `async with` block."""

    def __init__(self, session: S, request: DevboxRequest) -> None:
        self._session = session
        self._request = request
        self._id: str | None = None

    def __enter__(self: "DevboxBlock[SyncSession]") -> Devbox[SyncSession]:
        view = self._session.run(create_devbox(self._request))
        self._id = view.id
        try:
            return Devbox(self._session, self._session.run(await_running(view, None)).id)
        except BaseException:
            self._session.run(shut_down_devbox(view.id, force=True))
            raise

    def __exit__(
        self: "DevboxBlock[SyncSession]",
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._id is not None:
            self._session.run(shut_down_devbox(self._id, force=True))

    async def __aenter__(self: "DevboxBlock[AsyncSession]") -> Devbox[AsyncSession]:
        view = await self._session.run(create_devbox(self._request))
        self._id = view.id
        try:
            return Devbox(self._session, (await self._session.run(await_running(view, None))).id)
        except BaseException:
            await self._session.run(shut_down_devbox(view.id, force=True))
            raise

    async def __aexit__(
        self: "DevboxBlock[AsyncSession]",
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._id is not None:
            await self._session.run(shut_down_devbox(self._id, force=True))


class Devboxes(VerbGroup[S]):
    """The devboxes of a server."""

    def open(self, request: DevboxRequest | None = None) -> DevboxBlock[S]:
        """Open a devbox for the time of a `with` (or `async with`) block."""
        return DevboxBlock(self.session, request or DevboxRequest())

    @call
    def create(self, request: DevboxRequest | None = None) -> Steps[DevboxView]:
        """Ask for a devbox; it may not run yet."""
        return (yield from create_devbox(request or DevboxRequest()))

    @call
    def create_and_await_running(
        self, request: DevboxRequest | None = None, timeout: float | None = None
    ) -> Steps[DevboxView]:
        """Ask for a devbox and wait until it runs; raises StartFailed if it never will."""
        return (yield from create_running_devbox(request or DevboxRequest(), timeout))

    @call
    def get(self, id: str) -> Steps[DevboxView]:
        """Look one up; raises NotFound."""
        return (yield from get_devbox(id))

    retrieve = get

    @call
    def await_running(self, id: str, timeout: float | None = None) -> Steps[DevboxView]:
        """Wait until a devbox runs; raises StartFailed if it never will, StillWaiting after the timeout."""
        return (yield from reach_running_devbox(id, timeout))

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
        return (yield from wait_for_status(id, statuses, timeout))

    @call
    def update(self, id: str, change: DevboxChange) -> Steps[DevboxView]:
        """Change a devbox's name or metadata."""
        return (yield from fetch(Request("POST", at("/v1/devboxes/{}", id), json=change), DevboxView))

    @call
    def shutdown(self, id: str, *, force: bool = False) -> Steps[DevboxView]:
        """End a devbox; with `force` even while a snapshot is being made."""
        return (yield from shut_down_devbox(id, force=force))

    @call
    def suspend(self, id: str) -> Steps[DevboxView]:
        """Stop all processes of a devbox, keep its disk, and wait until it is suspended."""
        yield from suspend_devbox(id)
        return (yield from reach_status(id, DevboxStatus.SUSPENDED))

    @call
    def resume(self, id: str) -> Steps[DevboxView]:
        """Start a suspended devbox again and wait until it runs."""
        yield from resume_devbox(id)
        return (yield from reach_status(id, DevboxStatus.RUNNING))

    @call
    def keep_alive(self, id: str) -> Steps[None]:
        """Start a devbox's idle time over."""
        yield from keep_devbox_alive(id)

    @call
    def usage(self, id: str) -> Steps[DevboxUsageView]:
        """Return what a devbox has used so far."""
        return (yield from fetch(Request("GET", at("/v1/devboxes/{}/usage", id)), DevboxUsageView))
