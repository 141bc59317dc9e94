"""Parts of a request: its target and headers, and the errors that refuse it.

The server imports this module too, so it must not import aiohttp.
"""

import json
import re
from dataclasses import dataclass
from urllib.parse import unquote

from multidict import CIMultiDict, CIMultiDictProxy

from benchyard.gateway.dialects.base import REFUSAL_STATUS, Dialect, Refusal
from benchyard.gateway.dialects.model_replies import READABLE_ENCODINGS
from benchyard.gateway.grants import Upstream
from benchyard.gateway.proxy.masks import KeyMask


class Refused(Exception):
    """A request that the gateway refuses and answers by itself."""

    def __init__(self, kind: Refusal, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status or REFUSAL_STATUS[kind]

    def body(self, dialect: Dialect | None) -> bytes:
        """Return the body of the answer."""
        if dialect is None:
            return json.dumps({"error": {"type": self.kind, "message": self.message}}).encode()
        return json.dumps(dialect.refusal(self.kind, self.message)).encode()

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        headers = {"content-type": "application/json"}
        # Some clients would retry a 401 for minutes.
        return headers if self.kind == "unavailable" else {**headers, "x-should-retry": "false"}


_TARGET = re.compile(r"/[\x21-\x7e]*")
_ROUTE = re.compile(r"[A-Za-z0-9._~-]+")
_DECODINGS = 3
_METHODS = {"GET": re.compile(r".*/models(/[^/:]+)?"), "POST": re.compile(r".*(/count_tokens|:countTokens)")}
"""Paths of requests that agents send beside calls of models: lists of models, and counts of tokens."""


@dataclass(frozen=True)
class Target:
    """The target of a request."""

    route: str
    path: str
    """Path as written, from the slash after the route."""
    plain: str
    """The same path, decoded."""
    query: str
    """Query as written."""


def target_of(written: str) -> Target:
    """Parse the target of a request; raises Refused unless it is a plain path."""
    place, _, query = written.partition("?")
    if not _TARGET.fullmatch(written) or "#" in written or place.startswith("//"):
        raise Refused("bad_request", "the gateway takes plain paths only, as `/openai/v1/responses`")
    route, slash, rest = place[1:].partition("/")
    if route and not _ROUTE.fullmatch(route):
        raise Refused("bad_request", "the first part of the path must be the name of a route")
    for segment in rest.split("/"):
        _check(segment)
    return Target(route, slash + rest, unquote(slash + rest), query)


def _check(segment: str) -> None:
    """Refuse segments that could leave the path, even if encoded several times."""
    meaning = segment
    for _ in range(_DECODINGS):
        if meaning in (".", "..") or re.search(r"[/\\\x00-\x1f\x7f]", meaning):
            raise Refused("bad_request", "a path with `..` or an encoded slash leads nowhere")
        meaning = unquote(meaning)


def is_greeting(method: str, target: Target) -> bool:
    """Tell whether a request only checks that a server is there."""
    if method == "HEAD" and target.plain in ("", "/"):
        return True
    return method in ("HEAD", "GET") and target.plain == "/api/hello"


def is_lookup(method: str, target: Target) -> bool:
    """Tell whether a request is one of those that agents send beside calls of models."""
    pattern = _METHODS.get(method)
    return pattern is not None and pattern.fullmatch(target.plain) is not None


def query_without(query: str, name: str, secret: str) -> str:
    """Drop from a query the named parameter and any that contains the secret; keep the rest as written."""
    parts = []
    for pair in query.split("&"):
        key, _, value = pair.partition("=")
        if unquote(key) != name and secret not in unquote(value):
            parts.append(pair)
    return "&".join(parts)


def query_parameter(query: str, name: str) -> str | None:
    """Return the value of a query's parameter; None if it is missing."""
    for pair in query.split("&"):
        key, _, value = pair.partition("=")
        if unquote(key) == name:
            return unquote(value)
    return None


KEY_HEADERS = ("x-api-key", "authorization", "x-goog-api-key", "api-key")
"""Headers in which clients send their key, in the order in which they are searched."""
KEY_PARAMETER = "key"
HOP_HEADERS = frozenset(
    [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ]
)
"""Headers that belong to a single connection."""
_OURS = frozenset({"host", "content-length", "expect", "accept-encoding", "cookie"})
"""Request headers that the gateway sets itself or drops. A devbox's cookies must not reach other devboxes."""

FORWARDED_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"})
"""Methods that may be forwarded; TRACE and the like would make the upstream answer with the key."""
_METHOD_HEADERS = frozenset({"x-http-method-override", "x-http-method", "x-method-override"})
"""Headers that some servers accept as the method."""

_RANGES = frozenset({"range", "if-range", "request-range", "accept-charset"})
"""Request headers by which a client gets an answer in pieces, or spelled so that keys in it are not found."""

_NOT_SENT = HOP_HEADERS | _OURS | _RANGES | set(KEY_HEADERS)
_HALVES = re.compile("[\ud800-\udfff]")

Headers = CIMultiDictProxy[str] | CIMultiDict[str]


def token_of(headers: Headers, query: str) -> str | None:
    """Return the token of a request, from the place of its key; None if there is none."""
    for name in KEY_HEADERS:
        value = headers.get(name)
        if value and name == "authorization":
            scheme, _, value = value.partition(" ")
            value = value.strip() if scheme.lower() == "bearer" else None
        if value:
            return value
    return query_parameter(query, KEY_PARAMETER)


def headers_to_upstream(
    headers: Headers, upstream: Upstream, token: str, *, plain: bool = False
) -> CIMultiDict[str]:
    """Return the request headers to pass on; `plain` asks for an answer that is not compressed."""
    dropped = _NOT_SENT.union(
        _next_hop_headers(headers), (upstream.header.lower(),), map(str.lower, upstream.headers)
    )
    passed = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() not in dropped
        and token not in value
        and _is_sendable(value)
        and not (name.lower() in _METHOD_HEADERS and value.strip().upper() not in FORWARDED_METHODS)
    )
    if (encodings := headers.get("accept-encoding")) is not None:
        passed["Accept-Encoding"] = "identity" if plain else _readable(encodings)
    passed.update(upstream.headers)
    if upstream.key is not None:
        passed[upstream.header] = upstream.prefix + upstream.key
    return passed


def headers_to_agent(headers: Headers, mask: KeyMask) -> CIMultiDict[str]:
    """Return the answer headers to pass back, without keys."""
    dropped = HOP_HEADERS | _next_hop_headers(headers)
    return CIMultiDict(
        (mask.text(name), mask.text(value))
        for name, value in headers.items()
        if name.lower() not in dropped and _is_sendable(value)
    )


def _next_hop_headers(headers: Headers) -> set[str]:
    """Return the names of headers that the sender declares to be for the next hop only."""
    if "connection" not in headers:
        return set()
    said = ",".join(headers.getall("connection", []))
    return {name.strip().lower() for name in said.split(",")} - {"", "content-length", "content-type"}


def _readable(encodings: str) -> str:
    """Return the encodings accepted by the client that can be decoded for the record."""
    names = [part.strip() for part in encodings.split(",")]
    return (
        ", ".join(name for name in names if name.partition(";")[0].strip() in READABLE_ENCODINGS)
        or "identity"
    )


def _is_sendable(value: str) -> bool:
    """Tell whether a value is valid UTF-8; the sending library accepts no other."""
    return value.isascii() or _HALVES.search(value) is None
