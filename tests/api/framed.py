"""A client that speaks HTTP/2 over a plain socket, politely or not, for the tests of this room."""

import json
import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
from hpack.hpack import Encoder

from benchyard.testing.server import RunningServer
from tests.api.load import address

PATIENCE_SECONDS = 60.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
EMPTY_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@dataclass
class Told:
    """What came on one stream."""

    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    interim: list[str] = field(default_factory=list)
    is_ended: bool = False
    reset: int | None = None

    @property
    def status(self) -> int:
        return int(self.headers[":status"])

    @property
    def is_over(self) -> bool:
        return self.is_ended or self.reset is not None

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Framed:
    """One connection. What is received is acknowledged, unless the stream is in `held`."""

    def __init__(self, server: RunningServer, settings: dict[int, int] | None = None) -> None:
        self.server = server
        self.told: dict[int, Told] = {}
        self.held: set[int] = set()
        self.goodbye: int | None = None
        self.is_closed = False
        self.is_acknowledged = False
        self.http = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, validate_outbound_headers=False)
        )
        self.http.encoder = _Plain()
        self._settings = settings or {}
        self._sock = socket.create_connection(address(server), timeout=PATIENCE_SECONDS)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        self.http.initiate_connection()
        self.http.increment_flow_control_window(2**24)
        if self._settings:
            self.http.update_settings(dict(self._settings))
        self.flush()
        self.until(lambda: self.is_acknowledged, "the server's settings")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sock.close()

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Sequence[tuple[str, str]] = ()
    ) -> int:
        """Begin a request with the server's first key; with `body` it is whole, so it is for a GET."""
        stream = self.http.get_next_available_stream_id()
        own = [("authorization", f"Bearer {self.server.key}"), *headers]
        pseudo = [(":method", method), (":scheme", "http"), (":authority", "yard.test"), (":path", path)]
        self.told[stream] = Told()
        self.http.send_headers(stream, [*pseudo, *own], end_stream=body is None and method in ("GET", "HEAD"))
        self.flush()
        if body is not None:
            self.send(stream, body)
        return stream

    def post(self, path: str, body: object) -> int:
        """Begin a request with a body of JSON."""
        return self.ask("POST", path, json.dumps(body).encode(), [("content-type", "application/json")])

    def send(self, stream: int, body: bytes, *, is_last: bool = True) -> None:
        """Send a body as fast as the server takes it."""
        left = memoryview(body)
        while left and not self.told[stream].is_over:
            room = min(self.http.local_flow_control_window(stream), 16384, len(left))
            if not room:
                self.pump()
                continue
            self.http.send_data(stream, bytes(left[:room]))
            left = left[room:]
            self.flush()
        if is_last and not self.told[stream].is_over:
            self.http.end_stream(stream)
            self.flush()

    def answer(self, stream: int) -> Told:
        """What came on a stream, once that has ended in one way or another."""
        self.until(lambda: self.told[stream].is_over or self.is_closed, f"stream {stream}")
        return self.told[stream]

    def get(self, path: str) -> Told:
        """One whole exchange."""
        return self.answer(self.ask("GET", path))

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Take what comes until something holds."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"waited for {what}"
            assert not self.is_closed, f"the connection was closed before {what}"
            self.pump()

    def ended(self) -> int | None:
        """Take what comes until the connection is closed; the code it was closed with."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.is_closed:
            assert time.monotonic() < deadline, "waited for the connection to close"
            self.pump()
        return self.goodbye

    def pump(self) -> None:
        """Take what comes next."""
        try:
            data = self._sock.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self.is_closed = True
            return
        for event in self.http.receive_data(data):
            self._note(event)
        self.flush()

    def flush(self) -> None:
        self.raw(self.http.data_to_send())

    def raw(self, data: bytes) -> None:
        """Send these bytes, whatever they are; a server that has closed is for `pump` to find out."""
        try:
            self._sock.sendall(data)
        except ConnectionError:
            return

    def _note(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ConnectionTerminated):
            self.goodbye = int(event.error_code or 0)
            # The rest of what was asked for still comes.
            self.http.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN
        elif isinstance(event, h2.events.SettingsAcknowledged):
            self.is_acknowledged = True
        stream = getattr(event, "stream_id", None)
        if stream in self.told:
            self._note_stream(self.told[stream], event)

    def _note_stream(self, told: Told, event: Any) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            told.headers = {bytes(name).decode(): bytes(value).decode() for name, value in event.headers}
        elif isinstance(event, h2.events.InformationalResponseReceived):
            told.interim += [bytes(value).decode() for _, value in event.headers]
        elif isinstance(event, h2.events.DataReceived):
            told.body += event.data
            if event.stream_id not in self.held:
                self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            told.is_ended = True
        elif isinstance(event, h2.events.StreamReset):
            told.reset = int(event.error_code)


class Rude:
    """One connection on which anything may be sent; of what comes back, only the goodbye is looked at."""

    def __init__(self, server: RunningServer) -> None:
        self.goodbye: int | None = None
        self._is_closed = False
        self._came = bytearray()
        self._sock = socket.create_connection(address(server), timeout=PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        self.send(PREFACE + EMPTY_SETTINGS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sock.close()

    def send(self, data: bytes) -> None:
        """Send, and take what has come meanwhile."""
        try:
            self._sock.sendall(data)
        except ConnectionError:
            self._is_closed = True
        while not self.is_over and select.select([self._sock], [], [], 0)[0]:
            self._take()

    @property
    def is_over(self) -> bool:
        return self._is_closed or self.goodbye is not None

    def ended(self) -> int | None:
        """The code of the goodbye, once it or the end has come."""
        while not self.is_over:
            self._take()
        return self.goodbye

    def _take(self) -> None:
        try:
            data = self._sock.recv(65536)
        except ConnectionError:
            data = b""
        self._is_closed = not data
        self._came += data
        while len(self._came) >= 9 and len(self._came) >= (end := 9 + int.from_bytes(self._came[:3], "big")):
            if self._came[3] == 7:
                self.goodbye = int.from_bytes(self._came[13:17], "big")
            del self._came[:end]


class _Plain(Encoder):
    """Packs large headers in no time."""

    def encode(self, headers: Any, huffman: bool = True) -> bytes:
        return super().encode(headers, huffman=False)


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """A frame of any kind."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
