"""Copying, removing and measuring trees."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from benchyard.devboxes.layers import trees
from benchyard.devboxes.layers.trees import copy_tree, remove_tree, sync_tree, tree_usage

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")


def is_whiteout(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def nest(folder: Path, depth: int) -> None:
    """Directories deeper than any path can name."""
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("deep", dir_fd=fd)
        below = os.open("deep", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
    os.close(fd)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


def test_a_copy_has_the_same_content_modes_and_times(source: Path, tmp_path: Path) -> None:
    (source / "bin").mkdir(mode=0o555)
    (source / "a file").write_bytes(b"\0\1\2" * 100_000)
    (source / "a file").chmod(0o4755)
    os.utime(source / "a file", ns=(1_000_000_001, 2_000_000_002))
    os.utime(source / "bin", ns=(3, 1_234_567_890_123_456_789))
    (source / "link").symlink_to("/nowhere/at all")
    os.mkfifo(source / "fifo", 0o640)

    copy_tree(str(source), str(tmp_path / "copy"))

    copy = tmp_path / "copy"
    assert (copy / "a file").read_bytes() == b"\0\1\2" * 100_000
    assert (copy / "a file").stat().st_mtime_ns == 2_000_000_002
    assert stat.S_IMODE((copy / "a file").stat().st_mode) == 0o4755
    assert stat.S_IMODE((copy / "bin").stat().st_mode) == 0o555
    assert (copy / "bin").stat().st_mtime_ns == 1_234_567_890_123_456_789
    assert (copy / "link").readlink() == Path("/nowhere/at all")
    assert stat.S_ISFIFO((copy / "fifo").lstat().st_mode)
    assert stat.S_IMODE((copy / "fifo").lstat().st_mode) == 0o640


@as_root
def test_a_copy_keeps_owners_of_files_directories_and_links(source: Path, tmp_path: Path) -> None:
    (source / "d").mkdir()
    (source / "d" / "f").write_text("x")
    (source / "d" / "s").symlink_to("f")
    for name, owner in (("d", 1000), ("d/f", 33), ("d/s", 7)):
        os.chown(source / name, owner, owner + 1, follow_symlinks=False)

    copy_tree(str(source), str(tmp_path / "copy"))

    for name, owner in (("d", 1000), ("d/f", 33), ("d/s", 7)):
        status = (tmp_path / "copy" / name).lstat()
        assert (status.st_uid, status.st_gid) == (owner, owner + 1)


@as_root
def test_the_top_of_a_copy_stays_with_the_caller_so_that_it_can_be_moved(
    source: Path, tmp_path: Path
) -> None:
    os.chown(source, 1000, 1000)
    source.chmod(0o511)

    copy_tree(str(source), str(tmp_path / "copy"))

    status = (tmp_path / "copy").stat()
    assert status.st_uid == 0
    assert stat.S_IMODE(status.st_mode) == 0o711


def test_hard_links_stay_one_file(source: Path, tmp_path: Path) -> None:
    (source / "a").mkdir()
    (source / "a" / "one").write_text("same")
    os.link(source / "a" / "one", source / "two")

    copy_tree(str(source), str(tmp_path / "copy"))

    assert (tmp_path / "copy/a/one").stat().st_ino == (tmp_path / "copy/two").stat().st_ino
    assert (tmp_path / "copy/two").read_text() == "same"


def test_whiteouts_are_copied_even_those_that_share_an_inode(source: Path, tmp_path: Path) -> None:
    os.mknod(source / "gone", stat.S_IFCHR, 0)
    os.link(source / "gone", source / "gone too")

    copy_tree(str(source), str(tmp_path / "copy"))

    assert is_whiteout(tmp_path / "copy/gone")
    assert is_whiteout(tmp_path / "copy/gone too")


@as_root
def test_devices_and_sockets_stay_behind(source: Path, tmp_path: Path) -> None:
    os.mknod(source / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    fd = os.open(source, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{fd}/socket")
    os.close(fd)

    copy_tree(str(source), str(tmp_path / "copy"))

    assert list((tmp_path / "copy").iterdir()) == []


def test_overlay_marks_are_kept(source: Path, tmp_path: Path) -> None:
    (source / "d").mkdir()
    os.setxattr(source / "d", "user.overlay.opaque", b"y")
    (source / "f").write_text("")
    os.setxattr(source / "f", "user.comment", b"\0\xff")

    copy_tree(str(source), str(tmp_path / "copy"))

    assert os.getxattr(tmp_path / "copy/d", "user.overlay.opaque") == b"y"
    assert os.getxattr(tmp_path / "copy/f", "user.comment") == b"\0\xff"


@as_root
def test_trusted_overlay_marks_become_user_ones(source: Path, tmp_path: Path) -> None:
    (source / "d").mkdir()
    os.setxattr(source / "d", "trusted.overlay.opaque", b"y")

    copy_tree(str(source), str(tmp_path / "copy"))

    assert os.listxattr(tmp_path / "copy/d") == ["user.overlay.opaque"]


def test_holes_stay_holes(source: Path, tmp_path: Path) -> None:
    with (source / "sparse").open("wb") as file:
        file.truncate(1 << 30)
        file.seek(500 << 20)
        file.write(b"middle")

    copy_tree(str(source), str(tmp_path / "copy"))

    copied = tmp_path / "copy/sparse"
    assert copied.stat().st_size == 1 << 30
    assert copied.stat().st_blocks * 512 < 1 << 20
    with copied.open("rb") as file:
        file.seek(500 << 20)
        assert file.read(7) == b"middle\0"


def test_a_copy_is_never_made_over_something(source: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    with pytest.raises(FileExistsError):
        copy_tree(str(source), str(tmp_path / "copy"))


def test_a_link_instead_of_a_folder_is_not_copied(source: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(source)
    with pytest.raises(OSError, match="link"):
        copy_tree(str(tmp_path / "link"), str(tmp_path / "copy"))
    assert not (tmp_path / "copy").exists()


def test_trees_deeper_than_a_path_can_name_are_copied_measured_and_removed(
    source: Path, tmp_path: Path
) -> None:
    nest(source, 1000)
    copy_tree(str(source), str(tmp_path / "copy"))
    assert tree_usage(str(tmp_path / "copy"))[1] == 1001
    remove_tree(str(tmp_path / "copy"))
    remove_tree(str(source))
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_not_text_survive(source: Path, tmp_path: Path) -> None:
    name = b"\xff\xfe name"
    os.close(os.open(os.fsencode(source) + b"/" + name, os.O_CREAT | os.O_WRONLY))
    copy_tree(str(source), str(tmp_path / "copy"))
    assert [os.fsencode(path.name) for path in (tmp_path / "copy").iterdir()] == [name]


def test_removing_what_is_not_there_is_fine(tmp_path: Path) -> None:
    remove_tree(str(tmp_path / "nothing"))


def test_removing_a_link_leaves_what_it_points_to(source: Path, tmp_path: Path) -> None:
    (source / "kept").write_text("")
    (tmp_path / "link").symlink_to(source)
    remove_tree(str(tmp_path / "link"))
    assert (source / "kept").exists()
    assert not (tmp_path / "link").is_symlink()


def test_links_inside_a_removed_tree_are_not_followed(source: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("")
    (source / "d").symlink_to(outside)
    (source / "up").symlink_to("..")
    remove_tree(str(source))
    assert (outside / "kept").exists()


def test_closed_directories_are_removed_by_an_ordinary_user_too(tmp_path: Path) -> None:
    script = """
