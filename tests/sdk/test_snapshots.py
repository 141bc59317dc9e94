"""Disk snapshots through the official client, and devboxes made from them."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from runloop_api_client import APIStatusError, NotFoundError, Runloop, RunloopSDK
from runloop_api_client.lib.polling import PollingConfig
from runloop_api_client.types import DevboxSnapshotView

from benchyard.client import Client, Server
from benchyard.testing.server import RunningServer
from tests.sdk.boxes import create, eventually, output, run

QUICK = PollingConfig(interval_seconds=0.05, max_attempts=600)


@pytest.fixture(scope="module")
def full_box(client: Runloop) -> Iterator[str]:
    """A devbox with something on its disk."""
    id = create(client, name="source")
    output(client, id, "echo base > ~/file; mkdir -p ~/deep/er; ln -s ../file ~/deep/link; chmod 750 ~/deep")
    yield id
    client.devboxes.shutdown(id, force="true")


def test_a_snapshot_is_complete_when_it_is_answered(client: Runloop, full_box: str) -> None:
    taken = client.devboxes.snapshot_disk(
        full_box, name="first", commit_message="as it was", metadata={"a": "1"}
    )
    assert (taken.name, taken.commit_message, taken.metadata) == ("first", "as it was", {"a": "1"})
    assert taken.source_devbox_id == full_box
    assert taken.size_bytes is not None
    assert taken.size_bytes > 0
    status = client.devboxes.disk_snapshots.query_status(taken.id)
    assert (status.status, status.snapshot, status.error_message) == ("complete", taken, None)
    assert client.devboxes.retrieve(full_box).status == "running"


def test_a_snapshot_in_the_background_completes(client: Runloop, full_box: str) -> None:
    begun = client.devboxes.snapshot_disk_async(full_box, name="later")
    done = client.devboxes.disk_snapshots.await_completed(begun.id, polling_config=QUICK)
    assert done.status == "complete"
    assert done.snapshot is not None
    assert (done.snapshot.id, done.snapshot.name) == (begun.id, "later")


def test_devboxes_from_one_snapshot_share_a_beginning_and_nothing_else(
    client: Runloop, full_box: str
) -> None:
    taken = client.devboxes.snapshot_disk(full_box)
    first, second = (create(client, snapshot_id=taken.id) for _ in range(2))
    assert client.devboxes.retrieve(first).snapshot_id == taken.id
    for id in (first, second):
        assert output(client, id, "cat ~/deep/link; stat -c '%a %U' ~/deep") == "base\n750 user\n"
    output(client, first, "echo first > ~/file; touch ~/only-first; rm -r ~/deep")
    output(client, full_box, "touch ~/only-source")
    assert output(client, second, "cat ~/file; ls -d ~/*") == "base\n/home/user/deep\n/home/user/file\n"
    branch = client.devboxes.snapshot_disk(first)
    third = create(client, snapshot_id=branch.id)
    assert output(client, third, "cat ~/file; ls ~") == "first\nfile\nonly-first\n"
    assert output(client, full_box, "cat ~/file") == "base\n"
    for id in (first, second, third):
        client.devboxes.shutdown(id)


def test_a_suspended_devbox_can_be_snapshotted_and_resumed(client: Runloop) -> None:
    id = create(client)
    output(client, id, "echo kept > ~/file")
    client.devboxes.suspend(id)
    client.devboxes.await_suspended(id)
    taken = client.devboxes.snapshot_disk(id)
    client.devboxes.resume(id)
    client.devboxes.await_running(id)
    assert output(client, id, "cat ~/file; echo changed > ~/file") == "kept\n"
    copy = create(client, snapshot_id=taken.id)
    assert output(client, copy, "cat ~/file") == "kept\n"
    for each in (id, copy):
        client.devboxes.shutdown(each)


def test_a_snapshot_outlives_its_devbox_and_carries_no_processes(client: Runloop) -> None:
    id = create(client)
    client.devboxes.execute_async(id, command="echo kept > ~/file; exec sleep 1000")
    assert run(client, id, "until [ -e ~/file ]; do sleep 0.01; done").exit_status == 0
    taken = client.devboxes.snapshot_disk(id)
    client.devboxes.shutdown(id)
    copy = create(client, snapshot_id=taken.id)
    assert output(client, copy, "cat ~/file") == "kept\n"
    assert run(client, copy, "pgrep -f 'sleep [1]000'").exit_status == 1
    client.devboxes.shutdown(copy)


def test_snapshots_are_listed_by_devbox_and_metadata_page_by_page(client: Runloop) -> None:
    id = create(client)
    colours = ["red", "green", "blue"]
    made = [client.devboxes.snapshot_disk(id, metadata={"key": colour}).id for colour in colours]
    listed = client.devboxes.disk_snapshots.list
    assert [each.id for each in listed(devbox_id=id, limit=2)] == made[::-1]
    assert listed(devbox_id=id, limit=2).has_more is True
    assert [each.id for each in listed(devbox_id=id, metadata_key="green")] == [made[1]]
    assert {each.id for each in listed(devbox_id=id, metadata_key_in="red,blue")} == {made[0], made[2]}
    assert {snapshot.id for snapshot in client.devboxes.list_disk_snapshots(devbox_id=id)} == set(made)
    assert list(listed(devbox_id="dbx_other")) == []
    assert list(listed(source_blueprint_id="bpt_other")) == []
    client.devboxes.shutdown(id)
    for each in made:
        client.devboxes.disk_snapshots.delete(each)
    assert list(listed(devbox_id=id)) == []


def test_a_snapshot_can_be_changed_and_deleted(client: Runloop, full_box: str) -> None:
    taken = client.devboxes.snapshot_disk(full_box, name="before", metadata={"a": "1"})
    snapshots = client.devboxes.disk_snapshots
    changed = snapshots.update(taken.id, name="after", metadata={"b": "2"}, commit_message="why")
    assert (changed.name, changed.metadata, changed.commit_message) == ("after", {"b": "2"}, "why")
    assert snapshots.update(taken.id, name="again").metadata == {"b": "2"}
    standing = create(client, snapshot_id=taken.id)
    assert snapshots.delete(taken.id) == {}
    assert snapshots.query_status(taken.id).status == "deleted"
    assert output(client, standing, "cat ~/file") == "base\n"
    with pytest.raises(NotFoundError, match="no snapshot"):
        client.devboxes.create(snapshot_id=taken.id)
    client.devboxes.shutdown(standing)
    assert client.devboxes.delete_disk_snapshot(client.devboxes.snapshot_disk(full_box).id) == {}


def test_snapshot_of_an_ended_or_unknown_devbox_is_refused(client: Runloop) -> None:
    id = create(client)
    client.devboxes.shutdown(id)
    with pytest.raises(APIStatusError, match="has ended"):
        client.devboxes.snapshot_disk(id)
    with pytest.raises(NotFoundError):
        client.devboxes.snapshot_disk("dbx_unknown")
    with pytest.raises(NotFoundError):
        client.devboxes.disk_snapshots.query_status("snp_unknown")
    with pytest.raises(NotFoundError):
        client.devboxes.disk_snapshots.delete("snp_unknown")


def test_a_snapshot_cut_short_is_an_error_and_never_half_a_disk(client: Runloop) -> None:
    id = create(client)
    output(client, id, "head -c 200000000 /dev/zero > ~/big")
    begun = client.devboxes.snapshot_disk_async(id)
    client.devboxes.shutdown(id, force="true")
    of = client.devboxes.disk_snapshots.query_status
    eventually(lambda: of(begun.id).status != "in_progress", "the snapshot to end")
    status = of(begun.id)
    if status.status == "error":
        assert "stopped" in (status.error_message or "")
    else:
        copy = create(client, snapshot_id=begun.id)
        assert output(client, copy, "stat -c %s ~/big") == "200000000\n"
        client.devboxes.shutdown(copy)


def test_the_object_takes_and_restores_snapshots(sdk: RunloopSDK) -> None:
    name = uuid.uuid4().hex
    with sdk.devbox.create() as devbox:
        devbox.file.write(file_path="~/file", contents="kept")
        snapshot = devbox.snapshot_disk(name=name, polling_config=QUICK)
        begun = devbox.snapshot_disk_async(metadata={"a": "b"})
        begun.await_completed(polling_config=QUICK)
    assert snapshot.get_info().status == "complete"
    assert snapshot.update(name=f"{name}-new").name == f"{name}-new"
    assert {snapshot.id, begun.id} <= {each.id for each in sdk.snapshot.list(devbox_id=devbox.id)}
    with snapshot.create_devbox() as copy:
        assert copy.file.read(file_path="~/file") == "kept"
    with sdk.devbox.create_from_snapshot(snapshot.id, name="copy") as copy:
        assert copy.get_info().snapshot_id == snapshot.id
    snapshot.delete()
    assert sdk.snapshot.from_id(snapshot.id).get_info().status == "deleted"


@pytest.mark.parametrize("depth", [50, pytest.param(200, marks=pytest.mark.slow)])
def test_snapshots_of_snapshots_go_as_deep_as_anybody_likes(client: Runloop, depth: int) -> None:
    taken: list[DevboxSnapshotView] = []
    for number in range(1, depth + 1):
        source = {"snapshot_id": taken[-1].id} if taken else {}
        id = create(client, **source)
        output(client, id, f"echo {number} > ~/latest; touch ~/of-{number}; rm -f ~/of-{number - 1}")
        taken.append(client.devboxes.snapshot_disk(id))
        client.devboxes.shutdown(id)
    for number in (1, 19, 20, 21, 41, depth):
        id = create(client, snapshot_id=taken[number - 1].id)
        assert output(client, id, "cat ~/latest; ls -d ~/of-*") == f"{number}\n/home/user/of-{number}\n"
        client.devboxes.shutdown(id)
    sizes = {each.size_bytes for each in taken[1:]}
    assert max(size or 0 for size in sizes) < 64 * 1024, sizes
    for each in taken:
        client.devboxes.disk_snapshots.delete(each.id)


def test_a_snapshot_holds_only_what_its_own_devbox_changed(client: Runloop) -> None:
    first = create(client)
    output(client, first, "head -c 5000000 /dev/urandom > ~/big; ln ~/big ~/link; truncate -s 1G ~/sparse")
    parent = client.devboxes.snapshot_disk(first)
    second = create(client, snapshot_id=parent.id)
    output(client, second, "head -c 100000 /dev/urandom > ~/small")
    child = client.devboxes.snapshot_disk(second)
    assert 5_000_000 <= (parent.size_bytes or 0) < 6_000_000
    assert 100_000 <= (child.size_bytes or 0) < 200_000
    for id in (first, second):
        client.devboxes.shutdown(id)


def test_a_parent_that_is_deleted_goes_when_nothing_needs_it(client: Runloop, server: RunningServer) -> None:
    snapshots, layers = client.devboxes.disk_snapshots, server.data / "images" / "layers"
    source = create(client)
    output(client, source, "echo kept > ~/file")
    before = {path.name for path in layers.iterdir()}
    mark = uuid.uuid4().hex
    parent = client.devboxes.snapshot_disk(source, metadata={"key": mark})
    branch = create(client, snapshot_id=parent.id)
    child = client.devboxes.snapshot_disk(branch, metadata={"key": mark})
    assert [snapshot.id for snapshot in snapshots.list(metadata_key=mark)] == [child.id, parent.id]
    snapshots.delete(parent.id)
    assert snapshots.query_status(parent.id).status == "deleted"
    assert [snapshot.id for snapshot in snapshots.list(metadata_key=mark)] == [child.id]
    with pytest.raises(NotFoundError, match="no snapshot"):
        client.devboxes.create(snapshot_id=parent.id)
    again = create(client, snapshot_id=child.id)
    assert output(client, again, "cat ~/file") == "kept\n"
    for id in (source, branch, again):
        client.devboxes.shutdown(id)
    snapshots.delete(child.id)
    eventually(lambda: {path.name for path in layers.iterdir()} <= before, "the layers to go")


def test_snapshots_are_listed_by_the_blueprint_they_stand_on(
    client: Runloop, server: RunningServer, tmp_path: Path
) -> None:
    (tmp_path / "rootfs" / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", tmp_path / "rootfs" / "bin" / "busybox")
    (tmp_path / "rootfs" / "bin" / "sh").symlink_to("busybox")
    name = f"small-{uuid.uuid4().hex[:8]}"
    with Client(Server(server.url, server.key)) as ours:
        image = ours.images.import_path(str(tmp_path / "rootfs"), name)
    id = create(client, blueprint_name=name)
    taken = client.devboxes.snapshot_disk(id, name="standing")
    assert taken.source_blueprint_id == image.id
    found = client.devboxes.disk_snapshots.list(source_blueprint_id=image.id)
    assert [each.id for each in found] == [taken.id]
    client.devboxes.shutdown(id)
    client.devboxes.disk_snapshots.delete(taken.id)
