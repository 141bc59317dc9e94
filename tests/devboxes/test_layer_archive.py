"""A layer's tar holds the layer: written and unpacked again it is the same."""

import os
import stat
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchyard.devboxes.container.images import write_image_archive
from benchyard.devboxes.layers.pack import pack_into
from benchyard.devboxes.layers.trees import OPAQUE
from benchyard.devboxes.layers.unpack import unpack_layer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="whiteouts and owners need root")

NAMES = st.text(
    st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=20
)
KINDS = st.sampled_from(["file", "folder", "opaque", "link", "fifo", "whiteout", "hard link"])
ENTRIES = st.dictionaries(
    NAMES.filter(lambda name: name not in (".", "..") and not name.startswith(".wh.")),
    st.tuples(KINDS, st.integers(0, 0o7777), st.binary(max_size=2000)),
    max_size=8,
)


def make(folder: Path, entries: dict[str, tuple[str, int, bytes]]) -> None:
    for name, (kind, mode, content) in entries.items():
        path = folder / name
        if kind in ("folder", "opaque"):
            path.mkdir()
            if kind == "opaque":
                os.setxattr(path, OPAQUE, b"y")
            (path / "inside").write_bytes(content)
            path.chmod(mode)
        elif kind == "link":
            path.symlink_to(content.hex() or "x")
        elif kind == "fifo":
            os.mkfifo(path, 0o600)
        elif kind == "whiteout":
            os.mknod(path, stat.S_IFCHR)
        elif kind == "hard link" and (folder / "first").is_file():
            path.hardlink_to(folder / "first")
        else:
            path.write_bytes(content)
            os.chown(path, mode, mode + 1)
            path.chmod(mode)


def facts(folder: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        content: object = None
        if stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        elif stat.S_ISLNK(status.st_mode):
            content = path.readlink()
        marks = sorted(os.listxattr(path, follow_symlinks=False))
        found[str(path.relative_to(folder))] = (
            *(status.st_mode, status.st_uid, status.st_gid, status.st_rdev, status.st_nlink),
            *(content, marks),
        )
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries=ENTRIES)
def test_a_layer_survives_the_way_there_and_back(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[str, tuple[str, int, bytes]]
) -> None:
    folder = tmp_path_factory.mktemp("layer")
    before, after = folder / "before", folder / "after"
    before.mkdir()
    after.mkdir()
    (before / "first").write_bytes(b"linked")
    entries.pop("first", None)
    make(before, entries)
    with (folder / "tar").open("wb") as file:
        pack_into(file.fileno(), str(before), plain=True)
    unpack_layer(str(folder / "tar"), str(after))
    assert facts(after) == facts(before)


def test_names_that_are_not_text_and_deep_folders_survive(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in (before, after):
        folder.mkdir()
    deep = before
    for _ in range(30):
        deep /= "d" * 100
    deep.mkdir(parents=True)
    (deep / os.fsdecode(b"\xff\xfe")).write_bytes(b"x")
    os.setxattr(deep, "user.mark", b"\xff\x00value")
    with (tmp_path / "tar").open("wb") as file:
        pack_into(file.fileno(), str(before), plain=True)
    unpack_layer(str(tmp_path / "tar"), str(after))
    assert facts(after) == facts(before)
    assert os.getxattr(after / deep.relative_to(before), "user.mark") == b"\xff\x00value"


def test_an_image_lists_its_layers_bottom_first(tmp_path: Path) -> None:
    for name in ("top", "bottom"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
    write_image_archive(
        tmp_path / "tar", [tmp_path / "top", tmp_path / "bottom"], "localhost/x:y", {"a": "b"}
    )
    with tarfile.open(tmp_path / "tar") as tar:
        names = tar.getnames()
        layer = tar.extractfile("0.tar")
        assert layer is not None
        with tarfile.open(fileobj=layer) as inner:
            assert inner.getnames() == [".", "bottom"]
    assert names[:2] == ["0.tar", "1.tar"]
    assert names[-1] == "manifest.json"
