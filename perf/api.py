"""The HTTP API as a contender: the same cycle over one kept connection."""

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlsplit

from benchyard.testing.server import RunningServer


class Api:
    """Requests to a running server with as little client as possible."""

    def __init__(self, server: RunningServer) -> None:
        address = urlsplit(server.url)
        self._connection = socket.create_connection((address.hostname, address.port), timeout=60)
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
        content = json.dumps(body or {})
        head = f"POST {path} HTTP/1.1\r\n{self._headers}Content-Length: {len(content)}\r\n\r\n"
        self._connection.sendall((head + content).encode())
        response = http.client.HTTPResponse(self._connection, method="POST")
        response.begin()
        text = response.read()
        if response.status != 200:
            raise RuntimeError(f"{path}: {response.status} {text[:500]!r}")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def create(self) -> str:
        """A devbox that runs."""
        view = self.post("/v1/devboxes/create_and_await_running")
        if view["status"] != "running":
            raise RuntimeError(f"the devbox is {view['status']}")
        return str(view["id"])

    def run(self, devbox: str) -> None:
        """`true` in a devbox; the server makes it `bash -lc true`."""
        view = self.post(f"/v1/devboxes/{devbox}/execute_sync", {"command": "true"})
        if view["exit_status"] != 0:
            raise RuntimeError(f"the command ended with {view['exit_status']}")

    def cycle(self) -> None:
        """Create, run a command, shut down."""
        devbox = self.create()
        self.run(devbox)
        self.post(f"/v1/devboxes/{devbox}/shutdown")

    def keep_one(self) -> None:
        """Make the devbox that `command` runs in."""
        self._kept = self.create()
        self.run(self._kept)

    def command(self) -> None:
        """A command in a devbox that runs already."""
        self.run(self._kept)

    def close(self) -> None:
        """Shut the kept devbox down."""
        self.post(f"/v1/devboxes/{self._kept}/shutdown")
        self._connection.close()
