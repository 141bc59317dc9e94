"""Layers packed as tars: what is unpacked again is the same layer."""

import os
import stat
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings

from benchyard.devboxes.layers import pack
from benchyard.devboxes.layers.pack import pack_layer
from benchyard.devboxes.layers.unpack import unpack_layer
from tests.devboxes.layers.stacks import STACKS, Step, build, overlay, shown

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount an overlay here")


def there_and_back(layer: Path) -> Path:
    """The layer after a journey."""
    archive, back = layer.with_name(f"{layer.name}.tar"), layer.with_name(f"{layer.name}.back")
    pack_layer(str(layer), str(archive))
    back.mkdir()
    unpack_layer(str(archive), str(back))
    return back


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    folder = tmp_path / "layer"
    folder.mkdir()
    return folder


@as_root
@settings(max_examples=40, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(STACKS)
def test_layers_that_were_packed_and_unpacked_show_the_same(stack: list[list[Step]]) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        layers = build(folder, stack)
        with overlay(folder / "before", layers) as root:
            before = shown(root)
        with overlay(folder / "after", [there_and_back(layer) for layer in layers]) as root:
            assert shown(root) == before


def test_the_same_layer_gives_the_same_bytes_with_their_digest(layer: Path, tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (layer / name).mkdir()
        (layer / name / "file").write_text(name)
    first = pack_layer(str(layer), str(tmp_path / "1.tar"))
    assert first == pack_layer(str(layer), str(tmp_path / "2.tar"))
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "2.tar").read_bytes()
    told = subprocess.run(["sha256sum", tmp_path / "1.tar"], check=True, capture_output=True, text=True)
    assert (told.stdout.split()[0], (tmp_path / "1.tar").stat().st_size) == first


def test_marks_become_those_of_oci_and_names_that_look_like_them_stay_behind(
    layer: Path, tmp_path: Path
) -> None:
    (layer / "opaque").mkdir()
    os.setxattr(layer / "opaque", "user.overlay.opaque", b"y")
    os.setxattr(layer / "opaque", "user.overlay.impure", b"y")
    os.mknod(layer / "gone", stat.S_IFCHR, 0)
    (layer / ".wh.passwd").touch()
    (layer / ".wh.folder").mkdir()
    pack_layer(str(layer), str(tmp_path / "layer.tar"))
    with tarfile.open(tmp_path / "layer.tar") as tar:
        found = {member.name: member for member in tar}
    assert set(found) == {"opaque", "opaque/.wh..wh..opq", ".wh.gone"}
    assert found[".wh.gone"].isreg()
    assert found["opaque"].pax_headers.keys() <= {"mtime"}


def test_holes_are_not_packed_and_come_back_as_holes(layer: Path, tmp_path: Path) -> None:
    for name, size in (("d/sparse", 1 << 30), ("empty", 1 << 40)):
        (layer / name).parent.mkdir(exist_ok=True)
        with (layer / name).open("wb") as file:
            file.truncate(size)
            if name == "d/sparse":
                file.seek(500 << 20)
                file.write(b"middle")
    assert pack_layer(str(layer), str(tmp_path / "first.tar"))[1] < 1 << 20
    listed = subprocess.run(
        ["tar", "tvf", tmp_path / "first.tar"], check=True, capture_output=True, text=True
    ).stdout
    assert "1073741824" in listed
    (layer / "empty").unlink()
    back = there_and_back(layer)
    assert (back / "d/sparse").stat().st_size == 1 << 30
    assert (back / "d/sparse").stat().st_blocks * 512 < 1 << 20
    with (back / "d/sparse").open("rb") as file:
        file.seek(500 << 20)
        assert file.read(7) == b"middle\0"


def test_attributes_times_and_names_that_are_not_text_survive(layer: Path) -> None:
    name = os.fsencode(layer) + b"/\xff\xfe name"
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
    (layer / "dated").touch()
    os.setxattr(layer / "dated", "user.bytes", b"\0\xff\n=")
    os.utime(layer / "dated", ns=(0, -1_500_000_001))
    (layer / ("long " * 50)).write_text("long")
    back = there_and_back(layer)
    assert os.path.exists(os.fsencode(back) + b"/\xff\xfe name")  # noqa: PTH110
    assert os.getxattr(back / "dated", "user.bytes") == b"\0\xff\n="
    assert (back / "dated").stat().st_mtime_ns == -1_500_000_001
    assert (back / ("long " * 50)).read_text() == "long"


def test_of_a_system_only_the_named_directories_are_packed(layer: Path, tmp_path: Path) -> None:
    for name in ("usr/bin", "home/secret", "usr/lib"):
        (layer / name).mkdir(parents=True)
    (layer / "usr/bin/tool").write_text("x")
    if os.geteuid() == 0:
        os.chown(layer / "usr/bin/tool", 65534, 65534)
    pack_layer(str(layer), str(tmp_path / "layer.tar"), ("usr", "lib64"))
    with tarfile.open(tmp_path / "layer.tar") as tar:
        assert [member.name for member in tar] == ["usr", "usr/bin", "usr/bin/tool", "usr/lib"]
        assert tar.getmember("usr/bin/tool").uid in (0, os.geteuid())


def test_a_layer_that_no_import_would_take_is_refused(
    layer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (layer / "big").write_bytes(b"x" * 10_000)
    monkeypatch.setattr(pack, "MOST_BYTES", 5000)
    with pytest.raises(ValueError, match="more than 5000 bytes"):
        pack_layer(str(layer), str(tmp_path / "layer.tar"))


def test_an_archive_is_never_written_over_something(layer: Path, tmp_path: Path) -> None:
    (tmp_path / "layer.tar").write_text("mine")
    with pytest.raises(FileExistsError):
        pack_layer(str(layer), str(tmp_path / "layer.tar"))
    assert (tmp_path / "layer.tar").read_text() == "mine"
