import asyncio
from pathlib import Path

import pytest

from benchyard.engine.background import snapshot_key_prefix
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.engine import Engine
from benchyard.errors import Conflict
from benchyard.models.devboxes import Devbox, DevboxRequest, DevboxStatus
from benchyard.models.snapshots import Snapshot, SnapshotStatus
from tests.engine.yard import run


async def running(engine: Engine) -> str:
    devbox = await engine.devboxes.create(Caller("dbx_1"), DevboxRequest())
    assert (await engine.devboxes.wait_until_booted(devbox.id)).status is DevboxStatus.RUNNING
    return devbox.id


def test_a_snapshot_in_progress_keeps_a_devbox_from_being_shut_down_unless_forced(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        id = await running(engine)
        ended: list[str] = []

        async def slow() -> None:
            try:
                await asyncio.sleep(600)
            finally:
                ended.append("snapshot")

        tools.work.start(snapshot_key_prefix(id) + "snp_1", slow)
        await asyncio.sleep(0)
        with pytest.raises(Conflict, match="force"):
            await engine.devboxes.shutdown(id, force=False)
        assert (await engine.devboxes.get(id)).status is DevboxStatus.RUNNING
        assert (await engine.devboxes.shutdown(id, force=True)).status is DevboxStatus.SHUTDOWN
        await tools.work.settle("devbox/")
        assert ended == ["snapshot"]
        assert tools.host.running() == set()

    run(tmp_path, scenario)


def test_a_snapshot_that_a_stop_cut_short_is_an_error_and_cannot_be_deleted_before(tmp_path: Path) -> None:
    async def before(engine: Engine, tools: EngineContext) -> None:
        record = Snapshot(id="snp_1", create_time_ms=1, source_devbox_id="dbx_1")
        await engine.snapshots.records.insert(record)
        with pytest.raises(Conflict, match="still being taken"):
            await engine.snapshots.delete("snp_1")

    async def after(engine: Engine, tools: EngineContext) -> None:
        snapshot = await engine.snapshots.records.get("snp_1")
        assert snapshot.status is SnapshotStatus.ERROR
        assert "stopped" in (snapshot.error_message or "")
        await engine.snapshots.delete("snp_1")

    run(tmp_path, before)
    run(tmp_path, after)


def test_a_snapshot_that_a_devbox_is_being_made_from_cannot_be_deleted(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        record = Snapshot(
            id="snp_1", create_time_ms=1, source_devbox_id="dbx_0", status=SnapshotStatus.COMPLETE
        )
        await engine.snapshots.records.insert(record)
        await tools.live_devboxes.add(
            Devbox(id="dbx_2", create_time_ms=1, image="snp_1", snapshot_id="snp_1")
        )
        with pytest.raises(Conflict, match="being made"):
            await engine.snapshots.delete("snp_1")

    run(tmp_path, scenario)
