"""Finds the server to talk to: the one the environment names, else this user's own on this machine."""

import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from benchyard.client.core import Server
from benchyard.client.trust import tls_context
from benchyard.errors import ServerUnreachable, UsageError
from benchyard.settings import default_data_folder

PAIRS = (("BENCHYARD_URL", "BENCHYARD_API_KEY"), ("RUNLOOP_BASE_URL", "RUNLOOP_API_KEY"))
HEALTH_TIMEOUT = 3.0


def find_server(environ: Mapping[str, str]) -> Server:
    """The server to use, if one is configured or runs here; raises ServerUnreachable."""
    configured = configured_server(environ)
    if configured is not None:
        return configured
    data = default_data_folder(environ)
    local = running_server(data)
    if local is None:
        raise ServerUnreachable(
            f"no server is configured and none runs on {data}; "
            "start one with `benchyard serve`, or set BENCHYARD_URL and BENCHYARD_API_KEY"
        )
    return local


def configured_server(environ: Mapping[str, str]) -> Server | None:
    """The server that the environment names; a URL of one product is never paired with another's key."""
    for url_name, key_name in PAIRS:
        url = environ.get(url_name)
        if not url:
            continue
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise UsageError(f"{url_name} is not an http or https address: {url!r}")
        own = _own(url, environ)
        key = environ.get(key_name) or (own.key if own else None)
        if not key:
            raise UsageError(
                f"{url_name} is set but {key_name} is not, and no server of yours runs there; "
                "make a key on that server's machine with `benchyard key create`"
            )
        return Server(url.rstrip("/"), key, own.trusted if own else None)
    return None


def running_server(data: Path) -> Server | None:
    """The server that runs on a data folder, if it answers."""
    server = recorded_server(data)
    return server if server is not None and answers(server) else None


def recorded_server(data: Path) -> Server | None:
    """The server that was last started on a data folder, whether it runs or not."""
    try:
        note = json.loads((data / "server.json").read_text())
        url, trusted = note["url"], note.get("trusted")
        key = stored_key(data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if not isinstance(url, str) or not key:
        return None
    return Server(url, key, Path(trusted) if isinstance(trusted, str) else None)


def stored_key(data: Path) -> str | None:
    """The first key of the server on a data folder."""
    try:
        return (data / "api-key").read_text().strip() or None
    except (OSError, ValueError):
        return None


def recorded_pid(data: Path) -> int | None:
    """The process of the server that was last started on a data folder."""
    try:
        pid = json.loads((data / "server.json").read_text())["pid"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if isinstance(pid, int) and pid > 1 else None


def answers(server: Server) -> bool:
    """Whether a server says that it is well."""
    try:
        verify = tls_context(server) or True
        answer = httpx.get(f"{server.url}/healthz", timeout=HEALTH_TIMEOUT, trust_env=False, verify=verify)
    except (httpx.HTTPError, httpx.InvalidURL, ServerUnreachable, ValueError):
        return False
    return answer.status_code == 200


def _own(url: str, environ: Mapping[str, str]) -> Server | None:
    local = recorded_server(default_data_folder(environ))
    return local if local is not None and local.url.rstrip("/") == url.rstrip("/") else None
