"""The log of a build: masked, bounded, and read again."""

import asyncio
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from benchyard.engine.images import build_log
from benchyard.engine.images.build_log import MAX_LINE, BuildLogs, LogMask, OutputLines


def written(tmp_path: Path, pieces: list[bytes], hidden: list[str]) -> list[str]:
    logs = BuildLogs(tmp_path / "builds")
    logs.open()
    logs.forget("bpt_1")
    with logs.writer("bpt_1", hidden) as log:
        lines = OutputLines(log)
        for piece in pieces:
            lines.feed(piece)
        lines.finish()
    return [line.message for line in logs.lines("bpt_1")]


def test_output_becomes_lines_however_it_is_cut(tmp_path: Path) -> None:
    assert written(tmp_path, [b"on", b"e\ntw", b"o\n\nthr", b"ee"], []) == ["one", "two", "", "three"]
    assert written(tmp_path, [b"10%\r50%\r100%\r\nnext\n"], []) == ["100%", "next"]
    assert written(tmp_path, ["caf\u00e9".encode()[:-1] + b"\n"], []) == ["caf\ufffd"]


def test_of_an_endless_line_only_the_beginning_is_kept(tmp_path: Path) -> None:
    pieces = [b"x" * 100_000] * 20 + [b"\nafter\n"]
    first, second = written(tmp_path, pieces, [])
    assert (first, second) == ("x" * MAX_LINE, "after")


@given(
    st.lists(st.text(alphabet="abcdefgh'$ \n", min_size=3, max_size=30), min_size=1, max_size=3),
    st.text(alphabet="0123456789", max_size=40),
)
def test_no_line_of_a_hidden_value_is_in_the_log(hidden: list[str], other: str) -> None:
    mask = LogMask(hidden)
    for value in hidden:
        shown = [mask.hide(line) for line in f"{other}{value}{other}".splitlines()]
        for line in value.splitlines():
            assert not line.strip() or all(line not in each for each in shown)


def test_a_hidden_value_at_the_cut_of_a_long_line_is_not_half_shown(tmp_path: Path) -> None:
    secret = "S" + "0123456789" * 300
    for before in range(MAX_LINE * 4 - 4000, MAX_LINE * 4 + 4000, 997):
        (line,) = written(tmp_path, [b"-" * before, secret.encode() * 30, b"tail" * 20_000], [secret])
        assert "S01" not in line
        assert "0123456789" not in line
    repeated = written(tmp_path, [(secret * 100).encode()], [secret])
    assert "01234" not in repeated[0]


def test_a_full_log_says_so_and_still_takes_what_the_engine_says(tmp_path: Path) -> None:
    logs = BuildLogs(tmp_path)
    with logs.writer("bpt_1") as log:
        for _ in range(build_log.MAX_BYTES // 4000):
            log.line("y" * 5000)
        log.note("the end")
    lines = [line.message for line in logs.lines("bpt_1")]
    assert "the log is full" in lines[-2]
    assert lines[-1] == "the end"
    assert (tmp_path / "bpt_1.jsonl").stat().st_size < build_log.MAX_BYTES


def test_half_a_line_that_a_kill_left_hides_no_other(tmp_path: Path) -> None:
    logs = BuildLogs(tmp_path)
    with logs.writer("bpt_1") as log:
        log.line("whole")
    with (tmp_path / "bpt_1.jsonl").open("ab") as file:
        file.write(b'{"level": "info", "mess')
    with logs.writer("bpt_1") as log:
        log.line("after \ud800 and \u2028")
    assert [line.message for line in logs.lines("bpt_1")] == ["whole", "after ? and \u2028"]


def test_a_follower_can_begin_anywhere(tmp_path: Path) -> None:
    logs = BuildLogs(tmp_path)
    with logs.writer("bpt_1") as log:
        for number in range(10):
            log.line(f"line {number}")

    async def from_offset(offset: int) -> list[str]:
        ended = asyncio.Event()
        ended.set()
        return [update.message async for update in logs.follow("bpt_1", offset, ended)]

    everything = asyncio.run(from_offset(0))
    assert everything == [f"line {number}" for number in range(10)]
    assert asyncio.run(from_offset(5)) == everything[1:]
    assert asyncio.run(from_offset(10**9)) == []
