"""The open engine: everything the API can ask for about devboxes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchyard.engine.devboxes import Devboxes
from benchyard.engine.executions import Executions
from benchyard.engine.files import Files
from benchyard.engine.library import Library
from benchyard.engine.logs import Logs
from benchyard.engine.pty import Ptys
from benchyard.engine.snapshots import Snapshots
from benchyard.engine.tools import Tools
from benchyard.models.snapshots import Snapshot
from benchyard.store.collection import Collection


@dataclass(frozen=True)
class Engine:
    """Devboxes and all that belongs to them."""

    devboxes: Devboxes
    executions: Executions
    files: Files
    logs: Logs
    snapshots: Snapshots
    ptys: Ptys
    library: Library


@asynccontextmanager
async def open_engine(tools: Tools, snapshots: Collection[Snapshot]) -> AsyncIterator[Engine]:
    """Take up what an earlier server left, and let go of it in order at the end."""
    async with Devboxes(tools, snapshots) as devboxes:
        engine = Engine(
            devboxes=devboxes,
            executions=Executions(tools, devboxes),
            files=Files(tools, devboxes),
            logs=Logs(tools),
            snapshots=Snapshots(tools, snapshots),
            ptys=Ptys(tools, devboxes),
            library=Library(tools),
        )
        await engine.snapshots.open()
        await engine.ptys.open()
        yield engine
