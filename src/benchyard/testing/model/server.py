"""The scripted model: a server for tests, demos and teaching that plays scripts in four dialects."""

import json
import socket
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from benchyard.testing.model import doors
from benchyard.testing.model.ledger import Entry, Ledger, presented
from benchyard.testing.model.playing import Player
from benchyard.testing.model.scripts import Scripts
from benchyard.testing.model.sending import Sending
from benchyard.testing.model.wires import finding
from benchyard.testing.model.wires.base import Wire, dumped

MODELS = ("scripted-model",)
"""What lists of models name, unless told others."""
MOST_BODY_BYTES = 64 * 1024**2
_CLOSE_SECONDS = 1.0
_BACKLOG = 1024


class ScriptedModel:
    """Plays scripts to whoever asks it, at `url`, while it is entered; `ledger` has what was asked.

    With a `key`, requests that come with another, or with none, are refused.
    """

    def __init__(
        self,
        scripts: Scripts = (),
        *,
        key: str | None = None,
        chunk_delay: float = 0.0,
        models: Sequence[str] = MODELS,
        address: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        self.ledger = Ledger()
        self.keeps_bodies = True
        """Whether the ledger keeps the bodies of requests: many long ones are much memory."""
        self._player = Player(scripts)
        self._key = key
        self._chunk_delay = chunk_delay
        self._models = models
        self._address = address
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Where it listens; any path may follow before those of the dialects."""
        host = self._address[0]
        return f"http://{f'[{host}]' if ':' in host else host}:{self._port}"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=MOST_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # Whoever has gone gets no answer: nothing waits for the end of a step that hangs.
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=_CLOSE_SECONDS
        )
        await runner.setup()
        self._runner = runner
        try:
            listening = _listening(self._address)
            self._port = listening.getsockname()[1]
            await web.SockSite(runner, listening, backlog=_BACKLOG).start()
        except OSError:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop listening, and end what is under way."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def reset(self) -> None:
        """Forget what was asked and what has happened."""
        self.ledger.entries.clear()
        self._player.reset()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path.endswith("/__ledger") and request.method == "GET":
            return doors.said(self.ledger.as_json())
        if path.endswith("/__reset") and request.method == "POST":
            self.reset()
            return doors.said({})
        headers = {name.lower(): value for name, value in request.headers.items()}
        entry = Entry(len(self.ledger.entries) + 1, request.method, request.path_qs, headers)
        self.ledger.entries.append(entry)
        wire = finding.of(path, request.query) if request.method == "POST" else None
        if wire is not None:
            return await self._answer(request, wire, entry)
        response = await self._other(request, headers)
        entry.status, entry.is_complete = response.status, True
        return response

    async def _answer(self, request: web.Request, wire: Wire, entry: Entry) -> web.StreamResponse:
        entry.dialect = wire.name
        if not self._admits(request, entry.headers):
            return _refused(wire, entry, 401, "this is not the key of the scripted model")
        raw, body = await _body(request)
        if body is None:
            return _refused(wire, entry, 400, "the body is no JSON object")
        asked = wire.read(request.path, body, len(raw))
        entry.model, entry.streams, entry.results = asked.model, asked.streams, asked.results()
        entry.body = body if self.keeps_bodies else None
        cue = self._player.cue(asked, wire.name)
        entry.is_title, entry.script, entry.fault = cue.is_title, cue.script, cue.step.fault
        return await Sending(request, wire, asked, cue, entry, self._chunk_delay).send()

    async def _other(self, request: web.Request, headers: dict[str, str]) -> web.Response:
        if doors.is_greeting(request):
            return doors.said({"message": "hello"})
        if not self._admits(request, headers):
            wire = doors.nearest(request)
            return doors.said(wire.error(401, "this is not the key of the scripted model"), 401)
        if request.method == "POST":
            raw, _ = await _body(request)
            return doors.counted(request, len(raw))
        return doors.listed(request, self._models)

    def _admits(self, request: web.Request, headers: dict[str, str]) -> bool:
        if self._key is None:
            return True
        given = [*presented(headers), *filter(None, [request.query.get("key")])]
        return bool(given) and all(each == self._key for each in given)


async def _body(request: web.Request) -> tuple[bytes, Mapping[str, Any] | None]:
    raw = await request.read()
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return raw, None
    return raw, body if isinstance(body, dict) else None


def _refused(wire: Wire, entry: Entry, status: int, message: str) -> web.Response:
    entry.status, entry.is_complete = status, True
    return web.Response(
        body=dumped(wire.error(status, message)), status=status, content_type="application/json"
    )


def _listening(address: tuple[str, int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    return socket.create_server(address, family=family, backlog=_BACKLOG)
