"""The walks of ARCHITECTURE.md name files that are there."""

import re

from tests.house.tree import PACKAGE, ROOT


def test_every_file_of_a_walk_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    walks = re.search(r"^## Walks\n(.*?)^## ", text, re.M | re.S)
    assert walks, "ARCHITECTURE.md has no walks"
    files = re.findall(r"`([\w/]+\.py)`", walks[1].replace("`tests/house/test_walks.py`", ""))
    assert len(files) > 40
    assert [file for file in files if not (PACKAGE / file).is_file()] == []
