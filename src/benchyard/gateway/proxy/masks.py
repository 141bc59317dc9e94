"""Masks keys in answers, even if chunks split them; the length stays, so that headers remain valid.

An upstream that echoes its request would show its key to the devbox. A key is found in plain form, escaped
for JSON or a URL, and as base64 within any text. All other bytes pass unchanged.
"""

import base64
import json
import re
import zlib
from collections.abc import Iterable
from typing import Protocol
from urllib.parse import quote, quote_plus

from benchyard.gateway.dialects.model_answers import MOST_DECODED
from benchyard.gateway.grants import Upstream

SHORTEST = 8
"""Length of the shortest key that is masked; shorter values would be found in any text by chance."""
SHOWN = "the answer contained the key of its upstream"
UNREADABLE = "the answer is encoded in a way in which it cannot be searched for the key"
_STAR = b"*"
_ZLIB_AUTO = 47
_MOST_AT_ONCE = 4 * 1024 * 1024


class KeyShown(Exception):
    """An answer that cannot be passed on, because it contains a key that cannot be masked."""


class KeyMask:
    """The keys that were sent to one upstream."""

    def __init__(self, keys: Iterable[str]) -> None:
        forms = {form for key in keys if len(key) >= SHORTEST for form in _forms(key)}
        # Longer forms first: a form may be part of another.
        self._forms = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._forms))) if self._forms else None
        starts = b"".join(re.escape(form[:1]) for form in self._forms)
        self._start = re.compile(b"[" + starts + b"]") if starts else None
        self._prefixes = frozenset(form[:end] for form in self._forms for end in range(1, len(form)))
        self._longest = len(self._forms[0]) if self._forms else 0

    def __bool__(self) -> bool:
        return bool(self._forms)

    def found(self, data: bytes) -> bool:
        """Tell whether the data contains a key."""
        # Search one form after another: one pattern of all forms takes ten times as long.
        return any(form in data for form in self._forms)

    def data(self, data: bytes) -> bytes:
        """Return the data with keys masked, at the same length."""
        if self._pattern is None or not self.found(data):
            return data
        return self._pattern.sub(lambda match: _STAR * len(match[0]), data)

    def text(self, text: str) -> str:
        """Return the text with keys masked."""
        if self._pattern is None:
            return text
        encoded = text.encode(errors="surrogateescape")
        return self.data(encoded).decode(errors="surrogateescape") if self.found(encoded) else text

    def begun(self, data: bytes) -> int:
        """Return how many bytes at the end of the data may be the beginning of a key."""
        if self._start is None:
            return 0
        window = data[-(self._longest - 1) :]
        for match in self._start.finditer(window):
            if window[match.start() :] in self._prefixes:
                return len(window) - match.start()
        return 0


class KeySearch(Protocol):
    """Search for keys in an answer, chunk by chunk."""

    def feed(self, chunk: bytes) -> bytes:
        """Return the bytes that may be passed on by now; raises KeyShown."""

    def end(self) -> bytes:
        """Return the bytes held back until the end; raises KeyShown."""


class PlainSearch:
    """Search in an uncompressed answer: keys in it become stars."""

    def __init__(self, mask: KeyMask) -> None:
        self._mask = mask
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the bytes that may be passed on by now."""
        data = self._mask.data(self._held + chunk if self._held else chunk)
        held = self._mask.begun(data)
        self._held = data[len(data) - held :] if held else b""
        return data[: len(data) - held] if held else data

    def end(self) -> bytes:
        """Return the bytes held back until the end."""
        held, self._held = self._held, b""
        return held


class CompressedSearch:
    """Search in a compressed answer: it passes unchanged, up to the point where a key appears in it."""

    def __init__(self, mask: KeyMask) -> None:
        self._mask = mask
        self._decoder = zlib.decompressobj(_ZLIB_AUTO)
        self._left = MOST_DECODED
        self._is_raw = False
        self._is_begun = False
        self._undecoded = b""
        """Bytes that came before any output of the decoder."""
        self._decoded_end = self._end = b""
        """Possible beginnings of a key at the end: of the decoded data, and of the compressed bytes."""
        self._held = bytearray()

    def feed(self, chunk: bytes) -> bytes:
        """Return the bytes that may be passed on by now; raises KeyShown."""
        self._held += chunk
        # Search the raw bytes too: data may follow the end of the compressed part.
        self._end = self._looked_at(self._end + chunk)
        rest = chunk
        while rest:
            decoded, rest = self._decoded(rest)
            self._left -= len(decoded)
            if self._left < 0:
                raise KeyShown(UNREADABLE)
            self._decoded_end = self._looked_at(self._decoded_end + decoded)
        if self._end or self._decoded_end:
            # The decoded data may end with the beginning of a key: hold it until more arrives.
            return b""
        passed, self._held = bytes(self._held), bytearray()
        return passed

    def _looked_at(self, data: bytes) -> bytes:
        """Return the end of the data that may be the beginning of a key; raises KeyShown for a whole key."""
        if self._mask.found(data):
            raise KeyShown(SHOWN)
        begun = self._mask.begun(data)
        return data[len(data) - begun :] if begun else b""

    def _decoded(self, data: bytes) -> tuple[bytes, bytes]:
        """Return some decoded data, and the data left to decode."""
        if self._decoder.eof:
            # After a gzip member another one may follow; after any other end, clients ignore the rest.
            self._decoder = zlib.decompressobj(_ZLIB_AUTO)
        try:
            decoded = self._decoder.decompress(data, _MOST_AT_ONCE)
        except zlib.error as error:
            if self._is_raw or self._is_begun:
                raise KeyShown(UNREADABLE) from error
            # Some servers send `deflate` without its zlib wrapper.
            self._is_raw = True
            self._decoder = zlib.decompressobj(-zlib.MAX_WBITS)
            return self._decoded(self._undecoded + data)
        if decoded:
            self._is_begun, self._undecoded = True, b""
        elif not self._is_begun:
            self._undecoded += data
        return decoded, self._decoder.unconsumed_tail or self._decoder.unused_data

    def end(self) -> bytes:
        """Return the bytes held back until the end."""
        held, self._held = bytes(self._held), bytearray()
        return held


def mask_of(upstream: Upstream) -> KeyMask:
    """Return the mask of an upstream's key and secrets."""
    return KeyMask([*([upstream.key] if upstream.key else []), *upstream.secrets])


