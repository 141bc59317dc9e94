"""A client that does not give up: what a server that is being killed never answered is asked again."""

import time
import uuid
from typing import Any

import httpx

from benchyard.testing.server import RunningServer

PATIENCE_SECONDS = 90.0


class Caller:
    """Requests with one id each, repeated until there is an answer."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._client = httpx.Client(timeout=40)

    def post(self, path: str, body: dict[str, Any] | None = None, **options: Any) -> httpx.Response:
        """POST, under one id for all tries."""
        identity = str(uuid.uuid4())
        options.setdefault("json", body or {})
        if "files" in options:
            del options["json"]
        return self._until_answered("POST", path, identity, options)

    def get(self, path: str) -> dict[str, Any]:
        """GET what must be there."""
        response = self._until_answered("GET", path, "", {})
        assert response.status_code == 200, (path, response.text)
        answer: dict[str, Any] = response.json()
        return answer

    def _until_answered(self, verb: str, path: str, identity: str, options: dict[str, Any]) -> httpx.Response:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            headers = {"Authorization": f"Bearer {self._server.key}", "x-request-id": identity}
            try:
                response = self._client.request(verb, self._server.url + path, headers=headers, **options)
                if response.status_code not in (408, 503):
                    return response
            except httpx.TransportError:
                # The server is gone for the moment.
                pass
            assert time.monotonic() < deadline, f"no answer to {verb} {path}"
            time.sleep(0.05)

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()
