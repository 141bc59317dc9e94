"""Many devboxes of one server, made, used and ended by several clients at once."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from benchyard.testing.server import RunningServer
from perf.api import Api

T = TypeVar("T")
R = TypeVar("R")

CLIENTS = 4
_PATIENCE_SECONDS = 600.0
_LOOK_SECONDS = 0.005


class Fleet:
    """The devboxes of one server."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self.ids: list[str] = []

    def fill(self, count: int) -> float:
        """Make so many; returns the seconds it took."""
        begin = time.perf_counter()
        made = self._spread(list(range(count)), lambda api, _number: api.create())
        self.ids += made
        return time.perf_counter() - begin

    def visit(self) -> float:
        """Run `true` in every one; returns the seconds it took, raises if one does not answer."""
        begin = time.perf_counter()
        self._spread(self.ids, lambda api, devbox: api.run(devbox))
        return time.perf_counter() - begin

    def empty(self) -> float:
        """End them all; returns the seconds until nothing of them is left on the machine."""
        begin = time.perf_counter()
        self._spread(self.ids, lambda api, devbox: api.end(devbox))
        self.ids = []
        settled(self._server.data)
        return time.perf_counter() - begin

    def _spread(self, items: list[T], work: Callable[[Api, T], R]) -> list[R]:
        def share(mine: list[T]) -> list[R]:
            api = Api(self._server)
            try:
                return [work(api, item) for item in mine]
            finally:
                api.close()

        with ThreadPoolExecutor(CLIENTS) as clients:
            parts = clients.map(share, [items[number::CLIENTS] for number in range(CLIENTS)])
            return [result for part in parts for result in part]


def settled(data: Path) -> None:
    """Wait until a server has no devbox, and nothing of an earlier one to clear away."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while any((data / "driver" / "devboxes").iterdir()) or any((data / "images" / "holds").iterdir()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"devboxes are still being cleared away in {data}")
        time.sleep(_LOOK_SECONDS)
