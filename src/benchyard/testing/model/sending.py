"""Answers on their way out: whole, as streams, and with everything that can go wrong."""

import asyncio
from dataclasses import dataclass

from aiohttp import web

from benchyard.gateway.calls import Usage
from benchyard.testing.model.asked import Asked
from benchyard.testing.model.ledger import Entry
from benchyard.testing.model.playing import Cue
from benchyard.testing.model.wires.base import Told, Wire, dumped

_JSON = "application/json"
_GARBAGE = b'data: {"type": "mess\xff\xfe\n\nevent: \x00nonsense\ndata: }{ not json\n\n'


@dataclass(frozen=True)
class Sending:
    """One answer that is to be sent, and where it is noted."""

    request: web.Request
    wire: Wire
    asked: Asked
    cue: Cue
    entry: Entry
    chunk_delay: float

    async def send(self) -> web.StreamResponse:
        """Send it, or do to it what the script says."""
        step = self.cue.step
        await asyncio.sleep(step.latency)
        if step.hang is not None:
            await asyncio.sleep(step.hang)
            return self._hang_up()
        if step.status is not None:
            return self._refuse(step.status, step.retry_after)
        if step.is_fault:
            return await self._spoil(garbage=step.garbage)
        return await self._stream() if self.asked.streams else self._whole()

    def _whole(self) -> web.StreamResponse:
        self._sent(200, self._told().usage)
        body = dumped(self.wire.whole(self.asked, self.cue.answer))
        return web.Response(body=body, content_type=_JSON, headers=self._headers())

    async def _stream(self) -> web.StreamResponse:
        response = await self._begin(self.wire.stream_type)
        delay = self.cue.step.chunk_delay
        delay = self.chunk_delay if delay is None else delay
        told, (*events, last) = self._told(), self._events()
        for number, event in enumerate(events):
            if number == len(events) - told.followers:
                self.entry.usage = told.usage
            await response.write(event)
            await asyncio.sleep(delay)
        # Noted before: whoever has read the end finds it in the ledger.
        self._sent(200, told.usage)
        await response.write(last)
        await response.write_eof()
        return response

    async def _spoil(self, *, garbage: bool) -> web.StreamResponse:
        """Half of the answer, and then nonsense or nothing."""
        if self.asked.streams:
            kind, pieces = self.wire.stream_type, self._events()
        else:
            kind, pieces = _JSON, [dumped(self.wire.whole(self.asked, self.cue.answer))]
        middle = len(pieces) // 2
        response = await self._begin(kind)
        await response.write(b"".join(pieces[:middle]) + pieces[middle][: len(pieces[middle]) // 2])
        if not garbage:
            return self._hang_up(response)
        await response.write(_GARBAGE)
        await response.write_eof()
        return response

    def _refuse(self, status: int, retry_after: float | None) -> web.StreamResponse:
        self._sent(status, None)
        headers = self._headers()
        if retry_after is not None:
            headers["retry-after"] = f"{retry_after:g}"
        body = dumped(self.wire.error(status, f"the script says {status} here"))
        return web.Response(body=body, status=status, content_type=_JSON, headers=headers)

    def _hang_up(self, response: web.StreamResponse | None = None) -> web.StreamResponse:
        transport = self.request.transport
        if transport is not None:
            transport.close()
        return response or web.Response(status=500)

    async def _begin(self, content_type: str) -> web.StreamResponse:
        response = web.StreamResponse(headers=self._headers())
        response.content_type = content_type
        response.headers["cache-control"] = "no-cache"
        self.entry.status = 200
        self.entry.usage = self._told().early
        await response.prepare(self.request)
        return response

    def _told(self) -> Told:
        return self.wire.told(self.asked, self.cue.answer)

    def _events(self) -> list[bytes]:
        return list(self.wire.events(self.asked, self.cue.answer))

    def _headers(self) -> dict[str, str]:
        name = f"req_{self.cue.answer.number:08d}"
        return {"request-id": name, "x-request-id": name}

    def _sent(self, status: int, usage: Usage | None) -> None:
        self.entry.status = status
        self.entry.usage = usage
        self.entry.is_complete = True
