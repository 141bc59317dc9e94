from pathlib import Path

import pytest

from benchyard.engine.devboxes.log_file import MAX_BYTES, DevboxLog
from benchyard.models.executions import LogLine


@pytest.fixture
def journal(tmp_path: Path) -> DevboxLog:
    made = DevboxLog(tmp_path / "logs")
    made.open()
    return made


def line(message: str) -> LogLine:
    return LogLine(source="files", timestamp_ms=1, message=message)


def test_lines_come_back_in_order(journal: DevboxLog) -> None:
    for message in ("one", "two\nlines", "€"):
        journal.note("dbx_1", line(message))
    assert [each.message for each in journal.lines("dbx_1")] == ["one", "two\nlines", "€"]
    assert journal.lines("dbx_2") == []
    journal.forget("dbx_1")
    assert journal.lines("dbx_1") == []


def test_half_a_line_at_the_end_is_left_out(journal: DevboxLog, tmp_path: Path) -> None:
    journal.note("dbx_1", line("whole"))
    with (tmp_path / "logs" / "dbx_1.jsonl").open("a") as file:
        file.write('{"source": "fil')
    assert [each.message for each in journal.lines("dbx_1")] == ["whole"]


def test_a_log_stays_small_and_keeps_the_newest(journal: DevboxLog, tmp_path: Path) -> None:
    for number in range(600):
        journal.note("dbx_1", line(f"{number} " + "x" * 3000))
    assert (tmp_path / "logs" / "dbx_1.jsonl").stat().st_size <= MAX_BYTES + 4096
    last = journal.lines("dbx_1")[-1].message
    assert last is not None
    assert last.startswith("599 ")


def test_a_long_message_is_cut(journal: DevboxLog) -> None:
    journal.note("dbx_1", line("x" * 100_000))
    assert len(journal.lines("dbx_1")[0].message or "") < 5000
