"""Operations that the server can request from its gateway, over a socket in the gateway's folder."""

import asyncio
import logging
import os
import secrets
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchyard.devboxes.shared.channel import Channel
from benchyard.errors import BenchyardError, NotFound, UsageError
from benchyard.gateway import protocol
from benchyard.gateway.accounts import TokenAccounts
from benchyard.gateway.doors import EgressOperations, ModelDoor, ServedDoors, listener_from_descriptor
from benchyard.gateway.proxy.server import ModelProxy

Operation = Callable[[dict[str, Any], list[int]], Awaitable[dict[str, Any]]]

_LOG = logging.getLogger(__name__)


class Control:
    """Listener that answers requests of processes of the same user."""

    def __init__(self, ledger: TokenAccounts, doors: ServedDoors, proxy: ModelProxy) -> None:
        self._ledger = ledger
        self._doors = doors
        self._proxy = proxy
        self._instance = secrets.token_hex(8)
        egress = EgressOperations(doors)
        self._listener: socket.socket | None = None
        self._channels: set[Channel] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._heard = time.monotonic()
        self._listening = asyncio.Lock()
        self.stopped = asyncio.Event()
        """Event that is set when the server wants this process to end."""
        self.operations: dict[str, Operation] = {
            "grant": self._grant,
            "listen": self._listen,
            "unlisten": self._unlisten,
            "connect": self._take,
            "usage": self._usage,
            "revoke": self._revoke,
            "forget": self._forget,
            "status": self._status,
            "stop": self._stop,
            "egress": egress.serve,
            "refused_egress": egress.refused,
            "end_egress": egress.end,
        }
        """By name; other kinds of doors add theirs."""

    @property
    def silent_seconds(self) -> float:
        """Seconds since a server was last connected."""
        if self._channels:
            self._heard = time.monotonic()
        return time.monotonic() - self._heard

    def open(self, listener: socket.socket) -> None:
        """Accept connections on a listening socket."""
        self._shut()
        self._listener = listener
        listener.setblocking(False)
        asyncio.get_running_loop().add_reader(listener.fileno(), self._connect)

    def see_to_socket(self, folder: Path) -> None:
        """Create the socket again if it was removed: servers find this process by that socket only."""
        if (folder / protocol.SOCKET).exists():
            return
        try:
            self.open(protocol.bind_control_socket(folder))
        except OSError as error:
            _LOG.warning("the socket is gone and cannot be made again: %s", error)
        else:
            _LOG.warning("the socket was removed; there is a new one")

    def _shut(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()

    async def close(self) -> None:
        """Accept no more connections, and finish the pending requests."""
        self._shut()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        for channel in list(self._channels):
            channel.close()

    def _connect(self) -> None:
        assert self._listener is not None
        try:
            connection, _address = self._listener.accept()
        except OSError:
            # The client has gone again, or no descriptor is left: then the loop calls this again.
            return
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", credentials)[1] != os.getuid():
            connection.close()
            return
        spoken: list[Channel] = []
        channel = Channel(connection, lambda message, given: self._hear(spoken[0], message, given))
        spoken.append(channel)
        self._channels.add(channel)

    def _hear(self, channel: Channel, message: dict[str, Any] | None, descriptors: list[int]) -> None:
        self._heard = time.monotonic()
        if message is None:
            self._channels.discard(channel)
            return
        task = asyncio.create_task(self._answer(channel, message, descriptors))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, channel: Channel, message: dict[str, Any], descriptors: list[int]) -> None:
        # Answer for any other failure, whose details go to the log only.
        answer: dict[str, Any] = {
            "ok": False,
            "code": "internal",
            "message": "the gateway failed; see its log",
        }
        try:
            operation = self.operations.get(message.get("op", ""))
            if operation is None:
                raise UsageError(f"this gateway ({protocol.VERSION}) does not know {message.get('op')!r}")
            answer = {"ok": True, **await operation(message, descriptors)}
        except BenchyardError as error:
            answer = {"ok": False, "code": error.code, "message": error.message}
        except (KeyError, IndexError, TypeError, ValueError) as error:
            # Leave out the error's own text: it could contain parts of the message.
            words = f"the gateway does not understand this request ({type(error).__name__})"
            answer = {"ok": False, "code": "bad_request", "message": words}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
            await _send(channel, {"id": message.get("id"), **answer})

    async def _grant(self, message: dict[str, Any], _descriptors: list[int]) -> dict[str, Any]:
        grant = protocol.grant_from_json(message["grant"])
        spent = await self._ledger.grant(grant)
        _LOG.info("grant %s for devbox %s", grant.id, grant.devbox_id)
        return {"spent": protocol.spent_to_json(spent)}

    async def _listen(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        devbox_id, listener = message["devbox_id"], listener_from_descriptor(os.dup(descriptors[0]))
        async with self._listening:
            # A repeated request means the same door; its open connections must stay.
            if self._doors.has(devbox_id, "models", listener):
                listener.close()
                return {}
            door = ModelDoor(devbox_id, listener, self._proxy)
            await self._doors.put(devbox_id, "models", listener, door)
        _LOG.info("listening for devbox %s", devbox_id)
        return {}

    async def _unlisten(self, message: dict[str, Any], _descriptors: list[int]) -> dict[str, Any]:
        await self._doors.close_kind(message["devbox_id"], "models")
        _LOG.info("no longer listening for devbox %s", message["devbox_id"])
        return {}

    async def _take(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        door = self._doors.find(message["devbox_id"], "models")
        if not isinstance(door, ModelDoor):
            raise NotFound(f"no models are served for devbox {message['devbox_id']}")
        await door.take(socket.socket(fileno=os.dup(descriptors[0])))
        return {}

    async def _usage(self, message: dict[str, Any], _descriptors: list[int]) -> dict[str, Any]:
        return {"spent": protocol.spent_to_json(await self._ledger.spent(message["grant_id"]))}

    async def _revoke(self, message: dict[str, Any], _descriptors: list[int]) -> dict[str, Any]:
        spent = await self._ledger.revoke(message["grant_id"])
        _LOG.info("grant %s revoked after %d calls", message["grant_id"], spent.calls)
        return {"spent": protocol.spent_to_json(spent)}

    async def _forget(self, message: dict[str, Any], _descriptors: list[int]) -> dict[str, Any]:
        await self._ledger.forget(message["grant_id"])
        return {}

    async def _status(self, _message: dict[str, Any], _descriptors: list[int]) -> dict[str, Any]:
        return {
            "grants": [account.grant.id for account in self._ledger.accounts() if account.is_live],
            "holders": {account.grant.id: account.grant.devbox_id for account in self._ledger.accounts()},
            "devboxes": list(self._doors.devboxes()),
            "pid": os.getpid(),
            "version": protocol.VERSION,
            "instance": self._instance,
        }

    async def _stop(self, _message: dict[str, Any], _descriptors: list[int]) -> dict[str, Any]:
        self.stopped.set()
        return {}


async def _send(channel: Channel, answer: dict[str, Any]) -> None:
    try:
        await channel.send(answer)
    except OSError:
        _LOG.info("a server went away before it was answered")
