"""How server and gateway speak: packets of JSON over a socket in its folder, listening sockets beside them.

A request is `{"id", "op", ...}`; its answer `{"id", "ok": true, ...}` or `{"id", "ok": false, "code",
"message"}`.
"""

import importlib.metadata
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchyard.errors import UsageError
from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.grants import Grant, GrantBudget, GrantUsage, Upstream

VERSION = f"{importlib.metadata.version('benchyard')}/2"
"""Of the package, and of what is said here: a gateway of another one is not asked for anything new."""
SOCKET = "control.sock"
LOCK = "gateway.lock"
LOG = "gateway.log"
RECORDS = "records"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class GatewayOptions:
    """How a gateway process works; all of it may be read by everybody, so no secret is in here."""

    lease_seconds: float = 3600.0
    """How long it stays without grants and without a server."""
    connect_seconds: float = 30.0
    """How long an upstream may take to accept a connection."""
    first_byte_seconds: float = 600.0
    """How long an upstream may take to begin an answer, or to go on with it."""


def check_name(name: str) -> str:
    """An id that is safe as the name of a file; raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is no id: letters, digits, `-` and `_` only, 64 at most")
    return name


def record_file(folder: Path, grant_id: str) -> Path:
    """Where the calls of a grant are kept."""
    return folder / RECORDS / f"{check_name(grant_id)}.db"


def grant_to_json(grant: Grant) -> dict[str, Any]:
    """A grant as it is sent; it holds secrets."""
    return {
        **{name: getattr(grant, name) for name in grant.__dataclass_fields__},
        "upstreams": {route: _plain(upstream) for route, upstream in grant.upstreams.items()},
        "budget": asdict(grant.budget),
        "group_budget": asdict(grant.group_budget),
    }


def _upstream(sent: dict[str, Any]) -> Upstream:
    return Upstream(**{**sent, "secrets": tuple(sent.get("secrets", ()))})


def _plain(upstream: Upstream) -> dict[str, Any]:
    fields = {name: getattr(upstream, name) for name in upstream.__dataclass_fields__}
    # Left out where there are none: a process of an earlier version, which still has grants, knows none.
    secrets = {"secrets": list(upstream.secrets)} if upstream.secrets else {}
    fields.pop("secrets")
    return {**fields, **secrets, "headers": dict(upstream.headers)}


def grant_from_json(sent: Mapping[str, Any]) -> Grant:
    """The grant that was sent."""
    return Grant(
        **{
            **sent,
            "upstreams": {route: _upstream(each) for route, each in sent["upstreams"].items()},
            "budget": GrantBudget(**sent["budget"]),
            "group_budget": GrantBudget(**sent["group_budget"]),
        }
    )


def spent_to_json(spent: GrantUsage) -> dict[str, Any]:
    """What was used, as it is sent."""
    return asdict(spent)


def spent_from_json(sent: Mapping[str, Any]) -> GrantUsage:
    """What was used, as it was sent."""
    return GrantUsage(**{**sent, "usage": TokenUsage(**sent["usage"])})


def bind_control_socket(folder: Path) -> socket.socket:
    """The socket at which a gateway is asked; whoever calls this holds the folder's lock."""
    (folder / SOCKET).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with _short(folder) as short:
        listener.bind(f"{short}/{SOCKET}")
    (folder / SOCKET).chmod(0o600)
    listener.listen(64)
    return listener


def connect_control_socket(folder: Path) -> socket.socket:
    """A connection to the gateway of a folder; raises OSError where none listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with _short(folder) as short:
            connection.connect(f"{short}/{SOCKET}")
    except OSError:
        connection.close()
        raise
    return connection


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A short name for a folder: addresses of sockets are limited to 107 bytes."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
