"""Several layers merged into one: over the same base it shows what they showed."""

import errno
import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings

from benchyard.devboxes.layers import merge
from benchyard.devboxes.layers.merge import merge_layers
from benchyard.devboxes.layers.trees import tree_usage
from tests.devboxes.layers.stacks import STACKS, Step, build, overlay, shown

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount an overlay here")
# To shrink a failure would mount overlays for many minutes.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


def merged(folder: Path, layers: Sequence[Path], count: int | None = None) -> Path:
    """The topmost layers as one, all but the last unless told."""
    count = len(layers) - 1 if count is None else count
    names = [str(layer) for layer in layers]
    merge_layers(names[:count], names[count:], (), str(folder / "merged"))
    return folder / "merged"


@as_root
@settings(max_examples=80, deadline=None, phases=PHASES)
@given(STACKS)
@example([[("write", "a", "a")], [("tree", "new", "a")], [("remove", "new/a", "a")]])
def test_a_merged_layer_shows_what_the_layers_showed(stack: list[list[Step]]) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        layers = build(folder, stack)
        with overlay(folder / "before", layers) as root:
            before = shown(root)
        one = merged(folder, layers)
        with overlay(folder / "after", [one, layers[-1]]) as root:
            assert shown(root) == before


@as_root
@settings(max_examples=25, deadline=None, phases=PHASES)
@given(STACKS)
def test_merging_again_changes_nothing(stack: list[list[Step]]) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        layers = build(folder, stack)
        with overlay(folder / "before", layers) as root:
            before = shown(root)
        half = folder / "half"
        names = [str(layer) for layer in layers]
        lower = names[1:-1] or names[:1]
        merge_layers(lower, names[-1:], (), str(half))
        upper = names[:1] if names[1:-1] else []
        merge_layers([*upper, str(half)], names[-1:], (), str(folder / "whole"))
        with overlay(folder / "after", [folder / "whole", layers[-1]]) as root:
            assert shown(root) == before


def test_files_are_shared_and_older_layers_stay_as_they_were(tmp_path: Path) -> None:
    top, bottom, base = (tmp_path / name for name in ("top", "bottom", "base"))
    for folder in (top, bottom, base):
        (folder / "d").mkdir(parents=True)
    (bottom / "d" / "big").write_bytes(b"x" * 1_000_000)
    (bottom / "d" / "old").write_text("old")
    (top / "d" / "old").write_text("new")
    (top / "d").chmod(0o700)
    one = merged(tmp_path, [top, bottom, base])
    assert (one / "d/big").stat().st_ino == (bottom / "d/big").stat().st_ino
    assert ((one / "d/old").read_text(), (bottom / "d/old").read_text()) == ("new", "old")
    assert (stat.S_IMODE((one / "d").stat().st_mode), stat.S_IMODE((bottom / "d").stat().st_mode)) == (
        0o700,
        0o755,
    )


def test_a_mark_that_hides_nothing_is_dropped_since_it_would_be_listed(tmp_path: Path) -> None:
    top, bottom, base = (tmp_path / name for name in ("top", "bottom", "base"))
    for folder in (top, bottom):
        (folder / "new").mkdir(parents=True)
        (folder / "there").mkdir()
    (bottom / "new" / "gone").touch()
    (base / "there").mkdir(parents=True)
    for place in ("new/gone", "there/gone", "gone"):
        os.mknod(top / place, stat.S_IFCHR, 0)
    one = merged(tmp_path, [top, bottom, base])
    left = {str(path.relative_to(one)) for path in one.rglob("gone")}
    assert left == {"there/gone", "gone"}


def test_files_that_the_base_hides_count_as_absent(tmp_path: Path) -> None:
    top, bottom, base, lowest = (tmp_path / name for name in ("top", "bottom", "base", "lowest"))
    (lowest / "d").mkdir(parents=True)
    (lowest / "d" / "gone").touch()
    base.mkdir()
    os.mknod(base / "d", stat.S_IFCHR, 0)
    for folder in (top, bottom):
        (folder / "d").mkdir(parents=True)
    (bottom / "d" / "gone").touch()
    os.mknod(top / "d" / "gone", stat.S_IFCHR, 0)
    one = merged(tmp_path, [top, bottom, base, lowest], 2)
    assert list((one / "d").iterdir()) == []


def test_directories_of_the_machine_count_as_below(tmp_path: Path) -> None:
    top, bottom, base = (tmp_path / name for name in ("top", "bottom", "base"))
    for folder in (top, bottom):
        (folder / "usr" / "bin").mkdir(parents=True)
        (folder / "usr" / "not-of-this-machine").mkdir()
    base.mkdir()
    for place in ("usr/bin/true", "usr/not-of-this-machine/true"):
        os.mknod(top / place, stat.S_IFCHR, 0)
    merge_layers([str(top), str(bottom)], [str(base)], ("usr", "lib64"), str(tmp_path / "merged"))
    assert [path.parent.name for path in (tmp_path / "merged").rglob("true")] == ["bin"]


def test_too_many_entries_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "layer").mkdir()
    for number in range(11):
        (tmp_path / "layer" / str(number)).touch()
    monkeypatch.setattr(merge, "MOST_ENTRIES", 10)
    with pytest.raises(ValueError, match="more than 10 entries"):
        merge_layers([str(tmp_path / "layer")], [], (), str(tmp_path / "merged"))


def test_where_links_cannot_be_made_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = tmp_path / "layer"
    layer.mkdir()
    (layer / "one").write_text("text")
    (layer / "link").symlink_to("one")
    os.link(layer / "one", layer / "two")
    real = os.link

    def refuse(source: str, target: str, **options: object) -> None:
        if "src_dir_fd" in options:
            raise OSError(errno.EMLINK, "too many links")
        real(source, target, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", refuse)
    merge_layers([str(layer)], [], (), str(tmp_path / "merged"))
    one, two = (tmp_path / "merged" / name for name in ("one", "two"))
    assert one.read_text() == "text"
    assert one.stat().st_ino == two.stat().st_ino != (layer / "one").stat().st_ino
    assert (tmp_path / "merged/link").readlink() == Path("one")


def test_deep_trees_are_merged_with_few_descriptors(tmp_path: Path) -> None:
    for name in ("top", "bottom"):
        fd = os.open(tmp_path, os.O_RDONLY)
        for step in (name, *["deep"] * 700):
            os.mkdir(step, dir_fd=fd)
            below = os.open(step, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
        os.close(fd)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    merge_layers([str(tmp_path / "top"), str(tmp_path / "bottom")], [], (), str(tmp_path / "merged"))
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert tree_usage(str(tmp_path / "merged"))[1] == 702
