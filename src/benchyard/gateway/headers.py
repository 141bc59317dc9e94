"""Which headers pass through, and which key goes in their place. Pure."""

import re

from multidict import CIMultiDict, CIMultiDictProxy

from benchyard.gateway import paths
from benchyard.gateway.answers import READABLE
from benchyard.gateway.grants import Upstream
from benchyard.gateway.masking import Mask

KEY_HEADERS = ("x-api-key", "authorization", "x-goog-api-key", "api-key")
"""Where clients put what they take for a key, in the order in which it is looked for."""
KEY_PARAMETER = "key"
_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OURS = frozenset({"host", "content-length", "expect", "accept-encoding", "cookie"})
"""Of a request: set by us, or not for others. A cookie of one devbox is nobody else's."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"})
"""What may be asked of an upstream: TRACE, and what is like it, would have it answer with the key."""
_METHOD_HEADERS = frozenset({"x-http-method-override", "x-http-method", "x-method-override"})
"""Some servers take these for the method."""

_NOT_SENT = _HOP | _OURS | set(KEY_HEADERS)
_HALVES = re.compile("[\ud800-\udfff]")

Headers = CIMultiDictProxy[str] | CIMultiDict[str]


def token_of(headers: Headers, query: str) -> str | None:
    """What a request shows as its key."""
    for name in KEY_HEADERS:
        value = headers.get(name)
        if value and name == "authorization":
            scheme, _, value = value.partition(" ")
            value = value.strip() if scheme.lower() == "bearer" else None
        if value:
            return value
    return paths.parameter(query, KEY_PARAMETER)


def to_upstream(headers: Headers, upstream: Upstream, token: str, *, plain: bool = False) -> CIMultiDict[str]:
    """What is passed on of a request; `plain` asks for an answer that is not compressed."""
    dropped = _NOT_SENT.union(_named(headers), (upstream.header.lower(),), map(str.lower, upstream.headers))
    passed = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() not in dropped
        and token not in value
        and _is_sendable(value)
        and not (name.lower() in _METHOD_HEADERS and value.strip().upper() not in METHODS)
    )
    if (encodings := headers.get("accept-encoding")) is not None:
        passed["Accept-Encoding"] = "identity" if plain else _readable(encodings)
    passed.update(upstream.headers)
    if upstream.key is not None:
        passed[upstream.header] = upstream.prefix + upstream.key
    return passed


def to_agent(headers: Headers, mask: Mask) -> CIMultiDict[str]:
    """What is passed back of an answer, without keys."""
    dropped = _HOP | _named(headers)
    return CIMultiDict(
        (mask.text(name), mask.text(value))
        for name, value in headers.items()
        if name.lower() not in dropped and _is_sendable(value)
    )


def _named(headers: Headers) -> set[str]:
    """Headers that are meant for the next hop only, because the sender says so."""
    if "connection" not in headers:
        return set()
    said = ",".join(headers.getall("connection", []))
    return {name.strip().lower() for name in said.split(",")} - {"", "content-length", "content-type"}


def _readable(encodings: str) -> str:
    """Of the encodings a client takes, those we can read for the record."""
    asked = [each.strip() for each in encodings.split(",")]
    return ", ".join(each for each in asked if each.partition(";")[0].strip() in READABLE) or "identity"


def _is_sendable(value: str) -> bool:
    """Whether a value is text in UTF-8; the library that sends it takes no other."""
    return value.isascii() or _HALVES.search(value) is None
