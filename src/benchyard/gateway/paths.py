"""Where a request goes: its route, and the rest of its path, which must not leave the upstream's. Pure."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from benchyard.gateway.refusals import Refused

_TARGET = re.compile(r"/[\x21-\x7e]*")
_ROUTE = re.compile(r"[A-Za-z0-9._~-]+")
_DECODINGS = 3
_METHODS = {"GET": re.compile(r".*/models(/[^/:]+)?"), "POST": re.compile(r".*(/count_tokens|:countTokens)")}
"""What agents ask beside calls of models: which there are, and how long a text is."""


@dataclass(frozen=True)
class Target:
    """What a request asks for."""

    route: str
    path: str
    """As it was written, from the slash after the route."""
    plain: str
    """The same, decoded: what it means."""
    query: str
    """As it was written."""


def target_of(written: str) -> Target:
    """The parts of a request's target; raises Refused for whatever is no plain path."""
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
    """Refuse what could climb out of a path, however often it is encoded."""
    meaning = segment
    for _ in range(_DECODINGS):
        if meaning in (".", "..") or re.search(r"[/\\\x00-\x1f\x7f]", meaning):
            raise Refused("bad_request", "a path with `..` or an encoded slash leads nowhere")
        meaning = unquote(meaning)


def is_greeting(method: str, target: Target) -> bool:
    """Whether it only asks if anybody is there."""
    if method == "HEAD" and target.plain in ("", "/"):
        return True
    return method in ("HEAD", "GET") and target.plain == "/api/hello"


def is_reading(method: str, target: Target) -> bool:
    """Whether it asks for what is no call of a model, but goes with them."""
    pattern = _METHODS.get(method)
    return pattern is not None and pattern.fullmatch(target.plain) is not None


def without(query: str, name: str, secret: str) -> str:
    """A query without a parameter, and without any that holds the secret; the rest as it was written."""
    kept = []
    for pair in query.split("&"):
        key, _, value = pair.partition("=")
        if unquote(key) != name and secret not in unquote(value):
            kept.append(pair)
    return "&".join(kept)


def parameter(query: str, name: str) -> str | None:
    """The value of a query's parameter."""
    for pair in query.split("&"):
        key, _, value = pair.partition("=")
        if unquote(key) == name:
            return unquote(value)
    return None
