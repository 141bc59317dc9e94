"""Dependencies of routes: the open services of this server, provided by FastAPI."""

import asyncio
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends
from fastapi.requests import HTTPConnection

from benchyard.api.job_reports import JobReports
from benchyard.api.metrics import LeakCounts, ServerMetrics
from benchyard.api.problem_reports import ProblemReports
from benchyard.api.ssh.transport import SshServer
from benchyard.engine.api_keys import ApiKeys
from benchyard.engine.devboxes.live import LiveDevboxes
from benchyard.engine.engine import Engine
from benchyard.engine.objects import Objects
from benchyard.engine.secrets import Secrets
from benchyard.hosts.host import Host
from benchyard.images.builders.base import Builder
from benchyard.images.store import ImageStore
from benchyard.settings import Settings
from benchyard.store.database import Store
from benchyard.store.vault import Vault
from benchyard.workers.workers import Workers


@dataclass(frozen=True)
class Services:
    """The open parts of a running server."""

    settings: Settings
    store: Store
    vault: Vault
    keys: ApiKeys
    secrets: Secrets
    objects: Objects
    images: ImageStore
    host: Host
    builder: Builder
    live_devboxes: LiveDevboxes
    engine: Engine
    metrics: ServerMetrics
    leakage: LeakCounts
    ssh: SshServer
    workers: Workers
    """Workers for data that clients send; data left by agents has other workers, so it cannot block these."""
    job_reports: JobReports
    problem_reports: ProblemReports
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Event that is set when the server begins to stop: long-polls and streams end soon after."""


def services_of(connection: HTTPConnection) -> Services:
    """Return the services of the app that serves this request or socket."""
    services: Services = connection.app.state.services
    return services


async def _services(connection: HTTPConnection) -> Services:
    # Dependencies are coroutines: plain functions would each run in a thread.
    return services_of(connection)


ServicesDep = Annotated[Services, Depends(_services)]
