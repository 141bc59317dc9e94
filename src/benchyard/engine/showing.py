"""Which folders of the host devboxes show: none of them may go."""

from pathlib import Path

from benchyard.engine.boot import shown_in
from benchyard.engine.tools import Tools


def shown_folders(tools: Tools) -> set[Path]:
    """Those that devboxes show which run, rest or come up, ours too that are in no list."""
    coming = {each.source for devbox in tools.roster.live() for each in shown_in(devbox)}
    return coming | tools.host.rooms.shown_folders()
