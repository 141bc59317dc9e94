"""The HTTP API as a contender: the same cycle over one kept connection."""

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from benchyard.testing.server import RunningServer

_PIECE = 256 * 1024


class Api:
    """Requests to a running server with as little client as possible."""

    def __init__(self, server: RunningServer) -> None:
        address = urlsplit(server.url)
        self._connection = socket.create_connection((address.hostname, address.port), timeout=120)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._headers = "\r\n".join(
            (
                f"Host: {address.netloc}",
                f"Authorization: Bearer {server.key}",
                "Content-Type: application/json",
                "",
            )
        )
        self._kept = ""

    def post(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """POST and read the answer."""
        return self._json("POST", path, body or {})

    def get(self, path: str) -> dict[str, Any]:
        """GET and read the answer."""
        return self._json("GET", path)

    def stream(self, path: str) -> Iterator[bytes]:
        """GET and read the answer as it comes; afterwards this client can be used no more."""
        response = self._send("GET", path)
        while piece := response.read1(_PIECE):
            yield piece
        self._connection.close()

    def create(self, **source: str) -> str:
        """A devbox that runs."""
        view = self.post("/v1/devboxes/create_and_await_running", dict(source))
        if view["status"] != "running":
            raise RuntimeError(f"the devbox is {view['status']}")
        return str(view["id"])

    def start(self, devbox: str, command: str) -> str:
        """A command that is not waited for."""
        return str(self.post(f"/v1/devboxes/{devbox}/execute_async", {"command": command})["execution_id"])

    def run(self, devbox: str, command: str = "true") -> None:
        """A command and its end; the server makes it `bash -lc COMMAND`."""
        view = self.post(f"/v1/devboxes/{devbox}/execute_sync", {"command": command})
        if view["exit_status"] != 0:
            raise RuntimeError(f"the command ended with {view['exit_status']}")

    def end(self, devbox: str) -> None:
        """Shut a devbox down."""
        self.post(f"/v1/devboxes/{devbox}/shutdown")

    def cycle(self, **source: str) -> None:
        """Create, run a command, shut down."""
        devbox = self.create(**source)
        self.run(devbox)
        self.end(devbox)

    def keep_one(self) -> None:
        """Make the devbox that `command` runs in."""
        self._kept = self.create()
        self.run(self._kept)

    def command(self) -> None:
        """A command in a devbox that runs already."""
        self.run(self._kept)

    def end_kept(self) -> None:
        """Shut the kept devbox down, and hang up."""
        self.end(self._kept)
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _json(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._send(method, path, body).read())
        return answer

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> http.client.HTTPResponse:
        content = "" if body is None else json.dumps(body)
        head = f"{method} {path} HTTP/1.1\r\n{self._headers}Content-Length: {len(content)}\r\n\r\n"
        self._connection.sendall((head + content).encode())
        response = http.client.HTTPResponse(self._connection, method=method)
        response.begin()
        if response.status != 200:
            raise RuntimeError(f"{path}: {response.status} {response.read()[:500]!r}")
        return response
