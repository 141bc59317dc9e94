"""Messages between server and gateway: JSON packets with attached sockets, over a socket in a folder.

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
"""Version of the package and of this protocol; a server sends nothing new to a gateway of another version."""
SOCKET = "control.sock"
LOCK = "gateway.lock"
LOG = "gateway.log"
RECORDS = "records"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class GatewayOptions:
    """Options of a gateway process; they are visible to all users, so they hold no secret."""

    lease_seconds: float = 3600.0
    """Seconds that the process stays without grants and without a server."""
    connect_seconds: float = 30.0
    """Seconds that an upstream may take to accept a connection."""
    first_byte_seconds: float = 600.0
    """Seconds that an upstream may take to begin an answer, or to continue it."""


def check_name(name: str) -> str:
    """Return an id that is safe as a file name; raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is not an id: use letters, digits, `-` and `_`, 64 at most")
    return name


def record_file(folder: Path, grant_id: str) -> Path:
    """Return the file with the calls of a grant."""
    return folder / RECORDS / f"{check_name(grant_id)}.db"


def grant_to_json(grant: Grant) -> dict[str, Any]:
    """Return a grant as JSON for the wire; it contains secrets."""
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
    # Leave empty secrets out: a process of an earlier version does not know the field.
    secrets = {"secrets": list(upstream.secrets)} if upstream.secrets else {}
    fields.pop("secrets")
    return {**fields, **secrets, "headers": dict(upstream.headers)}


def grant_from_json(sent: Mapping[str, Any]) -> Grant:
    """Parse a grant from the wire."""
    return Grant(
        **{
            **sent,
            "upstreams": {route: _upstream(each) for route, each in sent["upstreams"].items()},
            "budget": GrantBudget(**sent["budget"]),
            "group_budget": GrantBudget(**sent["group_budget"]),
        }
    )


def spent_to_json(spent: GrantUsage) -> dict[str, Any]:
    """Return usage as JSON for the wire."""
    return asdict(spent)


def spent_from_json(sent: Mapping[str, Any]) -> GrantUsage:
    """Parse usage from the wire."""
    return GrantUsage(**{**sent, "usage": TokenUsage(**sent["usage"])})


def bind_control_socket(folder: Path) -> socket.socket:
    """Bind the gateway's control socket; the caller must hold the folder's lock."""
    (folder / SOCKET).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with _short(folder) as short:
        listener.bind(f"{short}/{SOCKET}")
    (folder / SOCKET).chmod(0o600)
    listener.listen(64)
    return listener


def connect_control_socket(folder: Path) -> socket.socket:
    """Connect to the gateway of a folder; raises OSError if none listens."""
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
    """Yield a short path of a folder: socket addresses are limited to 107 bytes."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