import os, sys
sys.path.insert(0, sys.argv[2])
from benchyard.devboxes.layers.trees import remove_tree
os.chdir(sys.argv[1])
if os.geteuid() == 0:
    os.setgid(12345); os.setuid(12345)
os.makedirs("work/work/a/b")
open("work/work/a/f", "w").close()
os.chmod("work/work/a/b", 0); os.chmod("work/work/a", 0o500); os.chmod("work/work", 0)
remove_tree("work")
assert os.listdir(".") == []
"""
    tmp_path.chmod(0o777)
    packages = str(Path(trees.__file__).parents[3])
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(tmp_path), packages], check=True, timeout=60
    )


def test_usage_counts_hard_links_once_and_every_entry(source: Path) -> None:
    (source / "d").mkdir()
    (source / "d" / "one").write_bytes(b"x" * 100_000)
    for number in range(5):
        os.link(source / "d" / "one", source / f"link{number}")
    size, entries = tree_usage(str(source))
    assert entries == 7
    assert 100_000 <= size < 150_000


def test_an_empty_folder_uses_nothing(source: Path) -> None:
    assert tree_usage(str(source)) == (0, 0)


def test_sync_reaches_the_disk(source: Path) -> None:
    (source / "f").write_text("x")
    sync_tree(str(source))
    with pytest.raises(FileNotFoundError):
        sync_tree(str(source / "missing"))


def test_no_descriptor_is_left_open(source: Path, tmp_path: Path) -> None:
    nest(source, 200)
    before = len(list(Path("/proc/self/fd").iterdir()))
    copy_tree(str(source), str(tmp_path / "copy"))
    tree_usage(str(source))
    remove_tree(str(source))
    with pytest.raises(OSError, match="source"):
        copy_tree(str(source), str(tmp_path / "other"))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_entries_are_counted_by_their_names_up_to_a_limit(source: Path) -> None:
    for folder in ("one", "one/two", "three"):
        (source / folder).mkdir()
    for file in ("one/file", "one/two/file"):
        (source / file).touch()
    (source / "three/link").symlink_to("/")
    assert trees.has_more_entries(str(source), 5)
    assert not trees.has_more_entries(str(source), 6)
    assert not trees.has_more_entries(str(source / "missing"), 0)
    assert not trees.has_more_entries(str(source / "one/file"), 0)
    nest(source, 3000)
    assert trees.has_more_entries(str(source), 100)
    remove_tree(str(source))
