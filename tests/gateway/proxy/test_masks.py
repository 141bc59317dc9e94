"""An upstream that answers with what it was sent does not show its key to the devbox."""

import base64
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as some

from benchyard.gateway.grants import Upstream
from benchyard.gateway.proxy.masks import CompressedSearch, KeyMask, KeyShown, PlainSearch, mask_of
from tests.gateway.station import KEY, TOKEN, Station, live

ODD = 'k/e"y+with é 1234'
ASKED = {"x-api-key": TOKEN}


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("key", [KEY, ODD, "aaaaaaab", "abababababac"])
def test_a_key_is_found_however_it_is_cut_and_spelled(key: str, size: int) -> None:
    forms = [
        key.encode(),
        json.dumps(key)[1:-1].encode(),
        quote(key, safe="").encode(),
        *(base64.b64encode(b"x" * offset + key.encode() + b"tail") for offset in range(4)),
    ]
    mask = KeyMask([key])
    for form in forms:
        data = b"aaaa before " + form + b" " + form + b" after " + key.encode()[:-1]
        plain = PlainSearch(mask)
        passed = b"".join(plain.feed(piece) for piece in pieces(data, size)) + plain.end()
        assert len(passed) == len(data)
        assert not mask.found(passed)
        assert passed.startswith(b"aaaa before ")
        # What only begins like a key passes.
        assert passed.endswith(b" after " + key.encode()[:-1])


SPELLED = [
    b"AbCd%2FEfGh%2BIjKl%3D%3D",
    b"AbCd%2fEfGh%2bIjKl%3d%3d",
    b"AbCd/EfGh%2bIjKl%3d%3d",
    b"AbCd%2fEfGh%2bIjKl==",
    b"AbCd/EfGh+IjKl\\u003d\\u003d",
    b"AbCd/EfGh+IjKl\\u003D\\u003D",
    b"AbCd\\/EfGh+IjKl\\u003d\\u003d",
    b"AbCd/EfGh\\u002BIjKl==",
    b"AbCd\\u002fEfGh\\u002bIjKl\\u003d\\u003d",
]


@pytest.mark.parametrize("form", SPELLED)
def test_a_key_of_mixed_case_is_found_as_other_encoders_spell_it(form: bytes) -> None:
    mask = KeyMask(["AbCd/EfGh+IjKl=="])
    assert mask.data(b"before " + form + b" after") == b"before " + b"*" * len(form) + b" after"
    assert not mask.found(form.swapcase())


def test_escapes_in_a_key_with_quotes_keep_their_backslashes_apart() -> None:
    key = "a\"b<c\\u00ffé'd"
    told = json.dumps(key)[1:-1]
    html_safe = told.replace("<", "\\u003c").replace("'", "\\u0027")
    for form in (told, html_safe):
        assert KeyMask([key]).found(f"x{form}y".encode())


@given(some.lists(some.binary(max_size=200), max_size=20))
def test_bytes_without_a_key_pass_unchanged(chunks: list[bytes]) -> None:
    plain = PlainSearch(KeyMask(["\x00\x01\x02\x00\x01\x02\x00\x01\x03"]))
    assert b"".join([*map(plain.feed, chunks), plain.end()]) == b"".join(chunks)


@pytest.mark.parametrize("size", [1, 5, 10_000])
@pytest.mark.parametrize("wbits", [31, 15, -15])
def test_a_compressed_answer_is_cut_before_its_key(wbits: int, size: int) -> None:
    def packed(data: bytes) -> bytes:
        packer = zlib.compressobj(wbits=wbits)
        return packer.compress(data) + packer.flush()

    innocent = packed(b"some answer " * 1000 + KEY[:-1].encode())
    passing = CompressedSearch(KeyMask([KEY]))
    assert b"".join([*map(passing.feed, pieces(innocent, size)), passing.end()]) == innocent
    showing = CompressedSearch(KeyMask([KEY]))
    told: list[bytes] = []
    with pytest.raises(KeyShown):
        told.extend(map(showing.feed, pieces(packed(b"it is " + KEY.encode() + b" after " * 100), size)))
    got = zlib.decompressobj(wbits).decompress(b"".join(told))
    assert KEY[:2].encode() not in got


