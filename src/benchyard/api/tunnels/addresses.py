"""Addresses of tunnel requests: key and port, from the host name or the path."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

Headers = Iterable[tuple[bytes, bytes]]

ROUTE = "/tunnel/{tunnel_key}/{port}/{path}"
"""Route under which the log and the metrics list every request to a tunnel."""

TERMINALS = "pty"
"""Prefix of the keys of terminals; keys of tunnels never begin with it."""

_BY_HOST = re.compile(rb"([0-9]{1,5})-([a-z0-9]{1,57})\.tunnel\.", re.IGNORECASE)
_BY_PATH = re.compile(rb"/tunnel(?:/(?P<key>[^/]*)(?:/(?P<port>[^/]*)(?P<rest>/.*)?)?)?", re.DOTALL)
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_LARGEST_PORT = 65_535


@dataclass(frozen=True)
class TunnelAddress:
    """Destination of a request to a tunnel."""

    key: str
    port: int
    """Port number; 0 if it is missing or invalid."""
    path: bytes
    """Path that the program behind the port sees."""
    prefix: bytes = b""
    """Part removed from the path; empty if the host name identified the tunnel."""

    @property
    def is_terminal(self) -> bool:
        """True if the key is for a devbox's terminals, which this server serves itself."""
        return self.key.startswith(TERMINALS)


def address_of(path: bytes, headers: Headers) -> TunnelAddress | None:
    """Return the tunnel address of a request, None if it is for the API; a host name precedes a path."""
    host = next((value for name, value in headers if name == b"host"), b"")
    named = _BY_HOST.match(host)
    if named:
        return TunnelAddress(named[2].decode().lower(), _port(named[1].decode()), path or b"/")
    match = _BY_PATH.fullmatch(path)
    if match is None:
        return None
    key, port = ((match[name] or b"").decode("latin-1") for name in ("key", "port"))
    rest = match["rest"] or b""
    return TunnelAddress(key, _port(port), rest or b"/", path[: len(path) - len(rest)])


def _port(text: str) -> int:
    return int(text) if _PORT.fullmatch(text) and int(text) <= _LARGEST_PORT else 0
