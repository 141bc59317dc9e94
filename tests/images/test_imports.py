"""Importing folders, tarballs, OCI layouts and docker archives."""

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from benchyard.devboxes.local_trees import LocalTrees
from benchyard.errors import BenchyardError, Conflict, ImageError, UsageError
from benchyard.images.merged_view import MergedView
from benchyard.images.store import Image, ImageStore
from tests.images.archives import (
    ARCHITECTURE,
    PASSWD,
    docker_folder,
    layer,
    oci_folder,
    put_blob,
    put_manifest,
    tar_of,
)

BASE = layer({"bin/sh": "base", "etc/passwd": PASSWD, "etc/old": "old", "data/a": "a", "data/b": "b"})
MIDDLE = layer({"etc/.wh.old": "", "data/.wh..wh..opq": "", "data/c": "c", "etc/motd": "middle"})
TOP = layer({"etc/motd": "top"})


def import_now(store: ImageStore, source: Path, name: str = "imported") -> Image:
    async def run() -> Image:
        await store.open()
        return await store.import_archive(source, name)

    return asyncio.run(run())


def view(store: ImageStore, image: Image) -> MergedView:
    return MergedView(store.rootfs(image).layers)


def check_three_layers(store: ImageStore, image: Image) -> None:
    assert len(image.layers) == 4
    seen = view(store, image)
    assert seen.read("etc/motd") == b"top"
    assert seen.read("bin/sh") == b"base"
    assert seen.find("etc/old") is None
    assert seen.find("data/a") is None
    assert seen.read("data/c") == b"c"
    assert image.env == {"PATH": "/bin", "EMPTY": "", "LANG": "C"}
    assert image.user == "daemon"
    assert image.working_directory == "/srv"
    assert image.entrypoint == ("/bin/run", "--all")
    assert image.fingerprint is None
    assert image.size_bytes > 0


def test_a_docker_archive_becomes_layers_in_order(store: ImageStore, tmp_path: Path) -> None:
    archive = tar_of(docker_folder(tmp_path / "d", [BASE, MIDDLE, TOP]), tmp_path / "image.tar")
    check_three_layers(store, import_now(store, archive))


def test_an_oci_layout_becomes_layers_in_order(store: ImageStore, tmp_path: Path) -> None:
    folder = tmp_path / "oci"
    check_three_layers(
        store, import_now(store, oci_folder(folder, put_manifest(folder, [BASE, MIDDLE, TOP])))
    )


def test_an_oci_tar_becomes_layers_in_order(store: ImageStore, tmp_path: Path) -> None:
    folder = tmp_path / "oci"
    oci_folder(folder, put_manifest(folder, [BASE, MIDDLE, TOP]))
    check_three_layers(store, import_now(store, tar_of(folder, tmp_path / "oci.tar")))


def test_a_docker_archive_may_link_to_a_layer_it_has_already(store: ImageStore, tmp_path: Path) -> None:
    archive = tar_of(docker_folder(tmp_path / "d", [BASE, TOP, TOP]), tmp_path / "image.tar")
    image = import_now(store, archive)
    assert view(store, image).read("etc/motd") == b"top"


def test_of_several_platforms_this_machines_is_taken(store: ImageStore, tmp_path: Path) -> None:
    folder = tmp_path / "oci"
    other = {**put_manifest(folder, [TOP]), "platform": {"os": "linux", "architecture": "other"}}
    ours = {**put_manifest(folder, [BASE]), "platform": {"os": "linux", "architecture": ARCHITECTURE}}
    inner = {
        "mediaType": "application/vnd.oci.image.index.v1+json",
        **put_blob(folder, json.dumps({"manifests": [other, ours]}).encode()),
    }
    image = import_now(store, oci_folder(folder, inner))
    assert view(store, image).read("bin/sh") == b"base"


def test_layers_that_images_share_are_stored_once(store: ImageStore, tmp_path: Path) -> None:
    async def run() -> tuple[Image, Image]:
        await store.open()
        one = await store.import_archive(docker_folder(tmp_path / "one", [BASE, MIDDLE]), "one")
        two = await store.import_archive(docker_folder(tmp_path / "two", [BASE, TOP]), "two")
        return one, two

    one, two = asyncio.run(run())
    assert one.layers[-1] == two.layers[-1]
    assert one.layers[-2] != two.layers[-2]


def test_a_tarball_and_a_folder_of_a_root_filesystem_are_images(store: ImageStore, tmp_path: Path) -> None:
    (tmp_path / "root.tar").write_bytes(BASE)
    image = import_now(store, tmp_path / "root.tar")
    assert view(store, image).read("data/a") == b"a"
    folder = store.rootfs(image).layers[-1]
    copied = import_now(store, folder, "copy")
    assert view(store, copied).read("data/b") == b"b"
    assert copied.layers[-1] != image.layers[-1]


def test_the_same_tarball_twice_shares_its_layers(store: ImageStore, tmp_path: Path) -> None:
    (tmp_path / "root.tar").write_bytes(BASE)
    one = import_now(store, tmp_path / "root.tar", "one")
    two = import_now(store, tmp_path / "root.tar", "two")
    assert one.layers == two.layers
    assert one.id != two.id


