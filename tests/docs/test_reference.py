"""The reference pages say what the code says."""

import difflib
from pathlib import Path

import pytest

from tests.docs.reference import PAGES, PARTS, derived


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_derived_parts_are_up_to_date(page: Path) -> None:
    written = page.read_text().splitlines()
    right = derived(page.read_text()).splitlines()
    changes = "\n".join(difflib.unified_diff(written, right, page.name, "as it should be", lineterm="", n=0))
    if changes:
        # Not both pages whole, which nobody could read.
        pytest.fail(f"run `make docs`:\n{changes[:4000]}", pytrace=False)


def test_every_derived_part_is_on_a_page() -> None:
    text = "".join(page.read_text() for page in PAGES)
    assert [name for name in PARTS if f"<!-- begin: {name} -->" not in text] == []
