"""A model that the server itself asks, through the gateway: with a token and a budget of its own."""

import asyncio
import socket
from dataclasses import dataclass
from functools import partial

from benchyard.engine.judge.dialect_requests import (
    DialectRequest,
    ModelQuestion,
    dialect_of_provider,
    request_in_dialect,
    text_in_dialect,
)
from benchyard.engine.network.gateway_access import Grants
from benchyard.errors import BenchyardError, UsageError
from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.catalog import dialect_named
from benchyard.gateway.dialects.model_replies import ReplyContent, read_answer
from benchyard.gateway.grants import Grant
from benchyard.gateway.proxy.http1 import UpstreamConnection

MOST_REPLY_BYTES = 2 * 1024**2
ANSWER_SECONDS = 300.0
"""Time for one answer, with the time that the gateway waits for the provider's rate limit."""
_TRIES = 3
_FIRST_PAUSE_SECONDS = 1.0
_REFUSED = frozenset({401, 403, 404})
_MOST_REASON = 300


class _Unanswered(Exception):
    """A question that has no answer, with a sentence that says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BudgetSpent(_Unanswered):
    """The gateway lets no more calls through, or the provider wants to be paid first."""


class ModelRefused(_Unanswered):
    """The provider refuses the key or does not have the model: no other call would succeed."""


class CallUnanswered(_Unanswered):
    """A call without an answer that can be used; another may have one."""


@dataclass(frozen=True)
class ModelReply:
    """Text of an answer, and the usage that it reports."""

    text: str
    usage: TokenUsage


class GatewayModel:
    """Asks one model with the token of a grant."""

    def __init__(self, grants: Grants, grant: Grant, provider: str) -> None:
        self._grants = grants
        self._grant = grant
        self._provider = provider
        self._dialect = dialect_of_provider(provider)

    async def ask(self, question: ModelQuestion) -> ModelReply:
        """Return the model's answer; raises BudgetSpent, ModelRefused or CallUnanswered.

        A call that the provider could not answer is repeated. None of the errors contains text of the model.
        """
        request = request_in_dialect(self._dialect, question)
        pause = _FIRST_PAUSE_SECONDS
        for left in reversed(range(_TRIES)):
            try:
                status, content = await self._exchange(request)
            except (OSError, BenchyardError) as error:
                status, reason = 0, _reason(error)
            else:
                if status < 300:
                    return self._answer(content)
                reason = f"HTTP {status}"
            await self._check(status, reason)
            if left:
                await asyncio.sleep(pause)
                pause *= 4
        raise CallUnanswered(f"the model did not answer: {reason}")

    async def _check(self, status: int, reason: str) -> None:
        """Raise an error where the same call cannot succeed; a server error or none at all may pass."""
        if status == 402:
            spent = await self._grants.spent(self._grant.id)
            raise BudgetSpent(spent.over_budget or "the provider wants to be paid first (HTTP 402)")
        if status in _REFUSED:
            why = "does not have this model" if status == 404 else "refuses the key"
            raise ModelRefused(f"{self._provider} {why} (HTTP {status}); see docs/guides/models-and-keys.md")
        if 400 <= status < 500 and status not in (408, 409, 429):
            raise CallUnanswered(f"{self._provider} refuses the question: {reason}")

    def _answer(self, content: ReplyContent) -> ModelReply:
        if content.error is not None or not content.is_whole:
            raise CallUnanswered("the answer cannot be read")
        text = text_in_dialect(self._dialect, content.response)
        return ModelReply(text, content.usage or TokenUsage())

    async def _exchange(self, request: DialectRequest) -> tuple[int, ReplyContent]:
        """Send a request, and return the status and content of the answer."""
        dialect = dialect_named(self._dialect)
        assert dialect is not None
        async with asyncio.timeout(ANSWER_SECONDS):
            connection = await self._connected()
            try:
                await connection.ask(self._head(request), request.body)
                data = await _whole(connection)
            finally:
                connection.close()
        kind = connection.headers.get("content-type", "")
        content = await asyncio.to_thread(partial(read_answer, dialect, connection.status, kind, data))
        return connection.status, content

    async def _connected(self) -> UpstreamConnection:
        given = socket.socket(fileno=await self._grants.connect(self._grant.devbox_id))
        try:
            given.setblocking(False)
            _transport, connection = await asyncio.get_running_loop().create_connection(
                lambda: UpstreamConnection(ANSWER_SECONDS, UpstreamConnection.close), sock=given
            )
        except BaseException:
            given.close()
            raise
        return connection

    def _head(self, request: DialectRequest) -> bytes:
        fields = {
            "host": "gateway",
            "authorization": f"Bearer {self._grant.token}",
            "content-type": "application/json",
            "content-length": str(len(request.body)),
            **request.headers,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"POST /{self._provider}{request.path} HTTP/1.1\r\n{lines}\r\n".encode()


async def _whole(connection: UpstreamConnection) -> bytes:
    """Return the body of an answer; raises UsageError for one that is too long."""
    pieces, size = [], 0
    while piece := await connection.read():
        size += len(piece)
        if size > MOST_REPLY_BYTES:
            raise UsageError(f"its answer has more than {MOST_REPLY_BYTES} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _reason(error: Exception) -> str:
    told = error.message if isinstance(error, BenchyardError) else str(error) or type(error).__name__
    return told[:_MOST_REASON]
