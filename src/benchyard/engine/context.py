"""Parts that the whole engine works with, and the caller of a request."""

import logging
from dataclasses import dataclass, field

from benchyard.devboxes.base import Trees
from benchyard.devboxes.local_trees import LocalTrees
from benchyard.engine.background import BackgroundTasks
from benchyard.engine.clock import now_ms
from benchyard.engine.devboxes.live import LiveDevboxes
from benchyard.engine.devboxes.log_file import DevboxLog
from benchyard.engine.network.gateway_doors import DoorOpener, EgressService, GatewayDoors, NoDoors
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
    """Open services that the engine uses to create and run devboxes."""

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
    """Separate processes for parsing and grading untrusted content."""
    trees: Trees = field(default_factory=LocalTrees)
    doors: GatewayDoors = field(default_factory=NoDoors)
    egress: EgressService | None = None
    """Lets devboxes reach the hosts on an allow-list; None where no such gate runs."""
    reserve: Reserve | None = None
    """Disk space set aside for ending devboxes; None without it."""

    def make_room_to_end(self) -> None:
        """Free reserved space, so that the end of a devbox can be noted on a full disk too."""
        if self.reserve is not None:
            self.reserve.lend()

    @property
    def opener(self) -> DoorOpener:
        """Return an opener of doors that uses this server's secrets."""
        return DoorOpener(self.doors, self.secrets, self.vault)

    def note(self, devbox_id: str, source: LogSource, message: str, *, level: str = "info") -> None:
        """Write a line into a devbox's log."""
        line = LogLine(level=level, source=source, timestamp_ms=now_ms(), message=message)
        try:
            self.journal.note(devbox_id, line)
        except OSError as error:
            # Losing a log line must not fail the action it describes.
            _log.warning("a line of the log of %s is lost: %s", devbox_id, error)


@dataclass(frozen=True)
class Caller:
    """Origin of a request: the id for the new thing, the request's hash, and the key it came with."""

    id: str
    request_hash: str | None = None
    key_id: str | None = None
    run_id: str | None = None
    """The scenario run that the new devbox is for."""
    scorer_id: str | None = None
    """The custom scorer that the new devbox tries."""
    purpose: DevboxPurpose | None = None

    @property
    def initiator(self) -> InitiatorType:
        """Return the kind of caller."""
        if self.run_id:
            return "scenario"
        return "scoring_validation" if self.scorer_id else "api"