def test_a_key_behind_the_end_of_what_is_compressed_is_found() -> None:
    for data in (gzip.compress(b"well") + KEY.encode(), gzip.compress(b"well") + gzip.compress(KEY.encode())):
        with pytest.raises(KeyShown):
            CompressedSearch(KeyMask([KEY])).feed(data)


def test_too_short_keys_are_not_masked() -> None:
    assert not mask_of(Upstream("http://x", key="short"))
    assert mask_of(Upstream("http://x", key="short", secrets=("another-long-one",)))


@live
async def test_an_upstream_that_echoes_shows_no_key(tmp_path: Path) -> None:
    other = "value-of-a-custom-header"

    async def echo(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        told = json.dumps(dict(request.headers)).encode()
        headers = {"x-echo": request.headers["x-api-key"], "x-other": f"1 {other} 2"}
        if request.path.endswith("gzip"):
            return web.Response(body=gzip.compress(told), headers={**headers, "content-encoding": "gzip"})
        if request.path.endswith("br"):
            return web.Response(body=told, headers={**headers, "content-encoding": "br"})
        response = web.StreamResponse(headers=headers, reason=f"OK {KEY}")
        await response.prepare(request)
        for piece in pieces(told, 3):
            await response.write(piece)
        return response

    async with Station(tmp_path / "gateway") as station:
        upstream = station.upstream(any_path=True, headers={"x-custom": other}, secrets=(other,))
        await station.grant(upstreams={"any": upstream})
        station.behind.answer = echo
        reply = await station.ask("/any/plain", b"", ASKED)
        assert reply.status == 200
        shown = reply.body + repr(reply.headers).encode()
        assert KEY.encode() not in shown
        assert other.encode() not in shown
        assert json.loads(reply.body)["x-api-key"] == "*" * len(KEY)
        assert reply.headers["x-echo"] == "*" * len(KEY)
        try:
            got = (await station.ask("/any/gzip", b"", {**ASKED, "accept-encoding": "gzip"})).body
        except Exception as error:  # noqa: BLE001  (however the client tells that it broke off)
            got = str(error).encode()
        assert KEY.encode() not in got
        assert not got.startswith(b"\x1f\x8b") or KEY.encode() not in zlib.decompressobj(31).decompress(got)
        assert (await station.ask("/any/br", b"", ASKED)).status == 502


@live
@pytest.mark.parametrize("method", ["TRACE", "TRACK", "DEBUG", "trace"])
async def test_methods_that_answer_with_the_request_do_not_pass(tmp_path: Path, method: str) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant(upstreams={"any": station.upstream(any_path=True)})
        reply = await station.ask("/any/x", b"", ASKED, method=method)
        assert reply.status in (400, 405)
        await station.ask("/any/y", b"", {**ASKED, "X-HTTP-Method-Override": method, "x-kept": "1"})
        (seen,) = station.behind.seen
        assert "x-http-method-override" not in {name.lower() for name in seen.headers}
        assert seen.headers["x-kept"] == "1"


@live
async def test_an_echo_cannot_be_fetched_in_parts(tmp_path: Path) -> None:
    """Of two ranges neither holds the whole key, and together they do."""

    async def echo(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        told = request.headers["x-api-key"].encode()
        for name in ("range", "request-range"):
            if wanted := request.headers.get(name):
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                return web.Response(status=206, body=told[int(first) : int(last) + 1])
        return web.Response(body=told.decode().encode(request.headers.get("accept-charset", "utf-8")))

    async with Station(tmp_path / "gateway") as station:
        await station.grant(upstreams={"any": station.upstream(any_path=True)})
        station.behind.answer = echo
        for name in ("Range", "request-range"):
            parts = [
                await station.ask("/any/x", b"", {**ASKED, name: f"bytes={at}-{at + 3}", "if-range": "x"})
                for at in range(0, len(KEY), 4)
            ]
            assert KEY.encode() not in b"".join(part.body for part in parts)
        assert (await station.ask("/any/x", b"", {**ASKED, "accept-charset": "utf-16"})).body == b"*" * len(
            KEY
        )
