"""Grants at the gateway and the doors that lead to it; both are reopened after a crash."""

import asyncio
import contextlib
import hashlib
import logging
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from benchyard.engine.network.policies import PROXY_PORT
from benchyard.errors import BenchyardError, DevboxGone, NotFound
from benchyard.gateway import protocol
from benchyard.gateway.client import Gateway, is_running
from benchyard.gateway.egress.rules import Rules
from benchyard.gateway.grants import Grant, GrantUsage
from benchyard.gateway.protocol import GatewayOptions
from benchyard.hosts.cancellation import run_to_end
from benchyard.hosts.host import Host

FIRST_PORT = 20_000
PORTS = 12_000
"""Number of ports for doors: all below those that kernels give to outgoing connections."""

_LOOPBACK = "127.0.0.1"
SERVERS_OWN = "server-"
"""Prefix of the names under which the server itself, and no devbox, asks models."""

_log = logging.getLogger(__name__)


def port_of(devbox_id: str) -> int:
    """Return the port of a devbox's door: computed from its id, so that it need not be stored."""
    digest = hashlib.sha256(devbox_id.encode()).digest()
    return FIRST_PORT + int.from_bytes(digest[:4]) % PORTS


def url_of(devbox_id: str, route: str) -> str:
    """Return the address at which programs in a devbox reach a route of the gateway."""
    return f"http://127.0.0.1:{port_of(devbox_id)}/{route}"


