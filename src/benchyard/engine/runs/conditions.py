"""Effects of the network or the machine on a scored run: lines that help to explain its score."""

import logging
import os
import re
from collections.abc import Callable

from benchyard.engine.context import EngineContext
from benchyard.errors import BenchyardError

FAR_ABOVE = 4.0
"""Load per core above which time limits may be hit that are not hit elsewhere."""
_MOST_HOSTS = 20
_NOT_SHOWN = re.compile(r"[^ -~]")

_log = logging.getLogger(__name__)


def machine_load() -> float:
    """Return the mean load of the last minute."""
    return os.getloadavg()[0]


def cores() -> int:
    """Return the number of processors that this server may use."""
    return len(os.sched_getaffinity(0))


class Conditions:
    """Lines of one scoring, in the order of their discovery."""

    def __init__(self, load: Callable[[], float] = machine_load, count: int | None = None) -> None:
        self.lines: list[str] = []
        self._load = load
        self._cores = count or cores()
        self._seen: dict[tuple[str, str], int] = {}

    async def look_at_network(self, tools: EngineContext, devbox_id: str, when: str) -> None:
        """Add a line for the hosts that a devbox was refused since the last look."""
        if tools.egress is None:
            return
        try:
            refused = await tools.egress.refused(devbox_id)
        except BenchyardError as error:
            _log.warning("the refused requests of devbox %s are not known: %s", devbox_id, error)
            return
        for host, count in list(refused.items())[:_MOST_HOSTS]:
            more = count - self._seen.get((devbox_id, host), 0)
            self._seen[devbox_id, host] = count
            if more > 0:
                times = "once" if more == 1 else f"{more} times"
                self._add(f"the egress proxy refused {_NOT_SHOWN.sub('?', host)} {times} {when}")
        if len(refused) > _MOST_HOSTS:
            self._add(f"the egress proxy refused {len(refused) - _MOST_HOSTS} more hosts {when}")

    def look_at_load(self, when: str) -> None:
        """Add a line for the machine's load if it is far above its capacity."""
        load = self._load()
        if load > FAR_ABOVE * self._cores:
            self._add(f"{when} the machine's load was {load:.0f} on {self._cores} cores")

    def _add(self, line: str) -> None:
        if line not in self.lines:
            self.lines.append(line)
