"""The heads of requests and answers: the app sees those of HTTP/2 as it would those of HTTP/1.1."""

import re
from collections.abc import Iterable
from urllib.parse import unquote

import httptools
from starlette.types import Scope

from benchyard.errors import UsageError

Header = tuple[bytes, bytes]

_METHODS = frozenset(
    b"ACL BIND CHECKOUT COPY DELETE GET HEAD LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MOVE "
    b"NOTIFY OPTIONS PATCH POST PROPFIND PROPPATCH PURGE PUT QUERY REBIND REPORT SEARCH SOURCE SUBSCRIBE "
    b"TRACE UNBIND UNLINK UNLOCK UNSUBSCRIBE".split()
)
"""Those that the parser of HTTP/1.1 knows: metrics are kept by method, and there must be an end to them."""
_ONE_HOP = frozenset([b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"])
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_CONTROLS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_TARGET = re.compile(rb"/[!-~]*|\*")


def asked(scope: Scope, given: Iterable[Header], *, is_whole: bool) -> Scope:
    """The scope of a request with these headers; raises UsageError where it cannot be one.

    `scope` is what the connection says of all its requests, `is_whole` that there is no body.
    """
    pairs = [(bytes(name), bytes(value)) for name, value in given]
    pseudo = {name: value for name, value in pairs if name.startswith(b":")}
    method, target = pseudo.get(b":method", b""), pseudo.get(b":path", b"")
    if method not in _METHODS or _TARGET.fullmatch(target) is None or b":protocol" in pseudo:
        raise _unreadable()
    if any(_CONTROLS.search(value) or (is_whole and _tells_a_body(name, value)) for name, value in pairs):
        raise _unreadable()
    path, query = _parsed(target)
    return {
        **scope,
        "type": "http",
        "http_version": "2",
        "method": method.decode(),
        "path": scope["root_path"] + unquote(path.decode()),
        "raw_path": scope["root_path"].encode() + path,
        "query_string": query,
        "headers": _headers(pairs, pseudo.get(b":authority"), is_whole=is_whole),
    }


def _tells_a_body(name: bytes, value: bytes) -> bool:
    return name == b"content-length" and value.strip(b"0") != b""


def _parsed(target: bytes) -> tuple[bytes, bytes]:
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError as error:
        raise _unreadable() from error
    return url.path or b"", url.query or b""


def _headers(pairs: list[Header], authority: bytes | None, *, is_whole: bool) -> list[Header]:
    headers = [(name, value) for name, value in pairs if not name.startswith(b":")]
    if authority is not None:
        headers = [(b"host", authority), *(each for each in headers if each[0] != b"host")]
    if not is_whole and not any(name == b"content-length" for name, _ in headers):
        # A body whose length nobody knows yet; whoever passes it on has to say so.
        headers.append((b"transfer-encoding", b"chunked"))
    return headers


def answered(status: int, given: Iterable[Header]) -> list[Header]:
    """The headers of an answer, as they go out; raises RuntimeError for what must not.

    They are checked here as a whole: one that failed while it is packed would spoil all that follow.
    """
    headers = [(name.lower(), value.strip(b" \t")) for name, value in given]
    for name, value in headers:
        if _NAME.fullmatch(name) is None or _CONTROLS.search(value):
            raise RuntimeError("an answer's header is none")
    return [(b":status", b"%d" % status), *(each for each in headers if each[0] not in _ONE_HOP)]


def _unreadable() -> UsageError:
    return UsageError("this is not a request the server can read; it speaks HTTP/1.1 and HTTP/2")
