"""Tables at every width: nothing that can be copied is ever broken."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from benchyard.cli.table import Narrow, Table, shorten_name, wrap_words

ID = "bmj_l2Yq4Psg0ud7Zj7DLTBZU"
AGENT = "claude-code@2.1.325:claude-sonnet-4-5"
TITLES = ["AGENT", "PASSED", "NOT PASSED", "CRASHED", "MEAN (95 %)", "TOKENS", "COST", "DURATION", "WHY"]
ROWS = [
    [
        AGENT,
        "3 (100%)",
        "0 (0%)",
        "0 (0%)",
        "1.000 (0.439 to 1.000)",
        "194,088",
        "$0.5903",
        "48s",
        "none at all",
    ],
    [
        "nop",
        "0 (0%)",
        "3 (100%)",
        "0 (0%)",
        "0.000 (0.000 to 0.561)",
        "",
        "",
        "2s",
        "it did nothing of the work " * 3,
    ],
]
NARROW = Narrow(shorten=["AGENT"], drop=["TOKENS", "DURATION", "COST", "WHY"])


def table(width: int | None) -> tuple[Table, list[str]]:
    made = Table(TITLES, ROWS, NARROW)
    return made, made.lines(width)


@pytest.mark.parametrize("width", [30, 60, 80, 100, 120, 200])
def test_no_number_is_broken_at_any_width(width: int) -> None:
    made, lines = table(width)
    text = "\n".join(lines)
    for title, cells in zip(TITLES, zip(*ROWS, strict=True), strict=True):
        if title in made.dropped:
            continue
        for cell in cells:
            if title == "WHY":
                assert set(cell.split()) <= set(text.split())
            elif title == "AGENT":
                assert cell in text or shorten_name(cell, 18)[:8] in text
            elif not made.is_blocks:
                assert cell in text, (title, cell, text)
    if not made.is_blocks:
        assert max(map(cell_len, lines)) <= width


def test_columns_are_dropped_by_priority_and_named() -> None:
    assert table(200)[0].dropped == []
    some, _lines = table(110)
    assert some.dropped == NARROW.drop[: len(some.dropped)]
    assert some.dropped


def test_narrow_terminal_gets_a_block_for_each_row() -> None:
    made, lines = table(40)
    assert made.is_blocks
    assert made.dropped == []
    assert lines[0].split() == ["AGENT", AGENT]
    assert "TOKENS" in "\n".join(lines)
    assert lines.count("") == 1, "between the two"


def test_a_pipe_gets_everything_on_one_line() -> None:
    made, lines = table(None)
    assert len(lines) == 1 + len(ROWS)
    assert all(cell.strip() in line for line, row in zip(lines[1:], ROWS, strict=True) for cell in row)
    assert not made.dropped


def test_wide_terminals_show_whole_cells() -> None:
    text = "a sentence of some length that was cut at forty characters before"
    assert text in "\n".join(Table(["NAME", "NEEDS"], [["x", text]]).lines(100))


def test_empty_columns_are_left_out_where_the_terminal_is_too_narrow() -> None:
    made = Table(["NAME", "FROM", "NEEDS"], [["x", "", "a word and another " * 4]])
    assert made.lines(40)[0].split() == ["NAME", "NEEDS"]
    assert made.lines(None)[0].split() == ["NAME", "FROM", "NEEDS"]


def test_sentences_share_the_remaining_width() -> None:
    head = Table(["A", "B"], [["some words " * 20, "other words " * 20]]).lines(100)[0]
    assert 40 <= head.index("B") <= 60


def test_numbers_that_belong_together_are_not_wrapped() -> None:
    shares = "@1 1.000  @2 1.000  @3 1.000"
    made = Table(["AGENT", "PASS@K"], [["x" * 30, shares]], Narrow(shorten=["AGENT"]))
    assert shares in made.lines(50)[1]


def test_an_id_is_never_broken() -> None:
    lines = Table(["ID", "NAME"], [[ID, "a name " * 20]], Narrow(drop=["NAME"])).lines(30)
    assert lines[1] == ID


@given(st.text(alphabet="ab cé界", max_size=60), st.integers(min_value=4, max_value=40))
def test_words_stay_whole_and_in_order(text: str, width: int) -> None:
    lines = wrap_words(text, width)
    assert " ".join(lines).split() == text.split()
    longest = max((cell_len(word) for word in text.split(" ")), default=0)
    assert all(cell_len(line.rstrip()) <= max(width, longest) for line in lines)


@given(st.text(alphabet="ab-@:é界", max_size=60), st.integers(min_value=5, max_value=40))
def test_a_shortened_name_keeps_its_ends(name: str, width: int) -> None:
    short = shorten_name(name, width)
    assert cell_len(short) <= width
    if cell_len(name) > width:
        head, tail = re.split("…", short)
        assert name.startswith(head)
        assert name.endswith(tail)
    else:
        assert short == name


def test_a_brief_name_is_shown_before_another_is_shortened() -> None:
    brief = {AGENT: "claude-code:claude-sonnet-4-5", "nop": "no"}
    made = Table(
        ["AGENT", "PASSED"], [[AGENT, "3 (100%)"], ["nop", "0 (0%)"]], Narrow(["AGENT"], brief=brief)
    )
    assert made.lines(60)[1].split()[0] == AGENT, "there is room for the whole"
    assert made.lines(40)[1].split() == ["claude-code:claude-sonnet-4-5", "3", "(100%)"]
    assert made.lines(35)[1].startswith("claude-code")
    titles = Table(["SCENARIO", AGENT], [["fix", "1.000"]], Narrow(["SCENARIO", AGENT], brief=brief))
    assert titles.lines(40)[0].split() == ["SCENARIO", "claude-code:claude-sonnet-4-5"]


def test_a_block_has_room_for_whole_names() -> None:
    narrow = Narrow(["AGENT"], brief={AGENT: "claude"})
    made = Table(["AGENT", "MEAN"], [[AGENT, "1.000 (0.439 to 1.000)"]], narrow)
    assert AGENT in made.lines(24)[0]
    assert made.is_blocks
