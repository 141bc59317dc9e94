"""A tiny HTTP server that answers from a script and remembers what it was asked."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from benchyard.client import Client, Server


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    """What to send back; `cut` ends the connection in the middle of the body."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body or {}).encode()


Script = Callable[[Asked], Answer]


@dataclass
class Stub:
    """The running server."""

    url: str
    asked: list[Asked]

    @property
    def server(self) -> Server:
        return Server(self.url, "test-key")


class Handler(BaseHTTPRequestHandler):
    """Reads one request whole and answers it by the script."""

    protocol_version = "HTTP/1.1"
    script: ClassVar[Script]
    asked: ClassVar[list[Asked]]

    def answer(self) -> None:
        request = Asked(
            method=self.command,
            path=urlsplit(self.path).path,
            query={name: values[-1] for name, values in parse_qs(urlsplit(self.path).query).items()},
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.read_body(),
        )
        self.asked.append(request)
        answer = type(self).script(request)
        content = answer.content()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content) + (10 if answer.cut else 0)))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = answer.cut or self.close_connection

    def read_body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    do_GET = do_POST = do_PUT = answer

    def log_message(self, format: str, *args: Any) -> None:
        return


@contextmanager
def stub(script: Script) -> Iterator[Stub]:
    """Answer by the script on a free port."""
    asked: list[Asked] = []
    handler = type("Scripted", (Handler,), {"script": staticmethod(script), "asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Stub(f"http://127.0.0.1:{server.server_port}", asked)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def talking(script: Script) -> Iterator[tuple[Client, Stub]]:
    """A stub and a client of it."""
    with stub(script) as server, Client(server.server) as client:
        yield client, server


def in_turn(*answers: Answer) -> Script:
    """These answers one after the other, the last one for ever."""
    left = list(answers)
    return lambda asked: left.pop(0) if len(left) > 1 else left[0]


def error(status: int, code: str, message: str = "no", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer({"code": code, "message": message, "details": {"why": "test"}}, status, named)


def devbox(status: str = "running", **fields: Any) -> dict[str, Any]:
    """A devbox as the wire shows it."""
    return {
        "id": "dbx_1",
        "status": status,
        "metadata": {},
        "capabilities": [],
        "create_time_ms": 1_700_000_000_000,
        "launch_parameters": {},
        "state_transitions": [],
        **fields,
    }


def execution(status: str = "completed", **fields: Any) -> dict[str, Any]:
    """An execution as the wire shows it."""
    return {"devbox_id": "dbx_1", "execution_id": "exec_1", "status": status, **fields}
