"""Grants at the gateway and the doors that lead to it; open again whatever was killed meanwhile."""

import asyncio
import hashlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Collection
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
from benchyard.hosts.host import Host

FIRST_PORT = 20_000
PORTS = 12_000
"""Below what kernels give to programs that connect somewhere."""

_log = logging.getLogger(__name__)


def port_of(devbox_id: str) -> int:
    """Where the door of a devbox is: told from its id, so that nobody has to remember it."""
    digest = hashlib.sha256(devbox_id.encode()).digest()
    return FIRST_PORT + int.from_bytes(digest[:4]) % PORTS


def url_of(devbox_id: str, route: str) -> str:
    """What programs of a devbox have for the address of what a route leads to."""
    return f"http://127.0.0.1:{port_of(devbox_id)}/{route}"


class CallRecords:
    """What the gateway keeps of calls, a file for each grant."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def file(self, grant_id: str) -> Path:
        """The file in which the calls of a grant are kept."""
        return protocol.record_file(self._folder, grant_id)

    def ids(self) -> set[str]:
        """The grants of which there are calls."""
        return {file.stem for file in (self._folder / protocol.RECORDS).glob("*.db")}


class Grants:
    """The grants of this server: each lets a token through the door of its devbox.

    The gateway is started with the first door: a server that asks no models has none.
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
        """Grants that an earlier server left open, and their devboxes: whoever has them ends them."""
        self._listening: set[str] = set()
        """Devboxes whose doors lead to the gateway, with a grant or without one."""

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
        """Let go of the gateway; it ends if nobody needs it."""
        if self._is_open:
            self._is_open = False
            status = await self._gateway.status()
            is_needed = status["grants"] or status["devboxes"]
            await (self._gateway.close() if is_needed else self._gateway.stop())

    async def open(self, grant: Grant) -> None:
        """Let a token through the door of its devbox; the same again changes nothing.

        Also where this fails it has to be closed: cut short, it may be open all the same.
        """
        await self._ready()
        self._open[grant.id] = grant
        await self._let_in(grant)

    def knows(self, grant_id: str) -> bool:
        """Whether a grant is, or may be, open."""
        return grant_id in self._open or grant_id in self._earlier

    def of_devbox(self, devbox_id: str) -> list[str]:
        """The grants that are open for a devbox."""
        return [each.id for each in self._open.values() if each.devbox_id == devbox_id]

    async def spent(self, grant_id: str) -> GrantUsage:
        """What was used by a grant so far."""
        return await self._gateway.spent(grant_id)

    async def close(self, grant_id: str) -> GrantUsage:
        """End a grant: its token is worth nothing any more. Returns what was used by it."""
        await self._ready()
        grant = self._open.pop(grant_id, None)
        devbox_id = self._earlier.pop(grant_id, None)
        try:
            spent = await self._gateway.revoke(grant_id)
        except NotFound:
            # It was cut short before the gateway had heard of it.
            spent = GrantUsage()
        devbox_id = grant.devbox_id if grant else devbox_id
        if devbox_id is not None and not self._is_used(devbox_id):
            await self.silence(devbox_id)
        return spent

    async def clear(self, needed: Collection[str], running: Collection[str]) -> None:
        """End what an earlier server left open for nobody: all but these grants, and for these devboxes.

        A socket that is served keeps the network of its devbox, which may be long gone.
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
        """Go on answering a devbox whose grant was closed: it is told so, instead of waiting for ever."""
        await self._ready()
        await self._listen(devbox_id)

    async def silence(self, devbox_id: str) -> None:
        """Answer a devbox no more, if it ever was."""
        if devbox_id in self._listening:
            await self._ready()
            await self._gateway.unlisten(devbox_id)
            self._listening.discard(devbox_id)

    def left(self, prefix: str) -> set[str]:
        """The grants whose ids begin so that are open, or that something is kept of."""
        known = {*self._open, *self._earlier, *self.records.ids()}
        return {each for each in known if each.startswith(prefix)}

    async def connect(self, devbox_id: str) -> int:
        """A connection to the door of a devbox from out here: a descriptor, which is the caller's."""
        await self._ready()
        ours, theirs = socket.socketpair()
        try:
            await self._gateway.ask({"op": "connect", "devbox_id": devbox_id}, [theirs.fileno()])
            return ours.detach()
        finally:
            ours.close()
            theirs.close()

    async def forget(self, grant_id: str) -> None:
        """Remove what the gateway keeps of a grant, which is closed if it is not."""
        if self.records.file(grant_id).exists():
            await self.close(grant_id)
            await self._gateway.forget(grant_id)

    async def open_egress(self, devbox_id: str, descriptor: int, rules: Rules) -> None:
        """Let a devbox reach what is on a list; asked again, go on with these rules."""
        await self._ready()
        self._egress[devbox_id] = rules
        message = {"op": "egress", "devbox_id": devbox_id, "rules": rules.to_json()}
        await self._gateway.ask(message, [descriptor])

    async def refused(self, devbox_id: str) -> dict[str, int]:
        """What a devbox asked for in vain: host and port, and how often."""
        if devbox_id not in self._egress and devbox_id not in self._served:
            return {}
        told = await self._gateway.ask({"op": "refused_egress", "devbox_id": devbox_id})
        return {str(host): int(count) for host, count in told.get("refused", {}).items()}

    async def close_egress(self, devbox_id: str) -> None:
        """Let a devbox reach nothing more that way, if it ever did."""
        if self._egress.pop(devbox_id, None) is not None or devbox_id in self._served:
            self._served.discard(devbox_id)
            await self._gateway.ask({"op": "end_egress", "devbox_id": devbox_id})

    async def _ready(self) -> None:
        async with self._opening:
            if not self._is_open:
                await self._gateway.open()
                self._is_open = True

    async def _reopen(self) -> None:
        """Open every door again: the gateway was started anew, and knows nothing."""
        again: list[tuple[str, Callable[[], Awaitable[object]]]] = [
            (grant.devbox_id, partial(self._gateway.grant, grant)) for grant in self._open.values()
        ]
        again += [(grant.devbox_id, partial(self._let_in, grant)) for grant in self._open.values()]
        again += [(each, partial(self._let_out, each)) for each in self._egress]
        for devbox_id, reopened in again:
            try:
                await reopened()
            except (DevboxGone, NotFound):
                # Whoever opened it will hear so, too, and close it.
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
        # First the token: whoever waits at the door already would be sent away for good.
        await self._listen(grant.devbox_id, partial(self._gateway.grant, grant))

    async def _listen(self, devbox_id: str, before: Callable[[], Awaitable[object]] | None = None) -> None:
        descriptor, _port = await self._host.doors.open(devbox_id, port_of(devbox_id))
        try:
            if before is not None:
                await before()
            self._listening.add(devbox_id)
            await self._gateway.listen(devbox_id, descriptor)
        finally:
            os.close(descriptor)
