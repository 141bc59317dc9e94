"""A client that does not give up: what a server in trouble refused or never answered is asked again."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchyard.testing.contracts.driver_fixture import holders
from benchyard.testing.server import RunningServer

PATIENCE_SECONDS = 90.0
ANSWER_SECONDS = 40.0
"""How long a single request may take before it counts as hanging."""
_NOT_YET = (408, 503, 507)


class Caller:
    """Requests with one id each, repeated until there is an answer.

    What was refused on the way is kept in `refusals`, as status and code.
    """

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._client = httpx.Client(timeout=ANSWER_SECONDS)
        self.refusals: list[tuple[int, str]] = []

    def post(self, path: str, body: dict[str, Any] | None = None, **options: Any) -> httpx.Response:
        """POST, under one id for all tries."""
        identity = str(uuid.uuid4())
        options.setdefault("json", body or {})
        if "files" in options:
            del options["json"]
        return self._until_answered("POST", path, identity, options)

    def put(self, path: str, content: bytes) -> httpx.Response:
        """PUT bytes."""
        return self._until_answered("PUT", path, "", {"content": content})

    def get(self, path: str) -> dict[str, Any]:
        """GET what must be there."""
        response = self._until_answered("GET", path, "", {})
        assert response.status_code == 200, (path, response.text)
        answer: dict[str, Any] = response.json()
        return answer

    def download(self, path: str) -> bytes:
        """GET bytes that must be there."""
        response = self._until_answered("GET", path, "", {})
        assert response.status_code == 200, (path, response.text)
        return response.content

    def _until_answered(self, verb: str, path: str, identity: str, options: dict[str, Any]) -> httpx.Response:
        deadline = time.monotonic() + PATIENCE_SECONDS
        url = path if path.startswith("http") else self._server.url + path
        while True:
            headers = {"Authorization": f"Bearer {self._server.key}", "x-request-id": identity}
            try:
                response = self._client.request(verb, url, headers=headers, **options)
            except httpx.TimeoutException as error:
                raise AssertionError(f"{verb} {path} hangs") from error
            except httpx.TransportError:
                # The server is gone for the moment.
                pass
            else:
                if response.status_code not in _NOT_YET:
                    return response
                self.refusals.append((response.status_code, response.json()["code"]))
            assert time.monotonic() < deadline, f"no answer to {verb} {path}: {self.refusals[-1:]}"
            time.sleep(0.05)

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()


def nobody_holds(folder: Path) -> None:
    """See that whatever had to do with a folder ends, which may take a moment."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while found := holders(folder):
        assert time.monotonic() < deadline, [_title(pid) for pid in found]
        time.sleep(0.1)


def _title(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return f"{pid} (gone)"
    return f"{pid} {b' '.join(words)[:200].decode(errors='replace')}"


@contextmanager
def several_callers(server: RunningServer, count: int) -> Iterator[list[Caller]]:
    """Callers that are closed at the end."""
    callers = [Caller(server) for _number in range(count)]
    try:
        yield callers
    finally:
        for caller in callers:
            caller.close()
