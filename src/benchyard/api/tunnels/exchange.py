"""One request and its answer over a stream into a devbox, both passed on piece by piece."""

from collections.abc import AsyncIterator

import h11
from starlette.types import Receive

from benchyard.api.limits import MAX_HEADER_BYTES
from benchyard.api.tunnels.streams import CHUNK_BYTES, Idling, Stream

Answer = h11.Response | h11.InformationalResponse

_SWITCHING = 101


class Exchange:
    """HTTP with a program inside a devbox; what it sends is parsed strictly, and within bounds."""

    def __init__(self, stream: Stream, idling: Idling) -> None:
        self._stream = stream
        self._idling = idling
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEADER_BYTES)

    async def begin(self, head: h11.Request) -> None:
        """Send the request's head."""
        await self._send(head)

    async def upload(self, receive: Receive) -> None:
        """Send the request's body as it comes in, and return when the client has gone."""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            self._idling.used()
            if self._http.our_state is not h11.SEND_BODY:
                continue
            try:
                if message.get("body"):
                    await self._send(h11.Data(message["body"]))
                if not message.get("more_body", False):
                    await self._send(h11.EndOfMessage())
            except OSError:
                # It does not want the rest; what it has to say about that is still to be read.
                continue

    async def answer(self) -> Answer:
        """The head of the answer; raises h11.RemoteProtocolError if none comes."""
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                return event
            if isinstance(event, h11.InformationalResponse) and event.status_code == _SWITCHING:
                return event

    async def body(self) -> AsyncIterator[bytes]:
        """The answer's body, to its end; raises h11.RemoteProtocolError if it is cut short."""
        while True:
            event = await self._next()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return

    @property
    def unparsed(self) -> bytes:
        """What came after the answer's head, where that was the end of HTTP."""
        return self._http.trailing_data[0]

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            await self._stream.send(data)

    async def _next(self) -> h11.Event:
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                data = await self._stream.reader.read(CHUNK_BYTES)
                self._idling.used()
                self._http.receive_data(data)
            elif isinstance(event, h11.Event) and not isinstance(event, h11.ConnectionClosed):
                return event
            else:
                raise h11.RemoteProtocolError("the connection ended where an answer was due")
