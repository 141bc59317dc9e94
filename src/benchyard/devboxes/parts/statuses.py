"""The statuses of commands in a devbox's folder, as a driver sees to them."""

import json
from pathlib import Path

_LOST = {
    "exit_status": 137,
    "killed": True,
    "ended_ms": 0,
    "error": "the process that kept this command was killed inside the devbox",
    "signal": 9,
}


def has_empty_status(folder: Path) -> bool:
    """Whether an execution's status is still to be written."""
    try:
        return (folder / "status.json").stat().st_size == 0
    except FileNotFoundError:
        return False


def has_commands(folder: Path) -> bool:
    """Whether a devbox may have commands that have not ended: the status of each is made before it begins."""
    try:
        return any(has_empty_status(each) for each in (folder / "executions").iterdir())
    except FileNotFoundError:
        return False


def note_lost(folder: Path | None) -> None:
    """Give a command whose end was told, but not how it ended, a status."""
    if folder is not None and has_empty_status(folder):
        (folder / "status.json").write_text(json.dumps(_LOST))
