"""Images as OCI archives: what is in them, and that an import elsewhere gives the same."""

import asyncio
import dataclasses
import io
import json
import os
import stat
import tarfile
import tempfile
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from benchyard.devboxes.local_trees import LocalTrees
from benchyard.errors import ImageError
from benchyard.images.merged_view import MergedView
from benchyard.images.store import Image, ImageStore
from tests.devboxes.layers.stacks import STACKS, Step, build, overlay, shown
from tests.images.archives import PASSWD, layer

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@pytest.fixture
def opened(store: ImageStore) -> ImageStore:
    run(store.open())
    return store


@pytest.fixture
def elsewhere(tmp_path: Path) -> ImageStore:
    """The store of another machine."""
    machine = tmp_path / "another"
    (machine / "usr").mkdir(parents=True)
    (machine / "etc").mkdir()
    (machine / "etc/machine-id").write_text("another")
    store = ImageStore(tmp_path / "elsewhere", LocalTrees(), root=machine)
    run(store.open())
    return store


async def written(
    store: ImageStore, image: Image, path: Path, notes: Mapping[str, str] | None = None
) -> Path:
    """The archive of an image in a file."""
    async with store.exported(image, notes or {}) as archive:
        with path.open("wb") as file:
            async for piece in archive.chunks():
                file.write(piece)
        assert path.stat().st_size == archive.size
    return path


def documents(path: Path) -> tuple[dict[str, Any], dict[str, Any], list[list[str]]]:
    """The manifest, the configuration and the names in each layer of an archive."""
    with tarfile.open(path) as tar:

        def blob(digest: str) -> bytes:
            file = tar.extractfile(f"blobs/sha256/{digest.removeprefix('sha256:')}")
            assert file is not None
            return file.read()

        index = tar.extractfile("index.json")
        assert index is not None
        manifest = json.loads(blob(json.load(index)["manifests"][0]["digest"]))
        layers = [_names(blob(each["digest"])) for each in manifest["layers"]]
        return manifest, json.loads(blob(manifest["config"]["digest"])), layers


