"""What clients ask a model server beside answers: whether it is there, which models, how many tokens."""

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from benchyard.testing.model.wires import finding
from benchyard.testing.model.wires.base import Wire, dumped
from benchyard.testing.model.wires.base import counted as tokens_of


def said(body: Any, status: int = 200) -> web.Response:
    """An answer in JSON."""
    return web.Response(body=dumped(body), status=status, content_type="application/json")


def is_greeting(request: web.Request) -> bool:
    """Whether it only asks if somebody is there."""
    if request.method == "HEAD":
        return True
    return request.method == "GET" and request.path.endswith(("/", "/api/hello"))


def nearest(request: web.Request) -> Wire:
    """The dialect of what asks for no answer of a model: by its path, or by where its key is."""
    if "/v1beta" in request.path or "x-goog-api-key" in request.headers:
        return finding.GEMINI
    is_anthropic = "/messages" in request.path or "x-api-key" in request.headers
    return finding.ANTHROPIC if is_anthropic else finding.RESPONSES


def counted(request: web.Request, size: int) -> web.Response:
    """How many tokens a request would be."""
    path = request.path
    if path.endswith("/messages/count_tokens"):
        return said({"input_tokens": tokens_of(size)})
    if path.endswith(":countTokens"):
        return said({"totalTokens": tokens_of(size)})
    if path.endswith("/responses/input_tokens"):
        return said({"object": "response.input_tokens", "input_tokens": tokens_of(size)})
    return _nothing_here(request)


def listed(request: web.Request, models: Sequence[str]) -> web.Response:
    """The models there are, or one of them; any name is one, because any is answered."""
    path = request.path
    if path.endswith("/responses"):
        # Some try a websocket first, and take this for a no.
        return said(finding.RESPONSES.error(405, "only POST is answered here"), 405)
    _, found, name = path.rpartition("/models")
    if request.method != "GET" or not found or (name and not name.startswith("/")):
        return _nothing_here(request)
    is_gemini = nearest(request) is finding.GEMINI
    one, several = (_gemini, _gemini_list) if is_gemini else (_model, _model_list)
    return said(one(name[1:]) if name[1:] else several([one(each) for each in models]))


def _nothing_here(request: web.Request) -> web.Response:
    return said(nearest(request).error(404, "there is nothing at this path"), 404)


def _model(name: str) -> dict[str, Any]:
    """As both OpenAI and Anthropic tell it."""
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "benchyard",
        "type": "model",
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
    }


def _model_list(found: list[dict[str, Any]]) -> dict[str, Any]:
    ends = {"first_id": found[0]["id"], "last_id": found[-1]["id"]} if found else {}
    return {"object": "list", "data": found, "has_more": False, **ends}


def _gemini(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "displayName": name,
        "inputTokenLimit": 1_000_000,
        "outputTokenLimit": 64_000,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }


def _gemini_list(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {"models": found}
