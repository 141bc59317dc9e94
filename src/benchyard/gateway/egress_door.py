"""The egress proxy as a door: what the control socket asks for, served by `egress`."""

import os
import socket
from typing import Any

from benchyard.gateway import egress
from benchyard.gateway.doors import Door, Doors, listening
from benchyard.gateway.egress_rules import Rules

KIND = "egress"


class EgressDoor(Door):
    """Passes on what the rules allow, which may change while it is open."""

    def __init__(self, listener: socket.socket, rules: Rules) -> None:
        self._listener = listener
        self._rules = rules
        self._served: egress.Egress | None = None

    async def open(self) -> None:
        self._served = await egress.serve(self._listener, lambda: self._rules)

    async def close(self) -> None:
        if self._served is not None:
            await self._served.close()
        self._listener.close()

    def refused(self) -> dict[str, int]:
        """How often each host was asked for in vain, by its name and port."""
        found = self._served.log.refused() if self._served is not None else []
        return {f"{entry.host}:{entry.port}": entry.count for entry in found}

    def change(self, rules: Rules) -> None:
        """Go on with other rules, and end what they do not allow."""
        self._rules = rules
        if self._served is not None:
            self._served.enforce()


class EgressOperations:
    """What a server may ask about egress."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._open: dict[str, EgressDoor] = {}

    async def serve(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Serve a devbox's door by these rules; the same socket again changes the rules only."""
        devbox_id, rules = str(message["devbox_id"]), Rules.from_json(message["rules"])
        listener = listening(os.dup(descriptors[0]))
        known = self._open.get(devbox_id)
        if known is not None and self._doors.has(devbox_id, KIND, listener):
            listener.close()
            known.change(rules)
            return {}
        self._open[devbox_id] = EgressDoor(listener, rules)
        await self._doors.put(devbox_id, KIND, listener, self._open[devbox_id])
        return {}

    async def refused(self, message: dict[str, Any], _descriptors: list[int]) -> dict[str, Any]:
        """What a devbox asked for in vain."""
        door = self._open.get(str(message["devbox_id"]))
        return {"refused": door.refused() if door is not None else {}}

    async def end(self, message: dict[str, Any], _descriptors: list[int]) -> dict[str, Any]:
        """Serve a devbox's door no more."""
        devbox_id = str(message["devbox_id"])
        self._open.pop(devbox_id, None)
        await self._doors.close_kind(devbox_id, KIND)
        return {}
