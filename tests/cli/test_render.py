"""What people and programs get to see."""

import json
import sys
import time

import pytest
import yaml

from benchyard.cli.progress import ByteMeter
from benchyard.cli.render import age, facts, print_table, show, show_many, size, when
from benchyard.cli.table import Narrow
from benchyard.client.plain_text import clean
from benchyard.models.secrets import SecretView

VIEWS = [
    SecretView(id="sec_1", name="FIRST", create_time_ms=1, update_time_ms=2),
    SecretView(id="sec_2", name="SECOND", create_time_ms=3, update_time_ms=4),
]


def test_json_and_yaml_are_the_wires_own_view(capsys: pytest.CaptureFixture[str]) -> None:
    show(VIEWS[0], "json", "unused")
    assert json.loads(capsys.readouterr().out) == VIEWS[0].model_dump()
    show_many(VIEWS, "yaml", {})
    assert yaml.safe_load(capsys.readouterr().out) == [view.model_dump() for view in VIEWS]


def test_an_empty_list_is_said_on_stderr_and_is_json_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    show_many([], "text", {}, none="nothing here")
    assert capsys.readouterr() == ("", "nothing here\n")
    show_many([], "json", {})
    assert capsys.readouterr().out == "[]\n"


def test_a_table_is_aligned_and_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["ID", "NAME"], [["short", "a"], ["x" * 300, "b"]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "x" * 300 + "  b"
    assert {line.index(mark) for line, mark in zip(lines, ["NAME", "a", "b"], strict=True)} == {302}


@pytest.mark.parametrize("width", [20, 40, 60, 80, 300])
def test_columns_that_do_not_fit_follow_in_another_table(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    titles = ["AGENT", "MEAN", "TOKENS", "DURATION", "COST"]
    row = ["nop", "0.000 (0.000 to 0.561)", "1,194,088,111", "1m07s", "$0.5903"]
    print_table(titles, [row], Narrow(["AGENT"], ["TOKENS", "DURATION", "COST"], goes_on=True))
    printed = capsys.readouterr()
    assert all(each in printed.out for each in [*titles, *row]), printed.out
    assert "left out" not in printed.err


def test_a_column_that_fits_nowhere_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "12")
    print_table(["A", "B"], [["a", "1" * 20]], Narrow(drop=["B"], goes_on=True))
    assert "left out, the terminal is too narrow: B" in capsys.readouterr().err


def test_very_many_rows_look_like_few(capsys: pytest.CaptureFixture[str]) -> None:
    few = [[f"row {number}", "\u754c" * (number % 3), "end"] for number in range(500)]
    print_table(["ID", "WIDE", "END"], few)
    expected = capsys.readouterr().out
    begin = time.process_time()
    print_table(["ID", "WIDE", "END"], few * 20)
    assert time.process_time() - begin < 2.0, "usually a twentieth of that"
    assert capsys.readouterr().out.startswith(expected)


def test_markup_and_escapes_of_others_stay_text(capsys: pytest.CaptureFixture[str]) -> None:
    show_many(VIEWS[:1], "text", {"NAME": lambda view: "[red]\x1b[31mboo\nhoo[/red]"})
    assert capsys.readouterr().out.splitlines()[1] == "[red]\ufffd[31mboo hoo[/red]"
    assert clean("tab\there,\n\tand below") == "tab here, and below"
    assert clean(None) == ""


def test_facts_leave_out_missing_values() -> None:
    assert (
        facts({"id": "x", "name": None, "metadata": "", "size in bytes": 0})
        == "id:            x\nsize in bytes: 0"
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, ""), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 1024**5, "3072.0 TiB")],
)
def test_sizes_are_for_people(count: int | None, text: str) -> None:
    assert size(count) == text


def test_times_are_for_people() -> None:
    assert when(0) == "1970-01-01 00:00:00 UTC"
    assert when(None) == age(None) == ""
    now = time.time() * 1000
    assert [age(int(now - seconds * 1000)) for seconds in (5, 150, 7300, 200_000, -9)] == [
        "5s",
        "2m",
        "2h",
        "2d",
        "0s",
    ]


def test_a_meter_is_silent_about_quick_work(capsys: pytest.CaptureFixture[str]) -> None:
    with ByteMeter("file", 100) as meter:
        meter.add(100)
    assert capsys.readouterr().err == ""


def test_a_meter_says_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchyard.cli.progress.QUIET_SECONDS", 0.0)
    with ByteMeter("file", 4096) as meter:
        meter.add(1024)
        meter.add(1024)
    assert capsys.readouterr().err.startswith("file: 1.0 KiB of 4.0 KiB, ")
