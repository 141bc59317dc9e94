"""Doors of devboxes that outlived a server: known to the next one, so that they open again when they must."""

import logging

from benchyard.engine.doors import open_doors
from benchyard.engine.tools import Tools
from benchyard.errors import BenchyardError
from benchyard.models.devboxes import DevboxStatus

_log = logging.getLogger(__name__)


async def reopen(tools: Tools) -> None:
    """Open every door of every running devbox again; one that cannot be is told in the log."""
    for devbox in tools.roster.live():
        if devbox.status is not DevboxStatus.RUNNING or not devbox.doors:
            continue
        try:
            await open_doors(tools.opener, tools.host, devbox)
        except BenchyardError as error:
            _log.warning("a door of devbox %s could not be opened again: %s", devbox.id, error)
