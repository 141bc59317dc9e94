"""Takes keys out of answers, however they are cut into pieces; the length stays, so that heads stay true.

An upstream that answers with what it was sent would show its key to the devbox. Known are a key as it is,
escaped for JSON or an address, and as base64 within anything. What is not a key passes unchanged.
"""

import base64
import json
import re
import zlib
from collections.abc import Iterable
from typing import Protocol
from urllib.parse import quote

from benchyard.gateway.dialects.model_answers import MOST_DECODED
from benchyard.gateway.grants import Upstream

SHORTEST = 8
"""Shorter values are left alone: they would be found in any text by chance."""
SHOWN = "the answer showed the key of its upstream"
UNREADABLE = "the answer is encoded in a way in which it cannot be searched for the key"
_STAR = b"*"
_ZLIB_AUTO = 47
_MOST_AT_ONCE = 4 * 1024 * 1024


class KeyShown(Exception):
    """An answer that cannot be passed on: a key is in it, where it cannot be masked."""


class KeyMask:
    """The keys that one upstream was sent."""

    def __init__(self, keys: Iterable[str]) -> None:
        forms = {form for key in keys if len(key) >= SHORTEST for form in _forms(key)}
        # Longer ones first: one may be a part of another.
        self._forms = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._forms))) if self._forms else None
        starts = b"".join(re.escape(form[:1]) for form in self._forms)
        self._start = re.compile(b"[" + starts + b"]") if starts else None
        self._prefixes = frozenset(form[:end] for form in self._forms for end in range(1, len(form)))
        self._longest = len(self._forms[0]) if self._forms else 0

    def __bool__(self) -> bool:
        return bool(self._forms)

    def found(self, data: bytes) -> bool:
        """Whether a key is in the data."""
        # One after another: a pattern of them all takes ten times as long.
        return any(form in data for form in self._forms)

    def data(self, data: bytes) -> bytes:
        """The data without keys, as long as before."""
        if self._pattern is None or not self.found(data):
            return data
        return self._pattern.sub(lambda match: _STAR * len(match[0]), data)

    def text(self, text: str) -> str:
        """The same of text."""
        if self._pattern is None:
            return text
        encoded = text.encode(errors="surrogateescape")
        return self.data(encoded).decode(errors="surrogateescape") if self.found(encoded) else text

    def begun(self, data: bytes) -> int:
        """How many bytes at the end of the data may be the beginning of a key."""
        if self._start is None:
            return 0
        window = data[-(self._longest - 1) :]
        for match in self._start.finditer(window):
            if window[match.start() :] in self._prefixes:
                return len(window) - match.start()
        return 0


class KeySearch(Protocol):
    """An answer on its way."""

    def feed(self, chunk: bytes) -> bytes:
        """What may be passed on by now; raises KeyShown."""

    def end(self) -> bytes:
        """What was held back, at the end; raises KeyShown."""


class PlainSearch:
    """An answer as it is: keys in it become stars."""

    def __init__(self, mask: KeyMask) -> None:
        self._mask = mask
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """What may be passed on by now."""
        data = self._mask.data(self._held + chunk if self._held else chunk)
        held = self._mask.begun(data)
        self._held = data[len(data) - held :] if held else b""
        return data[: len(data) - held] if held else data

    def end(self) -> bytes:
        """What was held back, at the end."""
        held, self._held = self._held, b""
        return held


class CompressedSearch:
    """An answer that is compressed: it passes as it is, up to where a key would be in it."""

    def __init__(self, mask: KeyMask) -> None:
        self._mask = mask
        self._decoder = zlib.decompressobj(_ZLIB_AUTO)
        self._left = MOST_DECODED
        self._is_raw = False
        self._is_begun = False
        self._undecoded = b""
        """What came before anything could be decoded."""
        self._decoded_end = self._end = b""
        """What may be the beginning of a key: of what it decodes to, and of its bytes as they are."""
        self._held = bytearray()

    def feed(self, chunk: bytes) -> bytes:
        """What may be passed on by now; raises KeyShown."""
        self._held += chunk
        # As it is, too: something may follow the end of what is compressed.
        self._end = self._looked_at(self._end + chunk)
        rest = chunk
        while rest:
            decoded, rest = self._decoded(rest)
            self._left -= len(decoded)
            if self._left < 0:
                raise KeyShown(UNREADABLE)
            self._decoded_end = self._looked_at(self._decoded_end + decoded)
        if self._end or self._decoded_end:
            # What it decodes to may be the beginning of a key: it waits for what follows.
            return b""
        passed, self._held = bytes(self._held), bytearray()
        return passed

    def _looked_at(self, data: bytes) -> bytes:
        """What at the end of the data may be the beginning of a key; raises KeyShown for a whole one."""
        if self._mask.found(data):
            raise KeyShown(SHOWN)
        begun = self._mask.begun(data)
        return data[len(data) - begun :] if begun else b""

    def _decoded(self, data: bytes) -> tuple[bytes, bytes]:
        """Some of what it decodes to, and what is left to decode."""
        if self._decoder.eof:
            # Of gzip, another member may follow; after anything else, nobody reads on.
            self._decoder = zlib.decompressobj(_ZLIB_AUTO)
        try:
            decoded = self._decoder.decompress(data, _MOST_AT_ONCE)
        except zlib.error as error:
            if self._is_raw or self._is_begun:
                raise KeyShown(UNREADABLE) from error
            # `deflate` comes without its wrapper from some servers.
            self._is_raw = True
            self._decoder = zlib.decompressobj(-zlib.MAX_WBITS)
            return self._decoded(self._undecoded + data)
        if decoded:
            self._is_begun, self._undecoded = True, b""
        elif not self._is_begun:
            self._undecoded += data
        return decoded, self._decoder.unconsumed_tail or self._decoder.unused_data

    def end(self) -> bytes:
        """What was held back, at the end."""
        held, self._held = bytes(self._held), bytearray()
        return held


def mask_of(upstream: Upstream) -> KeyMask:
    """What must not come back from an upstream."""
    return KeyMask([*([upstream.key] if upstream.key else []), *upstream.secrets])


def key_search(mask: KeyMask, encoding: str | None) -> KeySearch | None:
    """How an answer of this encoding is searched; None where there is no key. Raises KeyShown."""
    if not mask:
        return None
    known = (encoding or "identity").strip().lower()
    if known == "identity":
        return PlainSearch(mask)
    if known in ("gzip", "x-gzip", "deflate"):
        return CompressedSearch(mask)
    raise KeyShown(UNREADABLE)


def _forms(key: str) -> set[bytes]:
    plain = key.encode(errors="surrogateescape")
    escaped = {json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1], key.replace("/", "\\/")}
    quoted = {quote(key, safe=""), quote(key), quote(key, safe="").lower()}
    forms = {plain, *(form.encode(errors="surrogateescape") for form in escaped | quoted)}
    return {form for form in (*forms, *_base64_core(plain)) if len(form) >= SHORTEST}


def _base64_core(plain: bytes) -> set[bytes]:
    """What is sure of its base64, wherever in something longer it begins."""
    forms = set()
    for offset in range(3):
        whole = base64.b64encode(bytes(offset) + plain)
        first, last = -(-offset * 8 // 6), (offset + len(plain)) * 8 // 6
        sure = whole[first:last]
        forms |= {sure, sure.replace(b"+", b"-").replace(b"/", b"_")}
    return forms