def test_every_image_gets_a_user_and_mount_points(store: ImageStore, tmp_path: Path) -> None:
    (tmp_path / "root.tar").write_bytes(BASE)
    seen = view(store, import_now(store, tmp_path / "root.tar"))
    assert seen.read("etc/passwd") == PASSWD.encode() + b"user:x:1000:1000:user:/home/user:/bin/sh\n"
    for name in ("proc", "sys", "dev", "tmp", "run", "home/user"):
        entry = seen.find(name)
        assert entry is not None
        assert entry.is_directory
    tmp = seen.find("tmp")
    assert tmp is not None
    assert tmp.mode == 0o1777
    assert seen.read("etc/resolv.conf") == b"nameserver 192.0.2.1\n"


def test_a_user_whose_id_is_taken_gets_the_next(store: ImageStore, tmp_path: Path) -> None:
    files: dict[str, str | None] = {
        "bin/bash": "",
        "etc/passwd": PASSWD + "node:x:1000:1000::/home/node:/bin/bash",
        "etc/group": "root:x:0:\nsudo:x:27:node\nwheel:x:1001:\nshadow:x:42:\n",
        "etc/shadow": "root:*::::::\n",
        "etc/sudoers.d": None,
    }
    (tmp_path / "root.tar").write_bytes(layer(files))
    seen = view(store, import_now(store, tmp_path / "root.tar"))
    passwd = (seen.read("etc/passwd") or b"").decode().splitlines()
    assert passwd[-2:] == [
        "node:x:1000:1000::/home/node:/bin/bash",
        "user:x:1002:1002:user:/home/user:/bin/bash",
    ]
    assert b"sudo:x:27:node,user\n" in (seen.read("etc/group") or b"")
    assert b"user:*:" in (seen.read("etc/shadow") or b"")
    rule = seen.find("etc/sudoers.d/benchyard")
    assert rule is not None
    assert stat.S_IMODE(rule.status.st_mode) == 0o440


def test_an_image_that_has_a_user_keeps_it(store: ImageStore, tmp_path: Path) -> None:
    passwd = PASSWD + "user:x:777:777::/there:/bin/sh\n"
    (tmp_path / "root.tar").write_bytes(layer({"etc/passwd": passwd}))
    seen = view(store, import_now(store, tmp_path / "root.tar"))
    assert seen.read("etc/passwd") == passwd.encode()


def test_links_in_an_image_are_never_followed_on_this_machine(store: ImageStore, tmp_path: Path) -> None:
    files: dict[str, str | None] = {
        "usr/bin/true": "",
        "etc/passwd": f"-> {tmp_path}/secret",
        "etc/resolv.conf": f"-> ../../../../../../../..{tmp_path}/secret",
        "home": f"-> {tmp_path}",
    }
    (tmp_path / "secret").write_text("secret:x:0:0::/:/bin/sh\n")
    (tmp_path / "root.tar").write_bytes(layer(files))
    seen = view(store, import_now(store, tmp_path / "root.tar"))
    assert b"secret" not in (seen.read("etc/passwd") or b"")
    assert (tmp_path / "secret").read_text() == "secret:x:0:0::/:/bin/sh\n"
    assert not (tmp_path / "user").exists()


def damage(folder: Path, name: str) -> None:
    with (folder / name).open("ab") as file:
        file.write(b"x")


def broken_oci_layer(folder: Path) -> None:
    manifest = put_manifest(folder, [BASE])
    oci_folder(folder, manifest)
    content = json.loads((folder / "blobs/sha256" / manifest["digest"].removeprefix("sha256:")).read_bytes())
    damage(folder, "blobs/sha256/" + content["layers"][0]["digest"].removeprefix("sha256:"))


def broken_docker_layer(folder: Path) -> None:
    docker_folder(folder, [BASE])
    damage(folder, f"{0:064x}/layer.tar")


def docker_layer_outside(folder: Path) -> None:
    docker_folder(folder, [BASE])
    (folder.parent / "outside.tar").write_bytes(BASE)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest[0]["Layers"] = ["../outside.tar"]
    (folder / "manifest.json").write_text(json.dumps(manifest))


def docker_layer_link_outside(folder: Path) -> None:
    docker_folder(folder, [BASE])
    (folder.parent / "outside.tar").write_bytes(BASE)
    (folder / f"{0:064x}/layer.tar").unlink()
    (folder / f"{0:064x}/layer.tar").symlink_to("../../outside.tar")


def docker_two_images(folder: Path) -> None:
    docker_folder(folder, [BASE])
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest * 2))


def docker_no_layers(folder: Path) -> None:
    docker_folder(folder, [])


def docker_other_machine(folder: Path) -> None:
    docker_folder(folder, [BASE], architecture="pdp11")


def docker_fewer_layers(folder: Path) -> None:
    docker_folder(folder, [BASE], rootfs={"diff_ids": []})


