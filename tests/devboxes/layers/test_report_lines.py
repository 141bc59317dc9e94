"""Reports with long lists, read line by line."""

import io
import json
from typing import Any

import pytest

from benchyard.devboxes.layers import report_lines

FACTS = {"total": 2, "exact": True, "home": None}


@pytest.mark.parametrize(
    "items", [[], ["one"], ['a\n"],]}', "\udcff", "]}", "[", ""], [["/a", 1], ["/b", 2]]]
)
def test_a_report_is_read_as_it_was_written_and_is_plain_json(items: list[Any]) -> None:
    file = io.StringIO()
    report_lines.write(file, FACTS, "changes", items)
    assert json.loads(file.getvalue()) == {**FACTS, "changes": items}
    facts, found = report_lines.read(iter(file.getvalue().splitlines(keepends=True)))
    assert (facts, found) == ({**FACTS, "changes": []}, items)


def test_a_cut_report_is_invalid() -> None:
    file = io.StringIO()
    report_lines.write(file, FACTS, "changes", ["one", "two"])
    lines = file.getvalue().splitlines(keepends=True)
    for end in range(len(lines)):
        with pytest.raises(ValueError, match=r"cut|Expecting|Extra"):
            report_lines.read(iter(lines[:end]))
