"""Admitted requests and their answers: passed on, copied to the record, and counted, however they end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from benchyard.gateway.accounts import Account, TokenAccounts
from benchyard.gateway.dialects.base import Dialect
from benchyard.gateway.grants import Upstream
from benchyard.gateway.proxy import logprobs, masks, requests
from benchyard.gateway.proxy.requests import Refused, Target
from benchyard.gateway.proxy.upstreams import (
    BufferedResponse,
    UpstreamClient,
    UpstreamRequest,
    now_ms,
    upstream_url,
)
from benchyard.gateway.records.storage import CallEnd, CallStart
from benchyard.gateway.records.writer import CallSubject, Recorder

MOST_RECORDED = 64 * 1024 * 1024
"""Largest recorded answer; a longer one passes whole, and its record notes the cut."""
_CUT = f"the answer is longer than {MOST_RECORDED // 1024**2} MiB; its record ends there"
_GONE = "the agent went away before the answer had ended"
_ENDED = "this token opens nothing here any more: it was revoked or has expired"
_REST_SECONDS = 1.0
"""Seconds to keep reading an answer after its agent has gone: usage is mostly reported at the end."""


@dataclass(frozen=True)
class AdmittedRequest:
    """A request that was admitted, with its grant, upstream and body."""

    request: web.BaseRequest
    target: Target
    account: Account
    upstream: Upstream
    dialect: Dialect | None
    token: str
    body: bytes = field(repr=False)
    """The body as the agent sent it."""
    passed: bytes = field(repr=False)
    """The body as it is passed on."""
    added: frozenset[str] = frozenset()
    """Fields that the gateway added to the body; their results are hidden from the agent."""


@dataclass
class _Heard:
    """Answer to a request, as far as it has arrived."""

    status: int = 0
    first_byte_ms: int | None = None
    answer: bytearray = field(default_factory=bytearray)
    encoding: str | None = None
    kind: str = ""
    error: str | None = None
    searched: masks.KeySearch | None = None
    """Search for keys, which goes on when the agent has gone."""

    def take(self, chunk: bytes) -> None:
        room = MOST_RECORDED - len(self.answer)
        self.answer += chunk[:room]
        if len(chunk) > room:
            self.error = _CUT


class ModelExchange:
    """Answers admitted requests."""

    def __init__(self, ledger: TokenAccounts, upstreams: UpstreamClient, recorder: Recorder) -> None:
        self._ledger = ledger
        self._upstreams = upstreams
        self._recorder = recorder

    async def run(self, admitted: AdmittedRequest) -> web.StreamResponse:
        """Pass a request on and its answer back; raises Refused."""
        task = asyncio.current_task()
        assert task is not None
        admitted.account.open.add(task)
        try:
            await self._recorder.room()
            if not admitted.account.is_live:
                # The token ended while the body was arriving.
                raise Refused("auth", _ENDED)
            if admitted.dialect is None:
                if words := await self._ledger.admit_other(admitted.account):
                    raise Refused("budget", words)
                return await self._pass_reply(admitted, _upstream_request(admitted), _Heard())
            return await self._pass_and_record(admitted, admitted.dialect)
        finally:
            admitted.account.open.discard(task)

    async def _pass_and_record(self, admitted: AdmittedRequest, dialect: Dialect) -> web.StreamResponse:
        account = admitted.account
        number = await self._ledger.admit(account)
        if isinstance(number, str):
            raise Refused("budget", number)
        subject = CallSubject(account.grant.id, account.grant.group, dialect, admitted.upstream.prices)
        begun = CallStart(number, dialect.name, admitted.target.route, admitted.target.path, now_ms())
        self._recorder.begin(subject, begun, admitted.body, admitted.request.headers.get("content-encoding"))
        heard, outgoing = _Heard(), _upstream_request(admitted)
        try:
            return await self._pass_reply(admitted, outgoing, heard)
        except Refused as refused:
            heard.error = refused.message
            raise
        except (asyncio.CancelledError, ConnectionError):
            heard.error = account.ended or _GONE
            raise
        finally:
            ended = CallEnd(
                number=number,
                status=heard.status,
                ended_ms=now_ms(),
                first_byte_ms=heard.first_byte_ms,
                answer=bytes(heard.answer),
                encoding=heard.encoding,
                kind=heard.kind,
                waited_ms=outgoing.waited_ms,
                limited_ms=outgoing.limited_ms,
                error=heard.error,
            )
            account.tally.end(self._recorder.end(subject, ended))

    async def _pass_reply(
        self, admitted: AdmittedRequest, outgoing: UpstreamRequest, heard: _Heard
    ) -> web.StreamResponse:
        incoming = await self._upstreams.ask(outgoing)
        try:
            return await _pass_back(admitted, incoming, heard)
        except (asyncio.CancelledError, ConnectionError):
            await _hear_out(incoming, heard)
            raise
        finally:
            # The connection is kept for the next request if the answer was read to its end.
            incoming.response.release()


def _upstream_request(admitted: AdmittedRequest) -> UpstreamRequest:
    query = requests.query_without(admitted.target.query, requests.KEY_PARAMETER, admitted.token)
    return UpstreamRequest(
        account=admitted.account,
        upstream=admitted.upstream,
        method=admitted.request.method,
        url=upstream_url(admitted.upstream, admitted.target.path, query),
        headers=requests.headers_to_upstream(
            admitted.request.headers, admitted.upstream, admitted.token, plain=bool(admitted.added)
        ),
        body=admitted.passed,
    )


async def _pass_back(
    admitted: AdmittedRequest, incoming: BufferedResponse, heard: _Heard
) -> web.StreamResponse:
    upstream = incoming.response
    heard.status = upstream.status
    heard.first_byte_ms = now_ms()
    heard.kind = upstream.headers.get("content-type", "")
    heard.encoding = upstream.headers.get("content-encoding")
    mask = masks.mask_of(admitted.upstream)
    try:
        searched = heard.searched = masks.key_search(mask, heard.encoding)
    except masks.KeyShown as shown:
        raise Refused("unavailable", str(shown)) from shown
    reason = None if upstream.reason is None else mask.text(upstream.reason)
    answer = web.StreamResponse(status=upstream.status, reason=reason)
    answer.headers.extend(requests.headers_to_agent(upstream.headers, mask))
    stripping = logprobs.stripper_of(admitted.added, heard.kind) if not heard.encoding else None
    if stripping is not None:
        answer.headers.popall("Content-Length", None)
    await answer.prepare(admitted.request)
    try:
        async for chunk in _masked_chunks(incoming, searched):
            heard.take(chunk)
            if passed := stripping.feed(chunk) if stripping else chunk:
                await answer.write(passed)
    except (_BrokenOff, masks.KeyShown) as broken:
        heard.error = str(broken)
        # Close the connection, so that the agent sees an answer cut in the middle.
        if admitted.request.transport is not None:
            admitted.request.transport.close()
        return answer
    if stripping is not None and (rest := await asyncio.to_thread(stripping.end)):
        await answer.write(rest)
    await answer.write_eof()
    return answer


async def _masked_chunks(
    incoming: BufferedResponse, searched: masks.KeySearch | None
) -> AsyncIterator[bytes]:
    """Yield the body of an answer without keys; raises KeyShown if a key cannot be masked."""
    async for chunk in _chunks(incoming):
        if searched is None:
            yield chunk
        elif passed := searched.feed(chunk):
            yield passed
    if searched is not None and (rest := searched.end()):
        yield rest


async def _hear_out(incoming: BufferedResponse, heard: _Heard) -> None:
    """Read the rest of an answer whose agent has gone, if it arrives soon."""

    async def hear() -> None:
        with contextlib.suppress(TimeoutError, _BrokenOff, masks.KeyShown):
            async with asyncio.timeout(_REST_SECONDS):
                async for chunk in _masked_chunks(BufferedResponse(incoming.response), heard.searched):
                    heard.take(chunk)

    hearing = asyncio.create_task(hear())
    while not hearing.done():
        # Ending an agent also closes its connection, and each of the two cancels this task.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([hearing])


class _BrokenOff(Exception):
    """The upstream did not finish its answer."""


async def _chunks(incoming: BufferedResponse) -> AsyncIterator[bytes]:
    """Yield the body of an answer, in pieces as they arrive."""
    if incoming.begun:
        yield incoming.begun
    while True:
        try:
            chunk = await incoming.response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _BrokenOff(f"the provider broke off its answer: {type(error).__name__}") from error
        if not chunk:
            return
        yield chunk
