"""An HTTP/2 connection: incoming frames, requests under way, and the end of the connection."""

import asyncio
from collections.abc import Callable
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hpack.hpack import Encoder
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from benchyard.api.connections import ConnectionLimits, carrier_extensions
from benchyard.api.errors import error_response
from benchyard.api.http2.frames import MAX_BLOCK_BYTES, MAX_FRAME_BYTES, Frame, FrameMeter, FrameReader
from benchyard.api.http2.streams import FrameWriter, Http2Stream, StreamTerms, scope_from_headers
from benchyard.api.log import logger
from benchyard.api.middleware.limits import MAX_HEADER_BYTES
from benchyard.errors import BenchyardError, UsageError

MAX_STREAMS = 128
_MAX_RUNNING = 4 * MAX_STREAMS
"""Limit for running requests: those that the client has reset may still run, and must be limited as well."""
_STREAM_WINDOW = 128 * 1024
_CONNECTION_WINDOW = 4 * 1024**2
_DEFAULT_WINDOW = 64 * 1024 - 1
_TABLE_BYTES = 4096
"""Size of our table of sent headers, even if the client allows a larger one."""
_LINGER_SECONDS = 1.0


class Http2Connection(asyncio.Protocol):
    """HTTP/2 on a connection that began as the protocol `before`."""

    def __init__(self, before: HttpToolsProtocol, crowd: ConnectionLimits) -> None:
        self.transport = before.transport
        self._before = before
        self._crowd = crowd
        self._http = _connection()
        self._meter = FrameMeter()
        self._frames = FrameReader(self._meter)
        self._wire = FrameWriter(self._http, self.transport, self._meter)
        self._terms = StreamTerms(self._wire, crowd.seconds, self._default_headers, self._changed)
        self._streams: dict[int, Http2Stream] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._is_leaving = False
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._on: dict[type[Event], Callable[[Any], None]] = {
            RequestReceived: self._on_request,
            DataReceived: self._on_data,
            StreamEnded: self._on_end,
            StreamReset: self._on_reset,
            WindowUpdated: self._on_window,
            RemoteSettingsChanged: self._on_settings,
        }

    def begin(self, data: bytes) -> None:
        """Take over the connection, with the bytes received so far."""
        self._before.connections.add(self)  # type: ignore[arg-type]
        self._http.initiate_connection()
        self._http.increment_flow_control_window(_CONNECTION_WINDOW - _DEFAULT_WINDOW)
        self._wire.flush()
        self._rest(self._crowd.seconds)
        if data:
            self.data_received(data)

    def shutdown(self) -> None:
        """Answer the requests under way, accept no more, and close.

        The GOAWAY frame is sent last: clients built on h2 accept nothing after it.
        """
        if self._is_over:
            self.transport.close()
            return
        self._is_leaving = True
        for stream in list(self._streams.values()):
            if stream.is_answered:
                stream.refuse_rest()
        if not self._streams:
            self._leave()

    # Callbacks of the transport.

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        try:
            for frame in self._frames.feed(data):
                self._take(frame)
        except ProtocolError as error:
            logger.info("closed a connection with invalid HTTP/2 (%s)", type(error).__name__)
            self._fail(error.error_code)
            return
        self._wire.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self._stop_timer()
        self._crowd.works(self)
        self._before.connections.discard(self)

    def pause_writing(self) -> None:
        self._wire.pause()

    def resume_writing(self) -> None:
        self._wire.resume()

    # Frames of the client.

    def _take(self, frame: Frame) -> None:
        if self._is_over:
            return
        if frame.is_goodbye:
            # Hide the GOAWAY from h2, which would then send nothing more: pending requests still need
            # answers.
            self._is_leaving = True
            if frame.is_failure or not self._streams:
                self._leave()
            return
        for event in self._http.receive_data(frame.raw):
            handle = self._on.get(type(event))
            if handle is not None:
                handle(event)

    def _on_request(self, event: RequestReceived) -> None:
        has_room = len(self._running) < _MAX_RUNNING and self._crowd.has_room_for_stream()
        if self._is_leaving or not has_room:
            self._http.reset_stream(event.stream_id, ErrorCodes.REFUSED_STREAM)
            return
        stream = self._streams[event.stream_id] = Http2Stream(event.stream_id, self._terms)
        self._crowd.works(self)
        self._stop_timer()
        app, scope = self._asked(event, stream)
        task = self._before.loop.create_task(stream.run(app, scope))
        for kept in (self._running, self._before.tasks, self._crowd.streams):
            kept.add(task)
            task.add_done_callback(kept.discard)
        task.add_done_callback(_look)

    def _asked(self, event: RequestReceived, stream: Http2Stream) -> tuple[ASGIApp, Scope]:
        before = self._before
        common: Scope = {
            "asgi": {"version": before.asgi_version, "spec_version": "2.3"},
            "server": before.server,
            "client": before.client,
            "scheme": before.scheme,
            "root_path": before.root_path,
            "state": before.app_state.copy(),
            "extensions": carrier_extensions(stream),
        }
        try:
            scope = scope_from_headers(common, event.headers, is_whole=event.stream_ended is not None)
        except UsageError as error:
            return error_response(error), {"type": "http"}
        return before.app, scope

    def _on_data(self, event: DataReceived) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None:
            self._wire.taken(event.stream_id, event.flow_controlled_length)
        else:
            stream.feed(event.data, event.flow_controlled_length)

    def _on_end(self, event: StreamEnded) -> None:
        if stream := self._streams.get(event.stream_id):
            stream.finish()

    def _on_reset(self, event: StreamReset) -> None:
        self._meter.reset()
        if stream := self._streams.get(event.stream_id):
            stream.vanish()

    def _on_window(self, event: WindowUpdated) -> None:
        if event.stream_id == 0:
            self._open_all()
        elif stream := self._streams.get(event.stream_id):
            stream.open()

    def _on_settings(self, _event: RemoteSettingsChanged) -> None:
        if self._http.encoder.header_table_size > _TABLE_BYTES:
            self._http.encoder.header_table_size = _TABLE_BYTES
        self._open_all()

    def _open_all(self) -> None:
        for stream in self._streams.values():
            stream.open()

    # Ends of streams and of the connection.

    def _changed(self, stream: Http2Stream) -> None:
        if not (stream.is_gone or (stream.is_answered and stream.is_whole)):
            return
        was_open = self._streams.pop(stream.id, None) is not None
        if not was_open or self._streams or self._is_over:
            return
        if self._is_leaving:
            self._leave()
        else:
            self._rest(self._before.timeout_keep_alive)

    def _rest(self, seconds: float) -> None:
        """Wait for the next request, until a timeout or until another connection needs the place."""
        self._crowd.waits(self)
        self._stop_timer()
        self._timer = self._before.loop.call_later(seconds, self._retire)

    def _retire(self) -> None:
        self._wire.goodbye(ErrorCodes.NO_ERROR)
        self._end()
        self._linger()

    def _fail(self, code: ErrorCodes | int) -> None:
        self._wire.goodbye(ErrorCodes(code))
        self._end()
        self._linger()

    def _leave(self) -> None:
        self._wire.goodbye(ErrorCodes.NO_ERROR)
        self._end()
        self.transport.close()

    def _end(self) -> None:
        """Stop receiving and sending."""
        self._is_over = True
        self._wire.end()
        for stream in list(self._streams.values()):
            stream.vanish()

    def _linger(self) -> None:
        # Closing at once would reset the connection if more bytes arrive, and lose the last ones sent.
        self._stop_timer()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._timer = self._before.loop.call_later(_LINGER_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _default_headers(self) -> list[tuple[bytes, bytes]]:
        return self._before.server_state.default_headers


def refusal(error: BenchyardError) -> bytes:
    """Return the bytes that refuse a client which cannot be served now."""
    http = _connection()
    http.initiate_connection()
    http.close_connection(ErrorCodes.ENHANCE_YOUR_CALM, error.message.encode(), last_stream_id=0)
    return http.data_to_send()


def _connection() -> H2Connection:
    # Outgoing headers are checked before they get here.
    http = H2Connection(
        H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    http.local_settings = Settings(
        client=False,
        initial_values={
            SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
            SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES,
            SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
            SettingCodes.MAX_FRAME_SIZE: MAX_FRAME_BYTES,
        },
    )
    http.decoder.max_header_list_size = MAX_BLOCK_BYTES
    http.encoder = _Plain()
    return http


class _Plain(Encoder):
    """Encoder without Huffman coding, in which hpack takes half a second for a header of 64 KiB."""

    def encode(self, headers: Any, huffman: bool = True) -> bytes:  # noqa: FBT001, FBT002  (hpack's)
        return super().encode(headers, huffman=False)


def _look(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("unexpected error", exc_info=error)
