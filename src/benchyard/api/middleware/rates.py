"""Rate limit of keys: a bucket of tokens for each, filled at a steady rate."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from benchyard.api.errors import error_response
from benchyard.errors import TooMany
from benchyard.settings import Settings

_MANY_BUCKETS = 1000


@dataclass
class _Bucket:
    tokens: float
    filled_at: float


class Buckets:
    """Tokens left for each key; a key that has been idle for long has a full bucket."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def take(self, key_id: str) -> float:
        """Take a token; return 0, or the seconds until there is one."""
        bucket = self._buckets.get(key_id)
        if bucket is None:
            bucket = self._add(key_id)
        self._fill(bucket)
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / self._per_second
        bucket.tokens -= 1
        return 0.0

    def __len__(self) -> int:
        return len(self._buckets)

    def _add(self, key_id: str) -> _Bucket:
        if len(self._buckets) >= _MANY_BUCKETS:
            for bucket in self._buckets.values():
                self._fill(bucket)
            # A full bucket is equivalent to a missing one.
            self._buckets = {id: each for id, each in self._buckets.items() if each.tokens < self._burst}
        bucket = self._buckets[key_id] = _Bucket(self._burst, self._clock())
        return bucket

    def _fill(self, bucket: _Bucket) -> None:
        now = self._clock()
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.filled_at) * self._per_second)
        bucket.filled_at = now


class RateLimit:
    """Refuses requests over a key's rate; a request costs one token, however long it takes."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._per_second = settings.requests_per_second
        self._buckets = Buckets(settings.requests_per_second, settings.request_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key_id = scope.get("state", {}).get("key_id")
        seconds = self._buckets.take(key_id) if key_id is not None and self._per_second > 0 else 0.0
        if not seconds:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(self._refusal(seconds))
        else:
            await self._refusal(seconds)(scope, receive, send)

    def _refusal(self, seconds: float) -> Response:
        message = (
            f"this key sent more than {self._per_second:g} requests per second; wait, then send it again"
        )
        response = error_response(TooMany(message, requests_per_second=self._per_second))
        response.headers["retry-after"] = str(math.ceil(seconds))
        # The SDK reads this header first: whole seconds are long if the next token is milliseconds away.
        response.headers["retry-after-ms"] = str(math.ceil(seconds * 1000))
        return response
