"""What the engine works with, in one place."""

import logging
from dataclasses import dataclass, field

from benchyard.devboxes.base import Trees
from benchyard.devboxes.trees import LocalTrees
from benchyard.engine.doors import GatewayDoors, NoDoors, Opener
from benchyard.engine.egress_gate import EgressGate
from benchyard.engine.journal import Journal, now_ms
from benchyard.engine.objects import Objects
from benchyard.engine.roster import Roster
from benchyard.engine.secrets import Secrets
from benchyard.engine.work import Work
from benchyard.hosts.host import Host
from benchyard.images.build import Builder
from benchyard.images.store import ImageStore
from benchyard.models.executions import LogLine, LogSource
from benchyard.settings import Settings
from benchyard.store.reserve import Reserve
from benchyard.store.vault import Vault
from benchyard.workers.workers import Workers

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tools:
    """The open parts that make and keep devboxes."""

    settings: Settings
    host: Host
    images: ImageStore
    builder: Builder
    roster: Roster
    work: Work
    journal: Journal
    vault: Vault
    secrets: Secrets
    objects: Objects
    workers: Workers
    """Where everything is parsed and graded that somebody else wrote."""
    trees: Trees = field(default_factory=LocalTrees)
    doors: GatewayDoors = field(default_factory=NoDoors)
    egress: EgressGate | None = None
    """Who lets devboxes reach what is on an allow-list; None where nobody does."""
    reserve: Reserve | None = None
    """Space that is set aside for what is to end; None where none is."""

    def make_room_to_end(self) -> None:
        """Let what is about to be ended be noted, also where the disk is full."""
        if self.reserve is not None:
            self.reserve.lend()

    @property
    def opener(self) -> Opener:
        """Opens doors with the secrets of this server."""
        return Opener(self.doors, self.secrets, self.vault)

    def note(self, devbox_id: str, source: LogSource, message: str, *, level: str = "info") -> None:
        """Write a line into a devbox's log."""
        line = LogLine(level=level, source=source, timestamp_ms=now_ms(), message=message)
        try:
            self.journal.note(devbox_id, line)
        except OSError as error:
            # What it tells of has happened: that its line is missing must not undo it.
            _log.warning("a line of the log of %s is lost: %s", devbox_id, error)


def job_key(devbox_id: str) -> str:
    """The key of what is done to a devbox itself."""
    return f"devbox/{devbox_id}"


def snapshot_keys(devbox_id: str) -> str:
    """What the keys of snapshots of a devbox begin with."""
    return f"snapshot/{devbox_id}/"
