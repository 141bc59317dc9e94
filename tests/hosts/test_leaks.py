"""What is found of devboxes that do not run, and what is not taken for it."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchyard.devboxes.shared import cgroups, devbox_index
from benchyard.devboxes.shared.running_devbox import FirstProcess, listen
from benchyard.hosts import leaks
from benchyard.images.image import Image, write_record
from benchyard.testing.contracts.driver_fixture import eventually
from benchyard.testing.server import RunningServer


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[RunningServer]:
    """A server of the test's own."""
    with RunningServer(tmp_path / "data") as running:
        yield running
    assert leaks.find(running.data) == []


def create(server: RunningServer) -> Path:
    """The folder of a new devbox with a command in it."""
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=40) as client:
        made = client.post("/v1/devboxes/create_and_await_running").json()
        assert made["status"] == "running", made
        client.post(f"/v1/devboxes/{made['id']}/execute_async", json={"command": "setsid sleep 600"})
    return server.data / "host" / "devboxes" / str(made["id"])


def kinds(data: Path) -> set[str]:
    return {leak.kind for leak in leaks.find(data, seconds=1)}


def test_devboxes_that_live_are_not_leaks_with_or_without_a_server(lonely: RunningServer) -> None:
    create(lonely)
    assert leaks.find(lonely.data) == []
    lonely.kill()
    assert leaks.find(lonely.data) == []
    lonely.start()


def test_leftovers_of_a_dead_devbox_are_listed_until_cleared(lonely: RunningServer) -> None:
    folder = create(lonely)
    held = FirstProcess.load(folder)
    assert held is not None
    lonely.kill()
    os.kill(held.pid, signal.SIGKILL)
    asyncio.run(eventually(lambda: not devbox_index.is_alive(held), "its end"))
    assert kinds(lonely.data) >= {"socket", "folder"}
    lonely.start()
    assert leaks.find(lonely.data) == []


def test_an_unrecorded_devbox_is_listed_with_its_processes(lonely: RunningServer) -> None:
    folder = create(lonely)
    lonely.kill()
    (folder / "box.json").unlink()
    assert kinds(lonely.data) >= {"process", "namespace", "cgroup", "socket", "folder"}
    lonely.start()
    assert leaks.find(lonely.data) == []


def test_an_empty_data_folder_has_no_leaks(tmp_path: Path) -> None:
    assert leaks.look(tmp_path / "nothing") == []


def test_mounts_folders_holds_and_groups_without_a_devbox_are_listed(tmp_path: Path) -> None:
    mounted = tmp_path / "host" / "devboxes" / "dbx_1" / "root"
    mounted.mkdir(parents=True)
    listen(mounted.parent).close()
    (tmp_path / "images" / "holds").mkdir(parents=True)
    (tmp_path / "images" / "holds" / "dbx_1.json").touch()
    found = {(leak.kind, Path(leak.name).name) for leak in leaks.look(tmp_path)}
    assert found == {
        ("folder", "dbx_1"),
        ("folder", "root"),
        ("socket", "agent.sock"),
        ("folder", "dbx_1.json"),
    }


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
def test_a_mount_on_the_host_is_listed(tmp_path: Path) -> None:
    place = tmp_path / "host" / "with space"
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], check=True)
    try:
        assert leaks.Leak("mount", str(place), "mounted on the host, not in a devbox") in leaks.look(tmp_path)
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_control_group_without_a_devbox_is_listed(tmp_path: Path) -> None:
    name = cgroups.owner(tmp_path / "driver")
    groups = cgroups.detect(name)
    if not groups.capabilities:
        pytest.skip("control groups are not ours to make here")
    try:
        assert {leak.kind for leak in leaks.look(tmp_path)} == {"cgroup"}
    finally:
        groups.remove_empty()
    assert leaks.look(tmp_path) == []


def test_unused_layers_are_listed_unless_an_image_is_being_made(tmp_path: Path) -> None:
    store = tmp_path / "images"
    for name in ("layers/named", "layers/held", "layers/lost", "images", "holds", "partial"):
        (store / name).mkdir(parents=True)
    write_record(store / "images", Image("img_1", "one", ("named",)))
    write_record(store / "holds", Image("img_2", "two", ("held",)))
    (tmp_path / "host/devboxes/img_2/changes").mkdir(parents=True)
    (tmp_path / "host/devboxes/img_2/request.json").touch()
    assert [Path(leak.name).name for leak in leaks.look(tmp_path)] == ["lost"]
    (store / "images/broken.json").write_text("{")
    assert leaks.look(tmp_path) == []
    (store / "images/broken.json").unlink()
    (store / "layers/lost").rmdir()
    assert leaks.look(tmp_path) == []


def test_layers_of_deleted_snapshots_are_gone_with_the_last_that_needs_them(lonely: RunningServer) -> None:
    layers = lonely.data / "images" / "layers"
    headers = {"authorization": f"Bearer {lonely.key}"}
    with httpx.Client(base_url=lonely.url, headers=headers, timeout=40) as client:

        def branch(snapshot: str | None) -> tuple[str, str]:
            body = {"snapshot_id": snapshot} if snapshot else {}
            box = client.post("/v1/devboxes/create_and_await_running", json=body).json()["id"]
            return box, client.post(f"/v1/devboxes/{box}/snapshot_disk").json()["id"]

        def delete(snapshot: str) -> None:
            assert client.post(f"/v1/devboxes/disk_snapshots/{snapshot}/delete").status_code == 200

        first_box, first = branch(None)
        second_box, second = branch(first)
        third_box, third = branch(second)
        for box in (first_box, second_box, third_box):
            client.post(f"/v1/devboxes/{box}/shutdown")
        assert len(list(layers.iterdir())) == 4
        delete(first)
        lonely.kill()
        lonely.start()
        assert client.get(f"/v1/devboxes/disk_snapshots/{first}/status").json()["status"] == "deleted"
        delete(second)
        assert len(list(layers.iterdir())) == 4
        delete(third)
        asyncio.run(eventually(lambda: len(list(layers.iterdir())) == 1, "the layers to go"))
