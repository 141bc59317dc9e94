"""Records of images as they are read from a folder that others change."""

from pathlib import Path

from benchyard.images.image import Image, read_records, write_record


def image(id: str) -> Image:
    return Image(id, id, ("layer",), (), None)


def test_record_removed_meanwhile_is_skipped(tmp_path: Path) -> None:
    write_record(tmp_path, image("there"))
    # In the list of the folder, and not to be read: as if it had been removed in between.
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    found, is_whole = read_records(tmp_path)
    assert ([each.id for each in found], is_whole) == (["there"], True)


def test_broken_record_is_reported(tmp_path: Path) -> None:
    write_record(tmp_path, image("there"))
    (tmp_path / "broken.json").write_text("{")
    found, is_whole = read_records(tmp_path)
    assert ([each.id for each in found], is_whole) == (["there"], False)
