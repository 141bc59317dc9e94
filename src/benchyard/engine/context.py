"""What every part of the engine works with, and who asks it for something new."""

import logging
from dataclasses import dataclass, field

from benchyard.devboxes.base import Trees
from benchyard.devboxes.local_trees import LocalTrees
from benchyard.engine.background import BackgroundTasks
from benchyard.engine.clock import now_ms
from benchyard.engine.devboxes.live import LiveDevboxes
from benchyard.engine.devboxes.log_file import DevboxLog
from benchyard.engine.network.gateway_doors import DoorOpener, EgressGate, GatewayDoors, NoDoors
from benchyard.engine.objects import Objects
from benchyard.engine.secrets import Secrets
from benchyard.hosts.host import Host
from benchyard.images.builders.base import Builder
from benchyard.images.store import ImageStore
from benchyard.models.devboxes import DevboxPurpose, InitiatorType
from benchyard.models.executions import LogLine, LogSource
from benchyard.settings import Settings
from benchyard.store.reserve import Reserve
from benchyard.store.vault import Vault
from benchyard.workers.workers import Workers

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EngineContext:
    """The open parts that make and keep devboxes."""

    settings: Settings
    host: Host
    images: ImageStore
    builder: Builder
    live_devboxes: LiveDevboxes
    work: BackgroundTasks
    journal: DevboxLog
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
    def opener(self) -> DoorOpener:
        """Opens doors with the secrets of this server."""
        return DoorOpener(self.doors, self.secrets, self.vault)

    def note(self, devbox_id: str, source: LogSource, message: str, *, level: str = "info") -> None:
        """Write a line into a devbox's log."""
        line = LogLine(level=level, source=source, timestamp_ms=now_ms(), message=message)
        try:
            self.journal.note(devbox_id, line)
        except OSError as error:
            # What it tells of has happened: that its line is missing must not undo it.
            _log.warning("a line of the log of %s is lost: %s", devbox_id, error)


def devbox_key(devbox_id: str) -> str:
    """The key of what is done to a devbox itself."""
    return f"devbox/{devbox_id}"


def snapshot_key_prefix(devbox_id: str) -> str:
    """What the keys of snapshots of a devbox begin with."""
    return f"snapshot/{devbox_id}/"


@dataclass(frozen=True)
class Caller:
    """Who asks: the id the new thing gets, the hash of the request, and the key it came with."""

    id: str
    request_hash: str | None = None
    key_id: str | None = None
    run_id: str | None = None
    """The scenario run it is for."""
    scorer_id: str | None = None
    """The custom scorer it tries."""
    purpose: DevboxPurpose | None = None

    @property
    def initiator(self) -> InitiatorType:
        """What kind of thing asks."""
        if self.run_id:
            return "scenario"
        return "scoring_validation" if self.scorer_id else "api"
