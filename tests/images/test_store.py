"""The image store: the default image, snapshots, removal, and what survives a crash."""

import asyncio
import json
import os
import stat
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from benchyard.devboxes.base import Rootfs
from benchyard.devboxes.local_trees import LocalTrees
from benchyard.errors import Conflict, ImageError, NotFound, UsageError
from benchyard.images.merged_view import MergedView
from benchyard.images.store import Image, ImageStore
from tests.images.archives import PASSWD, layer

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def changed(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def opened(store: ImageStore) -> ImageStore:
    run(store.open())
    return store


def reopened(tmp_path: Path, machine: Path) -> ImageStore:
    store = ImageStore(tmp_path / "store", LocalTrees(), root=machine)
    run(store.open())
    return store


def layers_on_disk(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "store/layers").iterdir()}


def test_the_store_is_closed_to_others(opened: ImageStore, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
    (tmp_path / "store").chmod(0o755)
    run(opened.open())
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder away")
def test_a_folder_of_another_user_is_refused(store: ImageStore, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    os.chown(tmp_path / "store", 12345, 12345)
    with pytest.raises(ImageError, match="must be a folder of the user"):
        run(store.open())


def test_the_default_image_is_there_after_opening(opened: ImageStore) -> None:
    image = run(opened.get("host"))
    rootfs = opened.rootfs(image)
    assert image.kind == "host"
    assert rootfs.host_dirs == ("usr", "lib64")
    assert [path.parent.name for path in rootfs.layers] == ["layers"]
    assert (rootfs.layers[0] / "etc/passwd").is_file()
    assert image.size_bytes > 0
    assert image.create_time_ms > 0


def test_opening_again_changes_nothing_until_the_host_changes(
    opened: ImageStore, tmp_path: Path, machine: Path
) -> None:
    before = run(opened.get("host"))
    assert run(reopened(tmp_path, machine).get("host")) == before
    (machine / "etc/resolv.conf").write_text("nameserver 192.0.2.2\n")
    after = run(reopened(tmp_path, machine).get("host"))
    assert after.fingerprint != before.fingerprint
    assert after.layers != before.layers
    assert layers_on_disk(tmp_path) == set(after.layers)


def test_an_older_view_of_the_host_stays_while_a_snapshot_needs_it(
    opened: ImageStore, tmp_path: Path, machine: Path
) -> None:
    host = run(opened.get("host"))
    snapshot = run(opened.add_layer(host, changed(tmp_path / "c", f="x"), "snp_1", move=True))
    (machine / "etc/resolv.conf").write_text("nameserver 192.0.2.2\n")
    store = reopened(tmp_path, machine)
    assert set(snapshot.layers) < layers_on_disk(tmp_path)
    assert len(store.rootfs(run(store.get("snp_1"))).layers) == 2


def test_a_snapshot_of_another_system_is_refused_with_the_way_out(
    opened: ImageStore, tmp_path: Path, machine: Path
) -> None:
    host = run(opened.get("host"))
    run(opened.add_layer(host, changed(tmp_path / "c", f="x"), "snp_1", move=True))
    (machine / "etc/machine-id").write_text("another machine\n")
    store = reopened(tmp_path, machine)
    with pytest.raises(ImageError, match=r"made on another system.*holds its own system"):
        store.rootfs(run(store.get("snp_1")))
    store.rootfs(run(store.get("host")))


@pytest.mark.parametrize("move", [True, False])
def test_a_snapshot_is_a_layer_on_top_of_its_parent(
    opened: ImageStore, tmp_path: Path, *, move: bool
) -> None:
    host = run(opened.get("host"))
    changes = changed(tmp_path / "changes", note="one")
    image = run(opened.add_layer(host, changes, "snp_1", move=move))
    assert changes.exists() is not move
    assert image.layers[1:] == host.layers
    assert (image.kind, image.parent, image.name) == ("snapshot", "host", "snp_1")
    assert image.host_dirs == host.host_dirs
    assert image.fingerprint == host.fingerprint
    assert image.size_bytes >= 4
    assert MergedView(opened.rootfs(image).layers).read("note") == b"one"


def test_a_copied_snapshot_does_not_change_with_its_source(opened: ImageStore, tmp_path: Path) -> None:
    changes = changed(tmp_path / "changes", note="one")
    image = run(opened.add_layer(run(opened.get("host")), changes, "snp_1", move=False))
    (changes / "note").write_text("two")
    assert MergedView(opened.rootfs(image).layers).read("note") == b"one"


def test_snapshots_of_snapshots_stack(opened: ImageStore, tmp_path: Path) -> None:
    image = run(opened.get("host"))
    for number in range(5):
        folder = changed(tmp_path / f"c{number}", **{f"f{number}": "x"})
        image = run(opened.add_layer(image, folder, f"snp_{number}", move=True))
    assert len(image.layers) == 6
    assert MergedView(opened.rootfs(image).layers).read("f0") == b"x"


def test_too_many_layers_are_refused_and_the_changes_stay(opened: ImageStore, tmp_path: Path) -> None:
    host = run(opened.get("host"))
    deep = Image("deep", "deep", host.layers * 400)
    changes = changed(tmp_path / "changes", f="x")
    with pytest.raises(ImageError, match="more than 400 layers"):
        run(opened.add_layer(deep, changes, "snp_1", move=True))
    assert (changes / "f").read_text() == "x"


def test_an_id_is_used_once_and_the_changes_stay(opened: ImageStore, tmp_path: Path) -> None:
    host = run(opened.get("host"))
    run(opened.add_layer(host, changed(tmp_path / "one", f="1"), "snp_1", move=True))
    with pytest.raises(Conflict):
        run(opened.add_layer(host, changed(tmp_path / "two", f="2"), "snp_1", move=True))
    assert (tmp_path / "two/f").read_text() == "2"
    with pytest.raises(UsageError):
        run(opened.add_layer(host, tmp_path / "two", "../evil", move=True))


def test_a_snapshot_that_cannot_be_written_down_gives_the_changes_back(
    opened: ImageStore, tmp_path: Path
) -> None:
    host = run(opened.get("host"))
    changes = changed(tmp_path / "changes", f="x")
    (tmp_path / "store/images").rename(tmp_path / "elsewhere")
    with pytest.raises(ImageError, match="could not be written"):
        run(opened.add_layer(host, changes, "snp_1", move=True))
    assert (changes / "f").read_text() == "x"
    assert layers_on_disk(tmp_path) == set(host.layers)


def test_images_are_found_by_id_and_by_their_newest_name(opened: ImageStore, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"{number}.tar").write_bytes(layer({"etc/passwd": PASSWD, f"etc/{number}": ""}))
    first = run(opened.import_archive(tmp_path / "0.tar", "tools:latest"))
    second = run(opened.import_archive(tmp_path / "1.tar", "tools:latest"))
    assert first.id.startswith("img_")
    assert len(first.id) == 25
    assert run(opened.get(first.id)) == first
    newest = max((first, second), key=lambda image: (image.create_time_ms, image.id))
    assert run(opened.get("tools:latest")) == newest
    assert {image.id for image in run(opened.list())} == {"host", first.id, second.id}
    with pytest.raises(NotFound):
        run(opened.get("unknown"))


def test_images_survive_a_restart(opened: ImageStore, tmp_path: Path, machine: Path) -> None:
    (tmp_path / "a.tar").write_bytes(layer({"etc/passwd": PASSWD}))
    image = run(opened.import_archive(tmp_path / "a.tar", "a"))
    assert run(reopened(tmp_path, machine).get(image.id)) == image


def test_removing_an_image_keeps_what_its_children_need(opened: ImageStore, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(layer({"etc/passwd": PASSWD}))
    parent = run(opened.import_archive(tmp_path / "a.tar", "a"))
    child = run(opened.add_layer(parent, changed(tmp_path / "c", f="x"), "snp_1", move=True))
    run(opened.remove(parent.id))
    assert MergedView(opened.rootfs(child).layers).read("etc/passwd")
    run(opened.remove(child.id))
    assert layers_on_disk(tmp_path) == set(run(opened.get("host")).layers)
    with pytest.raises(NotFound):
        run(opened.remove(child.id))


def test_the_default_image_cannot_be_removed(opened: ImageStore) -> None:
    with pytest.raises(Conflict):
        run(opened.remove("host"))


def test_layers_of_a_running_devbox_stay_until_it_lets_go(
    opened: ImageStore, tmp_path: Path, machine: Path
) -> None:
    host = run(opened.get("host"))
    snapshot = run(opened.add_layer(host, changed(tmp_path / "c", f="x"), "snp_1", move=True))
    opened.hold(snapshot, "dbx_1")
    opened.hold(snapshot, "dbx_1")
    run(opened.remove("snp_1"))
    (machine / "etc/resolv.conf").write_text("changed\n")
    store = reopened(tmp_path, machine)
    assert set(snapshot.layers) < layers_on_disk(tmp_path)
    assert run(store.held("dbx_1")) == snapshot
    run(store.release("dbx_1"))
    run(store.release("dbx_1"))
    assert layers_on_disk(tmp_path) == set(run(store.get("host")).layers)
    assert run(store.held("dbx_1")) is None
    with pytest.raises(NotFound):
        store.hold(snapshot, "dbx_2")


def test_leftovers_of_a_crash_are_cleared_at_opening(
    opened: ImageStore, tmp_path: Path, machine: Path
) -> None:
    changed(tmp_path / "store/partial/half", f="x")
    changed(tmp_path / "store/layers/orphan", f="x")
    (tmp_path / "store/images/.snp_9.partial").write_text("{")
    store = reopened(tmp_path, machine)
    assert layers_on_disk(tmp_path) == set(run(store.get("host")).layers)
    assert list((tmp_path / "store/partial").iterdir()) == []
    assert [path.name for path in (tmp_path / "store/images").iterdir()] == ["host.json"]


def test_unused_layers_are_gone_when_the_store_is_closed(opened: ImageStore, tmp_path: Path) -> None:
    needed = layers_on_disk(tmp_path)
    changed(tmp_path / "store/partial/aside", f="x")
    changed(tmp_path / "store/layers/nameless", f="x")
    run(opened.close())
    assert list((tmp_path / "store/partial").iterdir()) == []
    assert layers_on_disk(tmp_path) == needed


def test_failed_removal_is_logged_and_left_to_the_next_start(
    opened: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(path: Path) -> None:
        raise OSError(5, "it cannot be read", str(path))

    changed(tmp_path / "store/partial/aside", f="x")
    monkeypatch.setattr(opened.trees, "remove", broken)
    run(opened.close())
    assert "the next start tries again" in caplog.text
    assert (tmp_path / "store/partial/aside/f").exists()


def test_a_record_that_cannot_be_read_never_costs_layers(
    opened: ImageStore, tmp_path: Path, machine: Path
) -> None:
    host = run(opened.get("host"))
    snapshot = run(opened.add_layer(host, changed(tmp_path / "c", f="x"), "snp_1", move=True))
    (tmp_path / "store/images/snp_1.json").write_text("{")
    store = reopened(tmp_path, machine)
    assert snapshot.layers[0] in layers_on_disk(tmp_path)
    with pytest.raises(NotFound):
        run(store.get("snp_1"))


def test_a_default_image_whose_layer_is_gone_is_made_again(
    opened: ImageStore, tmp_path: Path, machine: Path
) -> None:
    run(LocalTrees().remove(tmp_path / "store/layers" / run(opened.get("host")).layers[0]))
    store = reopened(tmp_path, machine)
    assert (store.rootfs(run(store.get("host"))).layers[0] / "etc/passwd").is_file()


def test_an_image_without_its_layers_is_not_started(opened: ImageStore) -> None:
    with pytest.raises(ImageError, match="missing"):
        opened.rootfs(Image("x", "x", ("0" * 24,)))


def test_records_from_a_newer_version_are_read(opened: ImageStore, tmp_path: Path, machine: Path) -> None:
    path = tmp_path / "store/images/host.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "unknown": 1}))
    assert run(reopened(tmp_path, machine).get("host")).kind == "host"


def test_snapshots_and_removals_at_once_keep_every_layer_that_is_named(
    opened: ImageStore, tmp_path: Path
) -> None:
    async def work() -> list[Image]:
        host = await opened.get("host")
        made: list[Image] = []
        for round_number in range(4):
            names = [f"snp_{round_number}_{number}" for number in range(5)]
            folders = [changed(tmp_path / name, f=name) for name in names]
            added = await asyncio.gather(
                *(
                    opened.add_layer(host, folder, name, move=number % 2 == 0)
                    for number, (folder, name) in enumerate(zip(folders, names, strict=True))
                ),
                *(opened.remove(image.id) for image in made[-3:]),
            )
            made = made[:-3] + [each for each in added if each is not None]
        return made

    images = run(work())
    assert len(images) == 11
    for image in images:
        assert MergedView(opened.rootfs(image).layers).read("f") == image.id.encode()
    assert len(layers_on_disk(tmp_path)) == 12


class _WatchedSync(LocalTrees):
    """Trees that tell what the store's folder held when it was synced, or that cannot sync."""

    def __init__(self, records: Path) -> None:
        super().__init__()
        self.records = records
        self.seen: list[bool] = []
        self.is_broken = False

    async def sync(self, path: Path) -> None:
        if self.is_broken:
            raise OSError(5, "the disk is gone")
        await super().sync(path)
        self.seen.append((self.records / "snp_1.json").exists())


def test_a_snapshot_is_there_only_after_its_layer_is_on_disk(tmp_path: Path, machine: Path) -> None:
    trees = _WatchedSync(tmp_path / "store/images")
    store = ImageStore(tmp_path / "store", trees, root=machine)
    run(store.open())
    host = run(store.get("host"))
    changes = changed(tmp_path / "c", f="x")
    trees.is_broken = True
    with pytest.raises(OSError, match="the disk is gone"):
        run(store.add_layer(host, changes, "snp_1", move=False))
    with pytest.raises(NotFound):
        run(store.get("snp_1"))
    trees.is_broken, trees.seen = False, []
    run(store.add_layer(host, changes, "snp_1", move=False))
    assert trees.seen == [False]
    assert (tmp_path / "store/images/snp_1.json").exists()


def stacked(store: ImageStore, tmp_path: Path, count: int) -> list[Image]:
    """A chain of snapshots, each of which adds a file, changes one, and removes what the one before added."""
    images = [run(store.get("host"))]

    async def add(number: int) -> Image:
        folder = changed(tmp_path / f"c{number}", latest=str(number), **{f"f{number}": "x" * 5000})
        if number > 1:
            os.mknod(folder / f"f{number - 1}", stat.S_IFCHR, 0)
        async with store.shallow(images[-1]) as parent:
            return await store.add_layer(parent, folder, f"snp_{number}", move=False)

    for number in range(1, count + 1):
        images.append(run(add(number)))
    return images[1:]


def test_a_long_chain_is_merged_and_shows_the_same(opened: ImageStore, tmp_path: Path) -> None:
    images = stacked(opened, tmp_path, 65)
    assert max(len(image.layers) for image in images) == 21
    for number, image in enumerate(images, start=1):
        view = MergedView(opened.rootfs(image).layers)
        assert view.read("latest") == str(number).encode()
        assert view.read(f"f{number}") == b"x" * 5000
        assert view.find(f"f{number - 1}") is None
        assert image.parent == (f"snp_{number - 1}" if number > 1 else "host")


def test_sizes_are_of_what_each_snapshot_added_also_after_merging(opened: ImageStore, tmp_path: Path) -> None:
    images = stacked(opened, tmp_path, 45)
    own = [run(LocalTrees().usage(opened.rootfs(image).layers[0]))[0] for image in images]
    assert [image.size_bytes for image in images] == own
    assert len({image.size_bytes for image in images[1:]}) == 1
    folder = tmp_path / "store/layers"
    seen = {path.lstat().st_ino: path.lstat().st_blocks * 512 for path in folder.rglob("*") if path.is_file()}
    merged = set(images[-1].layers) - {name for image in images[:40] for name in image.layers}
    assert merged, "the last one stands on no merged layer"
    # Merged layers add names, not contents: 45 snapshots have two files each.
    assert len([size for size in seen.values() if size == 8192]) == 45


def test_holes_and_hard_links_count_for_what_they_take(opened: ImageStore, tmp_path: Path) -> None:
    folder = changed(tmp_path / "c", one="x" * 100_000)
    os.link(folder / "one", folder / "two")
    with (folder / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    image = run(opened.add_layer(run(opened.get("host")), folder, "snp_1", move=False))
    assert 100_000 <= image.size_bytes < 130_000


def test_layers_of_a_chain_go_with_the_last_snapshot_that_needs_them(
    opened: ImageStore, tmp_path: Path
) -> None:
    images = stacked(opened, tmp_path, 42)
    for image in images[:-1]:
        run(opened.remove(image.id))
    assert layers_on_disk(tmp_path) == set(images[-1].layers)
    assert MergedView(opened.rootfs(images[-1]).layers).read("latest") == b"42"
    run(opened.remove(images[-1].id))
    assert layers_on_disk(tmp_path) == set(run(opened.get("host")).layers)


class _CannotMerge(LocalTrees):
    """Trees whose merging fails after a part of it."""

    async def merge(self, stack: Rootfs, count: int, target: Path) -> None:
        changed(target, half="x")
        raise OSError(28, "no space left on device")


def test_a_chain_that_cannot_be_merged_goes_on_unmerged_and_leaves_nothing(
    tmp_path: Path, machine: Path
) -> None:
    store = ImageStore(tmp_path / "store", _CannotMerge(), root=machine)
    run(store.open())
    images = stacked(store, tmp_path, 25)
    assert len(images[-1].layers) == 26
    assert list((tmp_path / "store/partial").iterdir()) == []
    assert layers_on_disk(tmp_path) == set(images[-1].layers)


def test_a_merged_layer_without_an_image_is_removed(opened: ImageStore, tmp_path: Path) -> None:
    image = stacked(opened, tmp_path, 20)[-1]
    before = layers_on_disk(tmp_path)

    async def fail() -> None:
        async with opened.shallow(image) as parent:
            assert len(parent.layers) == 2
            assert layers_on_disk(tmp_path) == before | {parent.layers[0]}
            raise RuntimeError("the devbox ended")

    with pytest.raises(RuntimeError):
        run(fail())
    assert layers_on_disk(tmp_path) == before


def test_layers_that_are_shared_stay_until_the_last_one_goes(
    opened: ImageStore, tmp_path: Path, machine: Path
) -> None:
    host = run(opened.get("host"))
    made = run(
        opened.add_layer(host, changed(tmp_path / "c", f="x" * 9000), "one", move=True, kind="scoring")
    )
    kept = run(opened.share("one", "two", "final"))
    assert (kept.layers, kept.kind) == (made.layers, "final")
    assert kept.size_bytes > 9000
    with pytest.raises(Conflict):
        run(opened.share("one", "two", "final"))
    with pytest.raises(NotFound):
        run(opened.share("none", "three", "final"))
    run(opened.remove("one"))
    again = reopened(tmp_path, machine)
    assert MergedView(again.rootfs(run(again.get("two"))).layers).read("f") == b"x" * 9000
    run(again.remove("two"))
    assert layers_on_disk(tmp_path) == set(host.layers)


def test_simultaneous_images_are_synced_together(tmp_path: Path, machine: Path) -> None:
    trees = _WatchedSync(tmp_path / "store/images")
    store = ImageStore(tmp_path / "store", trees, root=machine)
    run(store.open())
    trees.seen = []

    async def share_all() -> None:
        await asyncio.gather(*(store.share("host", f"f{number}", "final") for number in range(20)))

    run(share_all())
    # One may be under way when the others come; those share the next.
    assert len(trees.seen) <= 2
    assert len(run(store.list())) == 21
