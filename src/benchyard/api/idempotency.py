"""Requests that may come twice: ids of new things follow from the request's own id.

A POST that starts something names it after the caller's key, the path and `x-request-id`. The record keeps a
hash of the body, so a repeated request finds what the first one made, also after a restart, and an id that is
used again for something else is refused. No table of requests is needed.
"""

import contextlib
import json
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from benchyard.api.deps import services_of
from benchyard.api.requests import JsonRequest
from benchyard.engine.context import Caller
from benchyard.engine.ids import id_from_bytes, random_id


@dataclass(frozen=True)
class Identity:
    """Values by which a repeated request is recognized."""

    body_hash: str
    seed: bytes | None
    """None if the client sent no id: then the request is not a repetition of any other."""
    key_id: str | None

    def new_id(self, prefix: str) -> str:
        """Return the id of the thing that this request creates."""
        return random_id(prefix) if self.seed is None else id_from_bytes(prefix, self.seed)

    def caller(self, prefix: str) -> Caller:
        """Return the caller of this request, with the id of the thing that it creates."""
        return Caller(self.new_id(prefix), self.body_hash, self.key_id)


async def request_identity(request: Request) -> Identity:
    """Return the identity of a request with or without a JSON body."""
    vault = services_of(request).vault
    # Keyed, since a body may hold a secret that could be guessed from a plain hash.
    body_hash = vault.derive("request-bodies", await _canonical(request)).hex()
    given, key_id = request.headers.get("x-request-id"), request.state.key_id
    if not given:
        return Identity(body_hash, None, key_id)
    parts = (str(key_id), request.method, request.url.path, given)
    message = "\0".join(f"{len(part)}:{part}" for part in parts)
    return Identity(body_hash, vault.derive("request-ids", message), key_id)


RequestIdentity = Annotated[Identity, Depends(request_identity)]


async def _canonical(request: Request) -> str:
    """Return a body in canonical form, or its digest if it is large, independent of JSON formatting."""
    if isinstance(request, JsonRequest) and await request.is_large():
        with contextlib.suppress(ValueError):
            await request.json()
        return str(request.digest)
    body = await request.body()
    try:
        parsed = json.loads(body) if body.strip() else {}
        return json.dumps(parsed, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    except (ValueError, RecursionError):
        return body.decode("latin-1")