def oci_other_machine(folder: Path) -> None:
    oci_folder(folder, {**put_manifest(folder, [BASE]), "platform": {"os": "linux", "architecture": "pdp11"}})


def oci_other_digest(folder: Path) -> None:
    oci_folder(folder, {**put_manifest(folder, [BASE]), "digest": "md5:../../etc"})


def text_instead(content: str) -> Any:
    def write(folder: Path) -> None:
        folder.mkdir()
        (folder / "oci-layout").write_text("{}")
        (folder / "index.json").write_text(content)

    return write


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (Path.mkdir, "expected a root filesystem"),
        (broken_oci_layer, "not what its digest says"),
        (broken_docker_layer, "not what its digest says"),
        (docker_layer_outside, "lacks"),
        (docker_layer_link_outside, "lacks"),
        (docker_two_images, "holds 2 images"),
        (docker_no_layers, "no layers"),
        (docker_other_machine, "made for pdp11"),
        (docker_fewer_layers, "configuration names 0"),
        (oci_other_machine, "no image for linux"),
        (oci_other_digest, "only sha256"),
        (text_instead("{"), "not JSON"),
        (text_instead("[]"), "expected form"),
        (text_instead('{"manifests": [null]}'), "expected form"),
        (text_instead('{"manifests": []}'), "no image for linux"),
        (text_instead("[" * 100_000), "(?i)not JSON|expected form"),
    ],
)
def test_broken_archives_say_what_is_wrong_and_leave_nothing(
    store: ImageStore, tmp_path: Path, prepare: Any, message: str
) -> None:
    source = tmp_path / "source"
    prepare(source)
    with pytest.raises(ImageError, match=message):
        import_now(store, source)
    assert [path.name for path in (tmp_path / "store/partial").iterdir()] == []
    assert len(list((tmp_path / "store/layers").iterdir())) == 1
    assert [image.name for image in asyncio.run(store.list())] == ["host"]


@pytest.mark.parametrize("content", [b"", b"no tar at all", layer({}), layer({"README": "x"}), BASE[:1000]])
def test_files_that_are_not_images_are_refused(store: ImageStore, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(
        ImageError, match=r"expected a root filesystem|not a readable tar|ends inside|cut short"
    ):
        import_now(store, tmp_path / "file")
    assert len(list((tmp_path / "store/layers").iterdir())) == 1


def test_a_source_that_is_not_there_is_named(store: ImageStore, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"nothing-here is neither a file nor a folder"):
        import_now(store, tmp_path / "nothing-here")


def test_a_folder_that_holds_the_store_is_refused(store: ImageStore, tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    with pytest.raises(ImageError, match="holds the image store itself"):
        import_now(store, tmp_path)


@pytest.mark.parametrize("name", ["", "-x", "a b", "../x", "x" * 129, "a\n", "é"])
def test_names_that_cannot_be_typed_are_refused(store: ImageStore, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be an image's name"):
        import_now(store, tmp_path, name)


def test_the_name_of_the_default_image_is_taken(store: ImageStore, tmp_path: Path) -> None:
    with pytest.raises(Conflict):
        import_now(store, tmp_path, "host")


class StuckTrees(LocalTrees):
    """Trees whose unpacking, once told to, stops half-way and waits."""

    def __init__(self) -> None:
        super().__init__()
        self.reached: asyncio.Event | None = None

    async def unpack(self, archive: Path, target: Path) -> None:
        await super().unpack(archive, target)
        if self.reached is not None:
            self.reached.set()
            await asyncio.Event().wait()


def test_a_cancelled_import_leaves_nothing(tmp_path: Path, machine: Path) -> None:
    (tmp_path / "root.tar").write_bytes(BASE)
    trees = StuckTrees()
    store = ImageStore(tmp_path / "store", trees, root=machine)

    async def run() -> None:
        await store.open()
        trees.reached = asyncio.Event()
        task = asyncio.create_task(store.import_archive(tmp_path / "root.tar", "x"))
        await trees.reached.wait()
        assert any((tmp_path / "store/partial").iterdir())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert list((tmp_path / "store/partial").iterdir()) == []
    assert len(list((tmp_path / "store/layers").iterdir())) == 1


def test_imports_at_once_do_not_disturb_each_other(store: ImageStore, tmp_path: Path) -> None:
    sources = [docker_folder(tmp_path / f"d{number}", [BASE, MIDDLE]) for number in range(6)]
    (tmp_path / "bad").write_bytes(b"bad")

    async def run() -> list[Image | BaseException]:
        await store.open()
        imports = [store.import_archive(source, source.name) for source in sources]
        return await asyncio.gather(
            *imports, store.import_archive(tmp_path / "bad", "bad"), return_exceptions=True
        )

    results = asyncio.run(run())
    images = [result for result in results if isinstance(result, Image)]
    assert len(images) == 6
    assert len({image.layers for image in images}) == 1
    assert [type(result) for result in results if isinstance(result, BenchyardError)] == [ImageError]
    assert view(store, images[0]).read("data/c") == b"c"