class CallRecords:
    """Calls recorded by the gateway, one file for each grant."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def file(self, grant_id: str) -> Path:
        """Return the file with the calls of a grant."""
        return protocol.record_file(self._folder, grant_id)

    def ids(self) -> set[str]:
        """Return the ids of grants with recorded calls."""
        return {file.stem for file in (self._folder / protocol.RECORDS).glob("*.db")}


class Grants:
    """Grants of this server: each lets a token through the door of its devbox.

    The gateway is started with the first door: a server without model calls has none.
    """

    def __init__(self, host: Host, folder: Path, lease_seconds: float) -> None:
        self.records = CallRecords(folder)
        self._host = host
        self._folder = folder
        self._gateway = Gateway(folder, GatewayOptions(lease_seconds=lease_seconds), self._reopen)
        self._is_open = False
        self._opening = asyncio.Lock()
        self._open: dict[str, Grant] = {}
        self._egress: dict[str, Rules] = {}
        self._served: set[str] = set()
        """Devboxes whose doors were served when this server began."""
        self._earlier: dict[str, str] = {}
        """Grants that an earlier server left open, and their devboxes; their trials and runs end them."""
        self._listening: set[str] = set()
        """Devboxes whose doors lead to the gateway, with or without a grant."""
        self._readers: Counter[str] = Counter()
        """Number of those who still read the records of a grant."""
        self._unneeded: set[str] = set()
        """Grants with records that are removed after their last reader."""

    async def __aenter__(self) -> Self:
        """Find the gateway of an earlier server, if it still runs."""
        if is_running(self._folder):
            await self._ready()
            status = await self._gateway.status()
            self._earlier, self._served = dict(status["holders"]), set(status["devboxes"])
            self._listening = set(self._served)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the gateway; it ends if it is not needed."""
        if self._is_open:
            self._is_open = False
            status = await self._gateway.status()
            is_needed = status["grants"] or status["devboxes"]
            await (self._gateway.close() if is_needed else self._gateway.stop())

    async def open(self, grant: Grant) -> None:
        """Let a token through the door of its devbox; a second call changes nothing.

        Close the grant even after a failure: an interrupted call may have opened it.
        """
        await self._ready()
        self._open[grant.id] = grant
        await self._let_in(grant)

    def knows(self, grant_id: str) -> bool:
        """Tell whether a grant is, or may be, open."""
        return grant_id in self._open or grant_id in self._earlier

    def of_devbox(self, devbox_id: str) -> list[str]:
        """Return the ids of the grants that are open for a devbox."""
        return [each.id for each in self._open.values() if each.devbox_id == devbox_id]

    async def spent(self, grant_id: str) -> GrantUsage:
        """Return the usage of a grant so far."""
        return await self._gateway.spent(grant_id)

    async def close(self, grant_id: str) -> GrantUsage:
        """End a grant, so that its token is invalid. Returns its usage."""
        await self._ready()
        grant = self._open.pop(grant_id, None)
        devbox_id = self._earlier.pop(grant_id, None)
        try:
            spent = await self._gateway.revoke(grant_id)
        except NotFound:
            # The opening was interrupted before the gateway had the grant.
            spent = GrantUsage()
        devbox_id = grant.devbox_id if grant else devbox_id
        if devbox_id is not None and not self._is_used(devbox_id):
            await self.silence(devbox_id)
        return spent

    async def clear(self, needed: Collection[str], running: Collection[str]) -> None:
        """Close what an earlier server left open, except these grants and the doors of these devboxes.

        A served socket keeps the network of its devbox, even after the devbox has ended.
        """
        for grant_id in [each for each in self._earlier if each not in needed and each not in self._open]:
            await self.close(grant_id)
        for devbox_id in self._served.difference(running):
            if not self._is_used(devbox_id):
                await self.silence(devbox_id)
            await self.close_egress(devbox_id)

    def _is_used(self, devbox_id: str) -> bool:
        holders = {*self._earlier.values(), *(each.devbox_id for each in self._open.values())}
        return devbox_id in holders

    async def answer(self, devbox_id: str) -> None:
        """Keep answering a devbox whose grant was closed: its calls get an error and do not hang."""
        await self._ready()
        await self._listen(devbox_id)

    async def silence(self, devbox_id: str) -> None:
        """Stop answering a devbox, if its door is served."""
        if devbox_id in self._listening:
            await self._ready()
            await self._gateway.unlisten(devbox_id)
            self._listening.discard(devbox_id)

    def recorded_grants(self, prefix: str) -> set[str]:
        """Return the grants with this prefix that are open or have recorded calls."""
        known = {*self._open, *self._earlier, *self.records.ids()}
        return {each for each in known if each.startswith(prefix)}

    async def connect(self, devbox_id: str) -> int:
        """Connect to the door of a devbox from the host; returns a descriptor that the caller closes."""
        await self._ready()
        ours, theirs = socket.socketpair()
        try:
            await self._gateway.ask({"op": "connect", "devbox_id": devbox_id}, [theirs.fileno()])
            return ours.detach()
        finally:
            ours.close()
            theirs.close()

    async def forget(self, grant_id: str) -> None:
        """Remove the gateway's records of a grant, closing it if necessary; readers read to the end first."""
        if self.records.file(grant_id).exists():
            await self.close(grant_id)
            if grant_id in self._readers:
                self._unneeded.add(grant_id)
            else:
                await self._gateway.forget(grant_id)

    @contextlib.asynccontextmanager
    async def reader(self, grant_id: str) -> AsyncIterator[Path]:
        """Yield the file with the records of a grant, which may not exist yet; it stays while it is read."""
        self._readers[grant_id] += 1
        try:
            yield self.records.file(grant_id)
        finally:
            self._readers[grant_id] -= 1
            if not self._readers[grant_id]:
                del self._readers[grant_id]
                if grant_id in self._unneeded:
                    self._unneeded.discard(grant_id)
                    await run_to_end(self.forget(grant_id))

    async def open_egress(self, devbox_id: str, descriptor: int, rules: Rules) -> None:
        """Let a devbox reach the hosts on a list; a second call replaces its rules."""
        await self._ready()
        self._egress[devbox_id] = rules
        message = {"op": "egress", "devbox_id": devbox_id, "rules": rules.to_json()}
        await self._gateway.ask(message, [descriptor])

    async def refused(self, devbox_id: str) -> dict[str, int]:
        """Return the hosts and ports that were refused to a devbox, each with its count."""
        if devbox_id not in self._egress and devbox_id not in self._served:
            return {}
        reply = await self._gateway.ask({"op": "refused_egress", "devbox_id": devbox_id})
        return {str(host): int(count) for host, count in reply.get("refused", {}).items()}

    async def close_egress(self, devbox_id: str) -> None:
        """Close the egress door of a devbox, if it has one."""
        if self._egress.pop(devbox_id, None) is not None or devbox_id in self._served:
            self._served.discard(devbox_id)
            await self._gateway.ask({"op": "end_egress", "devbox_id": devbox_id})

    async def _ready(self) -> None:
        async with self._opening:
            if not self._is_open:
                await self._gateway.open()
                self._is_open = True

    async def _reopen(self) -> None:
        """Open all doors again after a restart of the gateway, which has no memory of them."""
        again: list[tuple[str, Callable[[], Awaitable[object]]]] = [
            (grant.devbox_id, partial(self._gateway.grant, grant)) for grant in self._open.values()
        ]
        again += [(grant.devbox_id, partial(self._let_in, grant)) for grant in self._open.values()]
        again += [(each, partial(self._let_out, each)) for each in self._egress]
        for devbox_id, reopened in again:
            try:
                await reopened()
            except (DevboxGone, NotFound):
                # The caller that opened this door gets the same error and closes it.
                continue
            except BenchyardError as error:
                _log.warning("a door of devbox %s could not be opened again: %s", devbox_id, error)

    async def _let_out(self, devbox_id: str) -> None:
        descriptor, _port = await self._host.doors.open(devbox_id, PROXY_PORT)
        try:
            await self.open_egress(devbox_id, descriptor, self._egress[devbox_id])
        finally:
            os.close(descriptor)

    async def _let_in(self, grant: Grant) -> None:
        # The token before the door: a call that waits at the door already would be refused for good.
        await self._listen(grant.devbox_id, partial(self._gateway.grant, grant))

    async def _listen(self, devbox_id: str, before: Callable[[], Awaitable[object]] | None = None) -> None:
        descriptor = await self._door(devbox_id)
        try:
            if before is not None:
                await before()
            self._listening.add(devbox_id)
            await self._gateway.listen(devbox_id, descriptor)
        finally:
            os.close(descriptor)

    async def _door(self, devbox_id: str) -> int:
        """Return a listening socket, which the caller closes: the devbox's, or one for the server itself.

        The server connects by a descriptor: nobody is told the port, and the door asks for the token anyway.
        """
        if devbox_id.startswith(SERVERS_OWN):
            with socket.create_server((_LOOPBACK, 0), backlog=1) as listener:
                return os.dup(listener.fileno())
        descriptor, _port = await self._host.doors.open(devbox_id, port_of(devbox_id))
        return descriptor
