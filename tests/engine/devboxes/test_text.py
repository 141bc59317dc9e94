import asyncio
import itertools
from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from benchyard.engine.devboxes.executions import CHUNK_BYTES, TextDecoder, text_chunks


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


def cut(*data: bytes, offset: int = 0) -> list[tuple[str, int]]:
    async def collect() -> list[tuple[str, int]]:
        return [(chunk.output, chunk.offset) async for chunk in text_chunks(pieces(*data), offset)]

    return asyncio.run(collect())


def test_the_offset_is_the_end_of_the_chunk() -> None:
    assert cut(b"ab", b"cde", offset=10) == [("ab", 12), ("cde", 15)]


def test_a_character_that_comes_in_two_pieces_is_not_cut() -> None:
    euro = "€".encode()
    assert cut(b"a" + euro[:1], euro[1:] + b"b") == [("a", 1), ("€b", 5)]


def test_invalid_bytes_become_replacement_characters() -> None:
    assert cut(b"a\xffb") == [("a\ufffdb", 3)]


def test_an_unfinished_character_at_the_end_is_flushed() -> None:
    assert cut(b"a\xe2\x82") == [("a", 1), ("\ufffd", 3)]


def test_big_pieces_are_given_out_in_bounded_chunks() -> None:
    found = cut(b"x" * (3 * CHUNK_BYTES + 1))
    offsets = [CHUNK_BYTES, 2 * CHUNK_BYTES, 3 * CHUNK_BYTES, 3 * CHUNK_BYTES + 1]
    assert [offset for _, offset in found] == offsets


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_however_it_is_cut_the_text_is_the_same(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(each, len(data)) for each in cuts), len(data)]
    parts = [data[start:end] for start, end in itertools.pairwise(edges)]
    found = cut(*parts)
    assert "".join(text for text, _ in found) == data.decode(errors="replace")
    assert not found or found[-1][1] == len(data)


@given(st.text(max_size=100), st.integers(1, 7))
def test_going_on_from_any_offset_given_out_loses_and_repeats_nothing(text: str, step: int) -> None:
    data = text.encode()
    parts = [data[start : start + step] for start in range(0, len(data), step)]
    so_far = ""
    for output, offset in cut(*parts):
        so_far += output
        assert so_far + "".join(rest for rest, _ in cut(data[offset:], offset=offset)) == text


def test_a_cutter_says_nothing_while_a_character_is_incomplete() -> None:
    assert TextDecoder(0).feed(b"\xe2\x82") is None