def key_search(mask: KeyMask, encoding: str | None) -> KeySearch | None:
    """Return the search for an answer of this encoding; None if there is no key. Raises KeyShown."""
    if not mask:
        return None
    known = (encoding or "identity").strip().lower()
    if known == "identity":
        return PlainSearch(mask)
    if known in ("gzip", "x-gzip", "deflate"):
        return CompressedSearch(mask)
    raise KeyShown(UNREADABLE)


_KEPT_IN_URLS = ("", "/", "=", "!*'()", "/:@+=", ";,/?:@&=+$#!*'()")
"""Characters that encoders of URLs leave as they are, beside letters, digits and `_.-~`."""
_ESCAPED_IN_JSON = ("", "<>&", "=<>&'", "\"+<>&'`", "\"'/<>&", "=+/<>&'`")
"""Characters that encoders of JSON escape beside those that they must: Go, Gson, .NET, PHP, and others."""


def _forms(key: str) -> set[bytes]:
    plain = key.encode(errors="surrogateescape")
    found = {form.encode(errors="surrogateescape") for form in (*_json_forms(key), *_url_forms(key))}
    return {form for form in (plain, *found, *_base64_core(plain)) if len(form) >= SHORTEST}


def _json_forms(key: str) -> set[str]:
    """Return the key as encoders of JSON write it, with and without escapes that they may leave out."""
    forms = set()
    for text in (json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1]):
        for characters in _ESCAPED_IN_JSON:
            # A quote has a backslash of its own by now.
            whole = text.replace('\\"', '"') if '"' in characters else text
            for digits in ("04x", "04X"):
                escapes = {ord(each): f"\\u{ord(each):{digits}}" for each in characters}
                form = whole.translate(escapes)
                forms |= {_with_digits(form, digits), _with_digits(form.replace("/", "\\/"), digits)}
    return forms


def _with_digits(text: str, digits: str) -> str:
    """Write the digits of all escapes in lower or upper case; `digits` is `04x` or `04X`."""
    change = str.lower if digits == "04x" else str.upper
    return _JSON_ESCAPE.sub(lambda match: f"{match[1]}u{change(match[2])}", text)


_JSON_ESCAPE = re.compile(r"((?<!\\)(?:\\\\)*\\)u([0-9a-fA-F]{4})")
_URL_ESCAPE = re.compile("%[0-9A-F]{2}")


def _url_forms(key: str) -> set[str]:
    """Return the key as encoders of URLs and of forms write it; only the digits of escapes have two cases."""
    forms = {write(key, safe=kept) for write in (quote, quote_plus) for kept in _KEPT_IN_URLS}
    return forms | {_URL_ESCAPE.sub(lambda match: match[0].lower(), form) for form in forms}


def _base64_core(plain: bytes) -> set[bytes]:
    """Return the base64 of these bytes that does not depend on their neighbours, for each alignment."""
    forms = set()
    for offset in range(3):
        whole = base64.b64encode(bytes(offset) + plain)
        first, last = -(-offset * 8 // 6), (offset + len(plain)) * 8 // 6
        sure = whole[first:last]
        forms |= {sure, sure.replace(b"+", b"-").replace(b"/", b"_")}
    return forms
