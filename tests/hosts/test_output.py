"""Reading output files with flat memory."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.hosts import output


@pytest.mark.parametrize(
    ("content", "lines", "expected", "is_cut"),
    [
        (b"", 5, "", False),
        (b"a\nb\nc\n", 2, "b\nc\n", True),
        (b"a\nb\nc", 2, "b\nc", True),
        (b"a\nb\n", 2, "a\nb\n", False),
        (b"\n\n\n", 1, "\n", True),
        (b"a\nb\n", 0, "", True),
        (b"\xff\xfea\n", 1, "��a\n", False),
    ],
)
def test_the_last_lines_are_counted_right(
    tmp_path: Path, content: bytes, lines: int, expected: str, is_cut: bool
) -> None:
    (tmp_path / "stdout").write_bytes(content)
    assert output.tail(tmp_path / "stdout", lines) == (expected, is_cut)


@given(pieces=st.lists(st.text("ab\n", max_size=20), max_size=30), lines=st.integers(1, 40))
def test_last_lines_are_those_of_splitting(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], lines: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "some-output"
    whole = "".join(pieces)
    path.write_text(whole)
    expected = "".join(whole.splitlines(keepends=True)[-lines:])
    assert output.tail(path, lines) == (expected, expected != whole)


def test_a_tail_reads_no_more_than_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b"x" * 100 + "ü".encode() * output.MAX_TAIL_BYTES)
    text, is_cut = output.tail(path, 1)
    assert is_cut
    assert set(text) == {"ü"}
    assert output.MAX_TAIL_BYTES // 2 <= len(text) <= output.MAX_TAIL_BYTES


def test_many_short_lines_are_found_across_blocks(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_text("".join(f"line {number}\n" for number in range(50_000)))
    text, is_cut = output.tail(path, 20_000)
    assert (text.splitlines()[0], text.splitlines()[-1], is_cut) == ("line 30000", "line 49999", True)


def test_a_file_of_some_blocks_and_a_rest_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    whole = "".join(f"{number:09}\n" for number in range(output.CHUNK_BYTES // 4))
    path.write_text(whole)
    assert output.tail(path, len(whole)) == (whole, False)


def test_a_file_that_is_not_there_is_empty(tmp_path: Path) -> None:
    async def pieces() -> list[bytes]:
        return [piece async for piece in output.read(tmp_path / "nothing", 0)]

    assert asyncio.run(pieces()) == []
    assert output.tail(tmp_path / "nothing", 5) == ("", False)
    assert output.size(tmp_path / "nothing") == 0


def test_following_yields_bounded_pieces_and_ends_with_all(tmp_path: Path) -> None:
    async def follow() -> None:
        path, done = tmp_path / "stdout", asyncio.Event()
        stream = output.follow(path, 3, done)
        path.write_bytes(b"abcdef")
        assert await anext(stream) == b"def"
        with path.open("ab") as file:
            file.write(b"x" * 200_000)
        done.set()
        sizes = [len(piece) async for piece in stream]
        assert sum(sizes) == 200_000
        assert max(sizes) <= output.CHUNK_BYTES

    asyncio.run(follow())
