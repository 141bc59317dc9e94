"""The scripted model: a server for tests, demos and teaching that plays scripts in four dialects."""

import asyncio
import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from benchyard.gateway.calls import TokenUsage
from benchyard.scripted_model.ledger import Ledger, LedgerEntry, keys_of_request
from benchyard.scripted_model.player import Cue, Player
from benchyard.scripted_model.requests import ModelRequest
from benchyard.scripted_model.scripts import Scripts
from benchyard.scripted_model.wires.anthropic import AnthropicWire
from benchyard.scripted_model.wires.base import ModelWire, ReportedUsage, to_json
from benchyard.scripted_model.wires.base import estimate_tokens as tokens_of
from benchyard.scripted_model.wires.chat import ChatWire
from benchyard.scripted_model.wires.gemini import GeminiArrayWire, GeminiWire
from benchyard.scripted_model.wires.responses import ResponsesWire

_JSON = "application/json"
_GARBAGE = b'data: {"type": "mess\xff\xfe\n\nevent: \x00nonsense\ndata: }{ not json\n\n'


@dataclass(frozen=True)
class ReplySender:
    """A reply to send, and its entry in the ledger."""

    request: web.Request
    wire: ModelWire
    model_request: ModelRequest
    cue: Cue
    entry: LedgerEntry
    chunk_delay: float

    async def send(self) -> web.StreamResponse:
        """Send it, or spoil it as the script says."""
        step = self.cue.step
        await asyncio.sleep(step.latency)
        if step.hang is not None:
            await asyncio.sleep(step.hang)
            return self._hang_up()
        if step.status is not None:
            return self._refuse(step.status, step.retry_after)
        if step.is_fault:
            return await self._spoil(garbage=step.garbage)
        return await self._stream() if self.model_request.streams else self._whole()

    def _whole(self) -> web.StreamResponse:
        self._end_entry(200, self._usage().usage)
        body = to_json(self.wire.whole(self.model_request, self.cue.reply))
        return web.Response(body=body, content_type=_JSON, headers=self._headers())

    async def _stream(self) -> web.StreamResponse:
        response = await self._begin(self.wire.stream_type)
        delay = self.cue.step.chunk_delay
        delay = self.chunk_delay if delay is None else delay
        told_usage, (*events, last) = self._usage(), self._events()
        for number, event in enumerate(events):
            if number == len(events) - told_usage.followers:
                self.entry.usage = told_usage.usage
            await response.write(event)
            await asyncio.sleep(delay)
        # Recorded first: a client that has read the end finds it in the ledger.
        self._end_entry(200, told_usage.usage)
        await response.write(last)
        await response.write_eof()
        return response

    async def _spoil(self, *, garbage: bool) -> web.StreamResponse:
        """Send half of the reply, and then nonsense or nothing."""
        if self.model_request.streams:
            kind, pieces = self.wire.stream_type, self._events()
        else:
            kind, pieces = _JSON, [to_json(self.wire.whole(self.model_request, self.cue.reply))]
        middle = len(pieces) // 2
        response = await self._begin(kind)
        await response.write(b"".join(pieces[:middle]) + pieces[middle][: len(pieces[middle]) // 2])
        if not garbage:
            return self._hang_up(response)
        await response.write(_GARBAGE)
        await response.write_eof()
        return response

    def _refuse(self, status: int, retry_after: float | None) -> web.StreamResponse:
        self._end_entry(status, None)
        headers = self._headers()
        if retry_after is not None:
            headers["retry-after"] = f"{retry_after:g}"
        body = to_json(self.wire.error(status, f"the script says {status} here"))
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
        self.entry.usage = self._usage().early
        await response.prepare(self.request)
        return response

    def _usage(self) -> ReportedUsage:
        return self.wire.reported_usage(self.model_request, self.cue.reply)

    def _events(self) -> list[bytes]:
        return list(self.wire.events(self.model_request, self.cue.reply))

    def _headers(self) -> dict[str, str]:
        name = f"req_{self.cue.reply.number:08d}"
        return {"request-id": name, "x-request-id": name}

    def _end_entry(self, status: int, usage: TokenUsage | None) -> None:
        self.entry.status = status
        self.entry.usage = usage
        self.entry.is_complete = True


ANTHROPIC = AnthropicWire()
GEMINI = GeminiWire()
RESPONSES = ResponsesWire()
CHAT = ChatWire()
_GEMINI_ARRAY = GeminiArrayWire()
_ENDINGS: Mapping[str, ModelWire] = {
    "/messages": ANTHROPIC,
    "/responses": RESPONSES,
    "/chat/completions": CHAT,
    ":generateContent": GEMINI,
}


def wire_of(path: str, query: Mapping[str, str]) -> ModelWire | None:
    """Return the dialect of a request for a reply; None if it is not such a request."""
    if path.endswith(":streamGenerateContent"):
        return GEMINI if query.get("alt") == "sse" else _GEMINI_ARRAY
    return next((wire for ending, wire in _ENDINGS.items() if path.endswith(ending)), None)


def json_response(body: Any, status: int = 200) -> web.Response:
    """Return a reply in JSON."""
    return web.Response(body=to_json(body), status=status, content_type="application/json")


def is_greeting(request: web.Request) -> bool:
    """Tell whether a request only asks if a server is there."""
    if request.method == "HEAD":
        return True
    return request.method == "GET" and request.path.endswith(("/", "/api/hello"))


def nearest_wire(request: web.Request) -> ModelWire:
    """Return the dialect of a request for anything but a reply: by its path, or by the place of its key."""
    if "/v1beta" in request.path or "x-goog-api-key" in request.headers:
        return GEMINI
    is_anthropic = "/messages" in request.path or "x-api-key" in request.headers
    return ANTHROPIC if is_anthropic else RESPONSES


def token_count_response(request: web.Request, size: int) -> web.Response:
    """Answer with the number of tokens of a request."""
    path = request.path
    if path.endswith("/messages/count_tokens"):
        return json_response({"input_tokens": tokens_of(size)})
    if path.endswith(":countTokens"):
        return json_response({"totalTokens": tokens_of(size)})
    if path.endswith("/responses/input_tokens"):
        return json_response({"object": "response.input_tokens", "input_tokens": tokens_of(size)})
    return _nothing_here(request)


def models_response(request: web.Request, models: Sequence[str]) -> web.Response:
    """Answer with the list of models, or one of them; any name is accepted."""
    path = request.path
    if path.endswith("/responses"):
        # Some clients try a websocket first, and take this for a no.
        return json_response(RESPONSES.error(405, "only POST is answered here"), 405)
    _, found, name = path.rpartition("/models")
    if request.method != "GET" or not found or (name and not name.startswith("/")):
        return _nothing_here(request)
    is_gemini = nearest_wire(request) is GEMINI
    one, several = (_gemini, _gemini_list) if is_gemini else (_model, _model_list)
    return json_response(one(name[1:]) if name[1:] else several([one(model) for model in models]))


def _nothing_here(request: web.Request) -> web.Response:
    return json_response(nearest_wire(request).error(404, "there is nothing at this path"), 404)


def _model(name: str) -> dict[str, Any]:
    """Return a model's record in a form for both OpenAI and Anthropic."""
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "benchyard",
        "type": "model",
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
    }


def _model_list(models: list[dict[str, Any]]) -> dict[str, Any]:
    ends = {"first_id": models[0]["id"], "last_id": models[-1]["id"]} if models else {}
    return {"object": "list", "data": models, "has_more": False, **ends}


def _gemini(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "displayName": name,
        "inputTokenLimit": 1_000_000,
        "outputTokenLimit": 64_000,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }


def _gemini_list(models: list[dict[str, Any]]) -> dict[str, Any]:
    return {"models": models}


MODELS = ("scripted-model",)
"""Names in lists of models, by default."""
MOST_BODY_BYTES = 64 * 1024**2
_CLOSE_SECONDS = 1.0
_BACKLOG = 1024


class ScriptedModel:
    """A server that plays scripts at `url` while it is entered; `ledger` records the requests.

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
        """Keep the bodies of requests in the ledger: many long ones take much memory."""
        self._player = Player(scripts)
        self._key = key
        self._chunk_delay = chunk_delay
        self._models = models
        self._address = address
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Return the address on which it listens; any path may precede those of the dialects."""
        host = self._address[0]
        return f"http://{f'[{host}]' if ':' in host else host}:{self._port}"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=MOST_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # A client that has disconnected gets no reply: the end of a hanging step is not waited for.
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
        """Stop listening, and end requests under way."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def reset(self) -> None:
        """Forget all requests and progress."""
        self.ledger.entries.clear()
        self._player.reset()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path.endswith("/__ledger") and request.method == "GET":
            return json_response(self.ledger.as_json())
        if path.endswith("/__reset") and request.method == "POST":
            self.reset()
            return json_response({})
        headers = {name.lower(): value for name, value in request.headers.items()}
        entry = LedgerEntry(len(self.ledger.entries) + 1, request.method, request.path_qs, headers)
        self.ledger.entries.append(entry)
        wire = wire_of(path, request.query) if request.method == "POST" else None
        if wire is not None:
            return await self._reply(request, wire, entry)
        response = await self._other(request, headers)
        entry.status, entry.is_complete = response.status, True
        return response

    async def _reply(self, request: web.Request, wire: ModelWire, entry: LedgerEntry) -> web.StreamResponse:
        entry.dialect = wire.name
        if not self._admits(request, entry.headers):
            return _refused(wire, entry, 401, "this is not the key of the scripted model")
        raw, body = await _body(request)
        if body is None:
            return _refused(wire, entry, 400, "the body is not a JSON object")
        model_request = wire.read(request.path, body, len(raw))
        entry.model, entry.streams, entry.results = (
            model_request.model,
            model_request.streams,
            model_request.results(),
        )
        entry.body = body if self.keeps_bodies else None
        cue = self._player.cue(model_request, wire.name)
        entry.is_title, entry.script, entry.fault = cue.is_title, cue.script, cue.step.fault
        return await ReplySender(request, wire, model_request, cue, entry, self._chunk_delay).send()

    async def _other(self, request: web.Request, headers: dict[str, str]) -> web.Response:
        if is_greeting(request):
            return json_response({"message": "hello"})
        if not self._admits(request, headers):
            wire = nearest_wire(request)
            return json_response(wire.error(401, "this is not the key of the scripted model"), 401)
        if request.method == "POST":
            raw, _ = await _body(request)
            return token_count_response(request, len(raw))
        return models_response(request, self._models)

    def _admits(self, request: web.Request, headers: dict[str, str]) -> bool:
        if self._key is None:
            return True
        keys = [*keys_of_request(headers), *filter(None, [request.query.get("key")])]
        return bool(keys) and all(key == self._key for key in keys)


async def _body(request: web.Request) -> tuple[bytes, Mapping[str, Any] | None]:
    raw = await request.read()
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return raw, None
    return raw, body if isinstance(body, dict) else None


def _refused(wire: ModelWire, entry: LedgerEntry, status: int, message: str) -> web.Response:
    entry.status, entry.is_complete = status, True
    return web.Response(
        body=to_json(wire.error(status, message)), status=status, content_type="application/json"
    )


def _listening(address: tuple[str, int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    return socket.create_server(address, family=family, backlog=_BACKLOG)
