"""Doors out of devboxes, for whoever serves them from outside: `Host.doors`."""

from collections.abc import Callable

from benchyard.devboxes.base import Driver
from benchyard.hosts.devbox import Devbox


class Doors:
    """Sockets that listen inside devboxes."""

    def __init__(self, driver: Driver, devbox: Callable[[str], Devbox]) -> None:
        self._driver = driver
        self._devbox = devbox

    async def open(self, devbox_id: str, port: int = 0) -> tuple[int, int]:
        """A descriptor of a socket that listens on the loopback of a running devbox, and its port.

        The caller closes it; the devbox keeps its own until it ends, and gives the same one when asked for
        that port again. One that was stopped and is resumed has none. Port 0 takes a free one.
        """
        self._devbox(devbox_id).require_running()
        return await self._driver.inside.listen(devbox_id, port)
