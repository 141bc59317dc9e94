"""Who serves egress proxies, as the engine sees it: the gateway's process, which outlives this server."""

from typing import Protocol

from benchyard.gateway.egress_rules import Rules


class EgressGate(Protocol):
    """Takes the doors of devboxes that may reach what is on a list."""

    async def open_egress(self, devbox_id: str, descriptor: int, rules: Rules) -> None:
        """Serve a door from now on; asked again, go on with these rules and end what they do not allow.

        The descriptor is a socket that listens inside the devbox. It stays the caller's, who closes it.
        """

    async def refused(self, devbox_id: str) -> dict[str, int]:
        """What a devbox asked for in vain: host and port, and how often."""

    async def close_egress(self, devbox_id: str) -> None:
        """Serve a devbox's door no more, if it has one: its network would live as long as that socket."""
