"""What is kept of devboxes that have ended: on disk for a while, in memory only of the last ones."""

import gc
import os
import subprocess
from pathlib import Path

import pytest

from benchyard.hosts import host as hosts
from benchyard.hosts.requests import StartRequest
from benchyard.hosts.state import DevboxEntry, HostState
from benchyard.store.vault import Vault
from tests.hosts.conftest import OnHost
from tests.hosts.yard import HostYard


@pytest.fixture
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    return Vault(tmp_path_factory.mktemp("vault") / "key")


def noted(journal: HostState, folder: Path, id: str, seconds: float) -> None:
    journal.write(DevboxEntry(StartRequest(id=id, image="host"), "host", should_run=False))
    os.utime(folder / id / "request.json", (seconds, seconds))


def test_only_old_devboxes_without_a_disk_are_forgotten(tmp_path: Path, vault: Vault) -> None:
    journal = HostState(tmp_path, vault)
    journal.open()
    noted(journal, tmp_path, "old", 1000)
    noted(journal, tmp_path, "new", 3000)
    noted(journal, tmp_path, "resting", 1000)
    (tmp_path / "resting" / "changes").mkdir()
    (tmp_path / "half-made").mkdir()
    assert journal.with_disk() == {"resting"}
    assert journal.ended_before(2000) == {"old"}


def test_partly_forgotten_devbox_is_still_known(tmp_path: Path, vault: Vault) -> None:
    journal = HostState(tmp_path, vault)
    journal.open()
    noted(journal, tmp_path, "old", 1000)
    stays = tmp_path / "old" / "executions"
    stays.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", stays], check=False, capture_output=True).returncode:
        pytest.skip("this machine does not mount it")
    try:
        # As one that is killed half-way, it does not get to its end.
        journal.forget("old")
        assert journal.ended_before(2000) == {"old"}
    finally:
        subprocess.run(["umount", stays], check=True)
    journal.forget("old")
    assert list(tmp_path.iterdir()) == []


def test_devboxes_that_ended_leave_memory_and_are_still_found(
    on_host: OnHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "_REMEMBERED", 2)

    async def test(yard: HostYard) -> None:
        names = [f"dbx_{number}" for number in range(5)]
        for name in names:
            await yard.devbox(name)
            await yard.run(name, f"echo {name}", id="first")
            await yard.host.stop(name, keep_disk=False)
        assert set(yard.host._devboxes) == set(names[-2:])
        for name in names:
            state = await yard.host.execution(name, "first")
            assert (state.status, state.exit_status) == ("completed", 0)
            assert await yard.output(name, "first") == f"{name}\n".encode()
        assert len(yard.host._devboxes) == 2
        gc.collect()
        assert len(yard.host._locks) <= 1

    on_host(test)


def test_a_devbox_that_rests_is_resumed_though_it_left_memory(
    on_host: OnHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "_REMEMBERED", 1)

    async def test(yard: HostYard) -> None:
        resting = await yard.devbox("dbx_resting")
        await yard.run(resting, "echo kept > ~/file")
        await yard.host.stop(resting, keep_disk=True)
        for name in ("dbx_a", "dbx_b"):
            await yard.devbox(name)
            await yard.host.stop(name, keep_disk=False)
        assert resting not in yard.host._devboxes
        assert resting in yard.host.with_disk()
        await yard.devbox(resting)
        assert await yard.text(resting, "cat ~/file") == "kept\n"

    on_host(test)


def test_running_executions_are_listed_without_the_rest(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        await yard.run(devbox, "true", id="done")
        await yard.host.exec(devbox, yard.request("sleep 300", id="running"))
        assert [state.id for state in yard.host.under_way(devbox)] == ["running"]
        await yard.restart()
        assert [state.id for state in yard.host.under_way(devbox)] == ["running"]

    on_host(test)
