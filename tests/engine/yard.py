"""A whole engine in this process, over a real driver, for tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchyard import registry
from benchyard.engine.background import BackgroundTasks
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.live import LiveDevboxes
from benchyard.engine.devboxes.log_file import DevboxLog
from benchyard.engine.engine import Engine, open_engine
from benchyard.engine.network.gateway_access import Grants
from benchyard.engine.network.gateway_doors import EgressService, GatewayDoors, NoDoors
from benchyard.engine.objects import Objects
from benchyard.engine.secrets import Secrets
from benchyard.hosts.host import Host
from benchyard.images.builders.base import Builder
from benchyard.images.builders.choice import NoBuilder
from benchyard.images.store import ImageStore
from benchyard.models.devboxes import Devbox
from benchyard.settings import Settings
from benchyard.store.contents import ObjectContents
from benchyard.store.database import Store
from benchyard.store.vault import Vault
from benchyard.workers.workers import Workers

Scenario = Callable[[Engine, EngineContext], Awaitable[None]]


@asynccontextmanager
async def opened(
    data: Path,
    driver: str = "fake",
    builder: Callable[[ImageStore], Builder] | None = None,
    doors: GatewayDoors | None = None,
    egress: EgressService | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[Engine, EngineContext]]:
    """The engine of a data folder, which may be one of an earlier engine."""
    vault = Vault(data / "key")
    held = registry.load("devboxes", driver)(data / "driver", {})
    contents = ObjectContents(data / "objects")
    async with Store(f"sqlite:///{data / 'db'}") as store, held:
        images = ImageStore(data / "images", held.trees)
        await images.open()
        async with (
            Host(data / "host", held, images, vault) as host,
            Objects(store, contents, 10_000_000) as objects,
            Workers() as workers,
        ):
            tools = EngineContext(
                settings=replace(
                    Settings(data=data, driver=driver, import_folders=(data.parent,)), **settings
                ),
                host=host,
                images=images,
                builder=builder(images) if builder else NoBuilder(),
                live_devboxes=LiveDevboxes(store.collection("devboxes", Devbox)),
                work=BackgroundTasks(),
                journal=DevboxLog(data / "logs"),
                vault=vault,
                secrets=Secrets(store, vault),
                objects=objects,
                workers=workers,
                doors=doors or NoDoors(),
                egress=egress,
            )
            async with (
                Grants(host, data / "gateway", 60) as grants,
                open_engine(tools, store, grants) as engine,
            ):
                yield engine, tools


def run(data: Path, scenario: Scenario, *given: Any, **settings: Any) -> None:
    """Open an engine, live through a scenario, and close it."""

    async def live() -> None:
        async with opened(data, *given, **settings) as (engine, tools):
            await scenario(engine, tools)

    asyncio.run(live())
