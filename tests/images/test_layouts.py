"""Manifests of image archives, whose author is anybody."""

import time
from pathlib import Path

import pytest

from benchyard.errors import ImageError
from benchyard.images.layouts import read_layout
from benchyard.testing.loop_probe import MOST_SECONDS

MEBIBYTE = 1024**2


@pytest.mark.parametrize(
    "manifest",
    [
        "[" + "{}," * 2 * MEBIBYTE + "{}]",
        "[" + "1," * 3 * MEBIBYTE + "1]",
        "[" * 7 * MEBIBYTE,
        '{"a":' * MEBIBYTE,
    ],
    ids=["objects", "numbers", "depth", "nested"],
)
def test_no_manifest_holds_the_interpreter_up(manifest: str, tmp_path: Path) -> None:
    """While it is parsed, no other thread gets its turn."""
    (tmp_path / "index.json").write_text(manifest)
    begin = time.thread_time()
    with pytest.raises(ImageError, match="more objects and values than an image needs"):
        read_layout(tmp_path)
    assert time.thread_time() - begin < MOST_SECONDS
