"""The reference pages say what the code says."""

from pathlib import Path

import pytest

from tests.docs.reference import PAGES, PARTS, derived


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_derived_parts_are_up_to_date(page: Path) -> None:
    assert page.read_text() == derived(page.read_text()), "run `make docs`"


def test_every_derived_part_is_on_a_page() -> None:
    text = "".join(page.read_text() for page in PAGES)
    assert [name for name in PARTS if f"<!-- begin: {name} -->" not in text] == []
