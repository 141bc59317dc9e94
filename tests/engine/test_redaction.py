"""Values are taken out of texts and files, however they come, and nothing else is changed."""

import asyncio
import base64
import itertools
import json
import tracemalloc
from collections.abc import AsyncIterator
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.engine.redaction import Scrubber

KEY = 'sk-"ö/+&\\ key-0123456789'
VALUES = ["sk-0123456789abcdef", "abcdefgh", "fghij-klmnop", "aaaaaaaa", KEY]
PARTS = [b"sk-0123456789", b"abcdef", b"gh", b"ij-klmnop", b"aaa", b"\xff\x00", b"\n", KEY.encode()[:9]]

pieces_of_text = st.lists(
    st.one_of(
        st.sampled_from([value.encode() for value in VALUES]),
        st.sampled_from(PARTS),
        st.sampled_from([base64.b64encode(b"me:" + value.encode()) for value in VALUES]),
        st.binary(max_size=12),
    ),
    max_size=12,
).map(b"".join)


def in_pieces(scrubber: Scrubber, data: bytes, cuts: list[int], batch: int) -> bytes:
    stream = scrubber.stream(batch)
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    out = [stream.feed(data[a:b]) for a, b in itertools.pairwise(places)]
    return b"".join([*out, stream.finish()])


@given(pieces_of_text, st.lists(st.integers(0, 10_000), max_size=20), st.integers(0, 40))
def test_any_cut_into_pieces_gives_the_same_as_the_whole(data: bytes, cuts: list[int], batch: int) -> None:
    scrubber = Scrubber(VALUES)
    assert in_pieces(scrubber, data, cuts, batch) == scrubber.data(data)


@given(pieces_of_text)
def test_no_value_is_left_and_what_is_left_was_there_before(data: bytes) -> None:
    clean = Scrubber(VALUES).data(data)
    assert not any(value.encode() in clean for value in VALUES)
    rest = data
    for part in clean.split(b"***"):
        assert part in rest
        rest = rest[rest.index(part) + len(part) :]


@given(st.text(), st.binary())
def test_content_without_a_secret_is_unchanged(text: str, data: bytes) -> None:
    scrubber = Scrubber(["a-value-that-is-in-none-of-these"])
    assert scrubber.text(text) == text
    assert scrubber.data(data) == data
    assert in_pieces(scrubber, data, [1, 2, 3], 0) == data
    assert Scrubber().text(text) == text


@given(
    st.text(min_size=8, max_size=40).filter(lambda text: len(text.strip()) >= 8),
    st.binary(max_size=7),
    st.binary(max_size=7),
)
def test_every_form_of_a_value_is_found(value: str, before: bytes, after: bytes) -> None:
    scrubber = Scrubber([value])
    data = value.encode()
    forms = {
        value,
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(data).decode(),
        base64.b64encode(data).decode().rstrip("="),
        quote(value, safe=""),
        quote(value),
        quote_plus(value),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(value))[3:-3],
    }
    for form in forms:
        assert scrubber.text(f"<{form}>") == "<***>", form
    # Within something longer, but for the characters that hold bits of both.
    within = base64.b64encode(before + data + after).decode()
    clean = scrubber.text(within)
    assert "***" in clean
    assert len(clean.replace("***", "")) <= (len(before) + len(after)) * 8 // 6 + 8


def test_base64_as_programs_print_it_is_found() -> None:
    key = "sk-" + "0123456789abcdefghijklmnopqrstuvwxyz" * 4
    printed = base64.encodebytes(key.encode())
    assert printed.count(b"\n") > 1
    assert Scrubber([key]).data(printed).replace(b"\n", b"").strip(b"*=") == b""


@pytest.mark.parametrize("value", ["", "short", "1234567", "       x", "true"])
def test_too_short_values_are_not_masked(value: str) -> None:
    text = f"1 true short 1234567 {value} x"
    assert Scrubber([value]).text(text) == text


def test_values_that_overlap_are_taken_out_together() -> None:
    scrubber = Scrubber(["abcdefgh", "fghij-klmnop", "aaaaaaaa"])
    assert scrubber.text("<abcdefghij-klmnop>") == "<***>"
    assert scrubber.text(f"<{'a' * 19}>") == "<***>"
    assert scrubber.text("<abcdefghabcdefgh>") == "<******>"


def test_the_lines_of_a_key_are_found_one_by_one() -> None:
    lines = [
        "-----BEGIN KEY-----",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
        "short",
        "BKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
    ]
    scrubber = Scrubber(["\n".join(lines) + "\n"])
    assert scrubber.text("\r\n".join(lines)) == "***\r\n***\r\nshort\r\n***"
    assert scrubber.text("\n".join(lines) + "\n") == "***"


def test_truncated_values_at_the_ends_of_a_text_are_masked() -> None:
    scrubber = Scrubber(["sk-0123456789abcdef"])
    assert scrubber.text("it says sk-01234567") == "it says ***"
    assert scrubber.text("6789abcdef it says") == "*** it says"
    assert scrubber.text("it says sk-0123") == "it says sk-0123"


def test_a_value_that_begins_before_what_is_shown_is_known() -> None:
    scrubber = Scrubber(["sk-0123456789abcdef"])
    data = b"before sk-0123456789abcdef after"
    assert scrubber.data(data, 12) == b"*** after"
    assert scrubber.data(data, 26) == b" after"
    assert scrubber.data(data, 2) == b"fore *** after"


def test_a_text_with_half_a_surrogate_pair_is_accepted() -> None:
    scrubber = Scrubber(["sk-0123456789abcdef", "\ud800 and more text"])
    assert scrubber.text("\udfff sk-0123456789abcdef \ud83d") == "\udfff *** \ud83d"
    assert scrubber.text("<\ud800 and more text>") == "<***>"


def test_a_long_stream_is_held_in_a_little_memory() -> None:
    scrubber = Scrubber(["sk-0123456789abcdef"])
    chunk = (b"x" * 1000 + b"sk-0123456789abcdef") * 500

    async def source() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield chunk

    async def drained() -> int:
        total = 0
        async for piece in scrubber.pieces(source()):
            assert b"sk-0" not in piece
            total += len(piece)
        return total

    tracemalloc.start()
    try:
        total = asyncio.run(drained())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == 40 * 500 * (1000 + len("***"))
    assert peak < 8 * 1024**2