def _names(content: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return tar.getnames()


def imported(store: ImageStore, tmp_path: Path, files: dict[str, str | None]) -> Image:
    (tmp_path / "base.tar").write_bytes(layer({"etc/passwd": PASSWD, **files}))
    return run(store.import_archive(tmp_path / "base.tar", "base"))


def changed(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_a_snapshot_goes_to_another_machine_and_shows_the_same(
    opened: ImageStore, elsewhere: ImageStore, tmp_path: Path
) -> None:
    base = imported(opened, tmp_path, {"etc/gone": "x", "srv/kept": "kept"})
    changes = changed(tmp_path / "changes", note="one")
    (changes / "etc").mkdir()
    os.mknod(changes / "etc/gone", stat.S_IFCHR, 0)
    taken = run(opened.add_layer(base, changes, "snp_1", move=False))
    notes = {"dev.benchyard.name": "first"}
    archive = run(written(opened, taken, tmp_path / "a.oci", notes))
    made, told = run(elsewhere.import_snapshot(archive, "snp_2"))
    assert (made.kind, made.host_dirs, made.fingerprint, told["dev.benchyard.name"]) == (
        "snapshot",
        (),
        None,
        "first",
    )
    view = MergedView(elsewhere.rootfs(made).layers)
    assert (view.read("note"), view.read("srv/kept"), view.find("etc/gone")) == (b"one", b"kept", None)
    assert made.size_bytes >= taken.size_bytes


def test_the_host_view_is_exported_with_its_system_and_nothing_else(
    opened: ImageStore, elsewhere: ImageStore, machine: Path, tmp_path: Path
) -> None:
    (machine / "root").mkdir()
    (machine / "root/secret").write_text("secret")
    (machine / "etc/shadow").write_text("secret")
    taken = run(opened.add_layer(run(opened.get("host")), changed(tmp_path / "c", f="x"), "snp_1", move=True))
    archive = run(written(opened, taken, tmp_path / "a.oci"))
    _, _, layers = documents(archive)
    assert layers[0] == ["lib64", "usr", "usr/bin", "usr/bin/bash", "usr/bin/sudo"]
    assert b"secret" not in archive.read_bytes()
    made, _ = run(elsewhere.import_snapshot(archive, "snp_2"))
    view = MergedView(elsewhere.rootfs(made).layers)
    assert (view.read("usr/bin/bash"), view.read("bin/bash"), view.read("f")) == (b"#!", b"#!", b"x")


def test_how_to_run_it_travels_along(opened: ImageStore, elsewhere: ImageStore, tmp_path: Path) -> None:
    image = dataclasses.replace(
        imported(opened, tmp_path, {}),
        env={"PATH": "/bin", "EMPTY": "", "TEXT": "a=b c"},
        user="daemon",
        working_directory="/srv",
        entrypoint=("/bin/run", "--all"),
        command=("--all",),
    )
    archive = run(written(opened, image, tmp_path / "a.oci"))
    _, config, _ = documents(archive)
    assert config["config"]["Env"] == ["PATH=/bin", "EMPTY=", "TEXT=a=b c"]
    assert (config["config"]["Entrypoint"], config["config"]["Cmd"]) == (["/bin/run"], ["--all"])
    made = run(elsewhere.import_archive(archive, "back"))
    for name in ("env", "user", "working_directory", "entrypoint", "command"):
        assert getattr(made, name) == getattr(image, name), name


def test_layers_that_are_there_already_are_shared(
    opened: ImageStore, elsewhere: ImageStore, tmp_path: Path
) -> None:
    base = imported(opened, tmp_path, {"srv/big": "x" * 10_000})
    first = run(opened.add_layer(base, changed(tmp_path / "1", f="1"), "snp_1", move=True))
    second = run(opened.add_layer(first, changed(tmp_path / "2", f="2"), "snp_2", move=True))
    made = [
        run(elsewhere.import_snapshot(run(written(opened, image, tmp_path / f"{image.id}.oci")), image.id))[0]
        for image in (first, second)
    ]
    assert set(made[0].layers) < set(made[1].layers)
    folder = tmp_path / "elsewhere/layers"
    host = run(elsewhere.get("host"))
    assert {path.name for path in folder.iterdir()} == {*made[1].layers, *host.layers}


def test_the_same_image_gives_the_same_archive(opened: ImageStore, tmp_path: Path) -> None:
    image = imported(opened, tmp_path, {})
    one, two = (run(written(opened, image, tmp_path / name)) for name in ("1.oci", "2.oci"))
    assert one.read_bytes() == two.read_bytes()


def test_nothing_is_left_of_an_export_however_it_ends(opened: ImageStore, tmp_path: Path) -> None:
    image = imported(opened, tmp_path, {})

    async def cut() -> None:
        async with opened.exported(image, {}) as archive:
            async for _ in archive.chunks():
                raise RuntimeError("the client went away")

    with pytest.raises(RuntimeError):
        run(cut())
    assert list((tmp_path / "store/partial").iterdir()) == []


def test_layers_stay_while_they_are_exported(opened: ImageStore, tmp_path: Path) -> None:
    image = imported(opened, tmp_path, {"srv/file": "text"})

    async def work() -> bytes:
        async with opened.exported(image, {}) as archive:
            await opened.remove(image.id)
            return b"".join([piece async for piece in archive.chunks()])

    assert b"text" in run(work())


def test_a_snapshot_of_another_system_cannot_be_exported(
    opened: ImageStore, machine: Path, tmp_path: Path
) -> None:
    host = run(opened.get("host"))
    run(opened.add_layer(host, changed(tmp_path / "c", f="x"), "snp_1", move=True))
    (machine / "etc/machine-id").write_text("another machine\n")
    store = ImageStore(tmp_path / "store", LocalTrees(), root=machine)
    run(store.open())
    with pytest.raises(ImageError, match="made on another system"):
        run(written(store, run(store.get("snp_1")), tmp_path / "a.oci"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount an overlay here")
@settings(
    max_examples=20,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(STACKS)
def test_there_and_back_is_the_same_tree(machine: Path, stack: list[list[Step]]) -> None:
    async def journey(folder: Path, layers: list[Path]) -> list[Path]:
        stores = [ImageStore(folder / name, LocalTrees(), root=machine) for name in ("one", "two")]
        for store in stores:
            await store.open()
        (layers[-1] / "etc").mkdir()
        image = await stores[0].import_archive(layers[-1], "base")
        for number, each in enumerate(reversed(layers[:-1])):
            image = await stores[0].add_layer(image, each, f"snp_{number}", move=False)
        archive = await written(stores[0], image, folder / "archive")
        made, _ = await stores[1].import_snapshot(archive, "snp_back")
        return [*stores[0].rootfs(image).layers, folder / "|", *stores[1].rootfs(made).layers]

    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        found = run(journey(folder, build(folder, stack)))
        border = found.index(folder / "|")
        with overlay(folder / "before", found[:border]) as root:
            before = shown(root)
        with overlay(folder / "after", found[border + 1 :]) as root:
            assert shown(root) == before
