"""The way out of a connection, which all its streams share."""

import asyncio
from collections.abc import Iterable

from h2.connection import ConnectionState, H2Connection
from h2.errors import ErrorCodes

from benchyard.api.http2.frames import Meter
from benchyard.api.http2.heads import Header


class Wire:
    """Sends frames; once it is over, nothing goes out and nobody is kept waiting."""

    def __init__(self, http: H2Connection, transport: asyncio.Transport, meter: Meter) -> None:
        self._http = http
        self._transport = transport
        self._meter = meter
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_over = False

    def flush(self) -> None:
        """Hand what is to be sent to the transport."""
        data = self._http.data_to_send()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def pause(self) -> None:
        """Note that the client does not read as fast as we send."""
        if not self._is_over:
            self._writable.clear()

    def resume(self) -> None:
        """Note that it has caught up."""
        self._writable.set()

    async def writable(self) -> None:
        """Wait until it has; whoever reads nothing at all is dropped by the crowd's watch."""
        await self._writable.wait()

    def room(self, stream_id: int) -> int:
        """How much of a body can be sent at once, by the client's word."""
        return min(self._http.local_flow_control_window(stream_id), self._http.max_outbound_frame_size)

    def head(self, stream_id: int, headers: Iterable[Header]) -> None:
        """Send the head of an answer."""
        self._http.send_headers(stream_id, headers)
        self.flush()

    def body(self, stream_id: int, data: bytes | memoryview, *, is_last: bool) -> None:
        """Send a piece of an answer for which there is room."""
        self._http.send_data(stream_id, data, end_stream=is_last)
        self._meter.sent()
        self.flush()

    def taken(self, stream_id: int, size: int) -> None:
        """Let the client send so much more, since so much was taken."""
        if size and not self._is_over:
            self._http.acknowledge_received_data(size, stream_id)
            self.flush()

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """End one stream."""
        if not self._is_over:
            self._http.reset_stream(stream_id, code)
            self.flush()

    def goodbye(self, code: ErrorCodes) -> None:
        """Tell the client that this is the end, and why, unless it was told; nothing is sent after that."""
        if self._http.state_machine.state is not ConnectionState.CLOSED:
            self._http.close_connection(code)
        self.flush()
        self.end()

    def end(self) -> None:
        """Send nothing more."""
        self._is_over = True
        self._writable.set()
