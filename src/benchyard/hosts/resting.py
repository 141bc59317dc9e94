"""Whether the disk of a devbox that was stopped is what it was then, or the power may have taken parts of it.

A disk that was not synced is sound as long as the machine has not been started anew: killed processes lose
nothing. The note may be lost with the disk, so a missing one says that the disk is not sound.
"""

from pathlib import Path

from benchyard.devboxes.box import processes

_NOTE = "rests"
_SYNCED = "synced"


def note_boot(folder: Path) -> None:
    """Note that a disk is about to rest without being synced."""
    (folder / _NOTE).write_text(processes.boot_id())


def note_synced(folder: Path) -> None:
    """Note that a disk rests, just before it is synced with this note."""
    (folder / _NOTE).write_text(_SYNCED)


def is_sound(folder: Path) -> bool:
    """Whether all that was written to a resting disk is there."""
    try:
        found = (folder / _NOTE).read_text()
    except FileNotFoundError:
        return False
    return found in (_SYNCED, processes.boot_id())
