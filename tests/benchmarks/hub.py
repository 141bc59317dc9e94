"""A hub on this machine: serves files of datasets over real HTTP, and misbehaves when told to."""

import hashlib
import json
import re
import socket
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_RESOLVE = re.compile(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_REVISION = re.compile(r"/api/datasets/([^/]+/[^/]+)/revision/([^/?]+)")


@dataclass(frozen=True)
class Asked:
    """One request: its path, and the headers that matter here."""

    path: str
    token: str | None
    range: str | None


@dataclass
class Hub:
    """What is served, how, and what was asked. Each request for a file takes the next fault."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    """`owner/name/path` -> content."""
    branches: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})
    revision_answer: bytes | None = None
    """In the place of the commit that a branch is."""
    faults: deque["Fault"] = field(default_factory=deque)
    large: bool = True
    """Files tell their checksum, as large ones of the real hub do."""
    ranges: bool = True
    tags: bool = True
    tag: str | None = None
    """In the place of the checksum."""
    token: str | None = None
    """Who does not show it is refused with 401."""
    elsewhere: str | None = None
    """Where files really lie: requests are redirected there."""
    asked: list[Asked] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)
    """Set to let answers go on that hang."""

    def put(self, dataset: str, files: Mapping[str, bytes]) -> None:
        """Serve these files of a dataset, at every revision."""
        self.files.update({f"{dataset}/{path}": content for path, content in files.items()})

    @property
    def downloads(self) -> list[Asked]:
        """The requests for files."""
        return [each for each in self.asked if "/resolve/" in each.path or "/stored/" in each.path]


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request for a file."""

    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    cut_after: int | None = None
    """So many bytes of the body, then the connection is gone."""
    hang: bool = False
    """Nothing is said until the hub is released."""
    endless: bool = False
    """A body that does not end, without a length."""
    wrong: bool = False
    """Other bytes, as many as there should be."""


@contextmanager
def serving() -> Iterator[Hub]:
    """A hub that answers on loopback; its address is what `HF_ENDPOINT` takes."""
    hub = Hub()

    class Handler(_Handler):
        served = hub

    with _Server(("127.0.0.1", 0), Handler) as server:
        hub.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield hub
        finally:
            hub.release.set()
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Hub

    def do_GET(self) -> None:
        hub, path = self.served, unquote(self.path.partition("?")[0])
        token = self.headers.get("Authorization", "").removeprefix("Bearer ") or None
        hub.asked.append(Asked(path, token, self.headers.get("Range")))
        if found := _REVISION.fullmatch(path):
            self._revision(found[2])
            return
        found = _RESOLVE.fullmatch(path)
        content = hub.files.get(f"{found[1]}/{found[3]}" if found else path.removeprefix("/stored/"))
        fault = hub.faults.popleft() if hub.faults else Fault()
        if fault.hang:
            hub.release.wait(30)
        if fault.status is not None:
            self._say(fault.status, b"no", dict(fault.headers))
        elif found and hub.token is not None and token != hub.token:
            self._say(401 if token is None else 403, b"no", {})
        elif content is None:
            self._say(404, b"no", {})
        elif found and hub.elsewhere:
            place = f"{hub.elsewhere}/stored/{found[1]}/{found[3]}?signature=of-this-one"
            self._say(302, b"", {"Location": place, **self._linked(content)})
        else:
            self._file(content, fault)

    def _revision(self, name: str) -> None:
        commit = self.served.branches.get(name)
        answer = self.served.revision_answer or json.dumps({"sha": commit}).encode()
        self._say(200 if commit else 404, answer, {})

    def _linked(self, content: bytes) -> dict[str, str]:
        digest = self.served.tag or hashlib.sha256(content).hexdigest()
        return (
            {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content))} if self.served.large else {}
        )

    def _file(self, content: bytes, fault: Fault) -> None:
        digest = self.served.tag or hashlib.sha256(content).hexdigest()
        headers = {**self._linked(content), **({"ETag": f'"{digest}"'} if self.served.tags else {})}
        status, start = 200, 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and self.served.ranges:
            status, start = 206, int(asked[1])
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            if start >= len(content):
                self._say(416, b"", {**headers, "Content-Range": f"bytes */{len(content)}"})
                return
        body = b"\0" * (len(content) - start) if fault.wrong else content[start:]
        self._body(status, body, headers, fault)

    def _body(self, status: int, body: bytes, headers: dict[str, str], fault: Fault) -> None:
        if fault.endless:
            self._head(status, {"ETag": '"endless"', "Connection": "close"})
            while not self.served.release.is_set():
                self.wfile.write(b"\0" * 65536)
        elif fault.cut_after is not None:
            self._head(status, {**headers, "Content-Length": str(len(body))})
            self.wfile.write(body[: fault.cut_after])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        else:
            self._say(status, body, headers)

    def _say(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self._head(status, {**headers, "Content-Length": str(len(body))})
        self.wfile.write(body)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *_arguments: Any) -> None:
        """Say nothing."""
