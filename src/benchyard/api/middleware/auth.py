"""Authentication: a bearer key on every path except a few open ones and those that check by themselves."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from benchyard.api.errors import error_response
from benchyard.engine.api_keys import ApiKeys
from benchyard.errors import Unauthorized
from benchyard.settings import Settings

_OPEN = ("/healthz", "/openapi.json", "/docs")
_METRICS = "/metrics"
_OWN_CHECK = ("/objects/upload/", "/objects/download/", "/pty/", "/gateway/")
"""Paths below which a route checks a signature or token by itself."""


class BearerKeys:
    """Lets requests with a valid key pass, and notes the key's id as `request.state.key_id`."""

    def __init__(self, app: ASGIApp, keys: ApiKeys, settings: Settings) -> None:
        self._app = app
        self._keys = keys
        self._open = (*_OPEN, _METRICS) if settings.open_metrics else _OPEN

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["key_id"] = None
        try:
            state["key_id"] = self._keys.check(_secret(Headers(scope=scope))).id
        except Unauthorized as error:
            if not self._is_open(scope["path"]):
                await _refuse(error, scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        return path in self._open or path.startswith(_OWN_CHECK)


def _secret(headers: Headers) -> str:
    kind, _, secret = headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not secret.strip():
        raise Unauthorized(
            "no API key; send `Authorization: Bearer KEY` (the first one is in the data folder's api-key)"
        )
    return secret.strip()


async def _refuse(error: Unauthorized, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": "no valid API key"})
        return
    await error_response(error)(scope, receive, send)
