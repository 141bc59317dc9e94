"""Server-sent events come out the same in whatever pieces they came in."""

import itertools
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from benchyard.gateway.dialects.model_replies import EventReader

STREAM = (
    b'\xef\xbb\xbfevent: message_start\r\ndata: {"n": 1}\r\n\r\n'
    b': a comment\n\ndata: {"text":\ndata:  "\xc3\xa4\xf0\x9f\x98\x80"}\nid: 7\nretry: 100\n\n'
    b'data:{"n": 3}\r\rdata: {broken\n\n<html>oops</html>\n\ndata: [DONE]\n\ndata: {"n": 4}\n\n'
)
EVENTS = [{"n": 1}, {"text": "ä😀"}, {"n": 3}, {"n": 4}]


def read(pieces: list[bytes], most_bytes: int = 1024) -> tuple[list[object], int]:
    reader = EventReader(most_bytes)
    found = [event for piece in pieces for event in reader.feed(piece)]
    return [*found, *reader.end()], reader.broken


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def test_a_stream_is_read_as_its_rules_say() -> None:
    assert read([STREAM]) == (EVENTS, 2)


@settings(deadline=None)
@given(st.lists(st.integers(0, 10_000)))
def test_any_chunking_of_a_stream_gives_the_same(places: list[int]) -> None:
    assert read(cut(STREAM, places)) == (EVENTS, 2)


def test_stream_in_single_bytes_gives_the_same_events() -> None:
    assert read([bytes([byte]) for byte in STREAM]) == (EVENTS, 2)


@settings(deadline=None)
@given(st.binary(max_size=300), st.lists(st.integers(0, 300)))
def test_any_chunking_of_anything_gives_the_same(data: bytes, places: list[int]) -> None:
    assert read(cut(data, places), 50) == read([data], 50)


LINES = st.sampled_from([b"data: 1", b"data: [", b"data: ]", b":", b"", b"event: x", b"data: " + b"9" * 60])


@settings(deadline=None)
@given(st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r", b"\r\n"]))), st.lists(st.integers(0, 999)))
def test_any_chunking_of_any_lines_gives_the_same(
    lines: list[tuple[bytes, bytes]], places: list[int]
) -> None:
    data = b"".join(line + end for line, end in lines)
    assert read(cut(data, places), 50) == read([data], 50)


def test_an_event_without_an_end_is_read_at_the_end_of_the_stream() -> None:
    assert read([b'data: {"n": 1}']) == ([{"n": 1}], 0)
    assert read([b'data: {"n": 1}\n']) == ([{"n": 1}], 0)
    assert read([b'data: {"n":']) == ([], 1)


def test_an_event_that_is_too_large_is_left_out_and_the_next_one_is_read() -> None:
    large = json.dumps("x" * 5000).encode()
    pieces = [b"data: ", *(large[at : at + 100] for at in range(0, len(large), 100)), b"\n\ndata: 2\n\n"]
    assert read(pieces) == ([2], 1)


def test_memory_is_bounded_by_the_largest_event() -> None:
    reader = EventReader(most_bytes=1000)
    for _ in range(1000):
        reader.feed(b"data: " + b"x" * 500)
    assert sum(map(len, reader._line)) <= 2000
    assert reader.feed(b"\n\ndata: 1\n\n") == [1]


def test_deeply_nested_event_is_broken() -> None:
    for depth in (200, 100_000):
        assert read([b"data: " + b"[" * depth + b"]" * depth + b"\n\n"], 10**6) == ([], 1)


def test_numbers_that_json_does_not_know_are_broken() -> None:
    huge = b"9" * 5000
    assert read([b"data: NaN\n\ndata: -Infinity\n\ndata: " + huge + b"\n\ndata: 1\n\n"], 10**6) == ([1], 3)
