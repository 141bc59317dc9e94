"""Admission of requests: checks token and target, and finds the upstream."""

import asyncio
from dataclasses import replace

from aiohttp import web

from benchyard.gateway.accounts import Account, TokenAccounts
from benchyard.gateway.dialects import catalog
from benchyard.gateway.dialects.base import Dialect
from benchyard.gateway.grants import Upstream
from benchyard.gateway.proxy import logprobs, requests
from benchyard.gateway.proxy.bodies import RequestBodies
from benchyard.gateway.proxy.exchange import AdmittedRequest, ModelExchange
from benchyard.gateway.proxy.requests import Refused, Target
from benchyard.gateway.proxy.upstreams import UpstreamClient
from benchyard.gateway.records.writer import Recorder

_UNKNOWN = "this token opens nothing here: it is unknown, was revoked or has expired"


class ModelProxy:
    """Serves the model requests of every devbox."""

    def __init__(self, ledger: TokenAccounts, upstreams: UpstreamClient, recorder: Recorder) -> None:
        self._ledger = ledger
        self._exchange = ModelExchange(ledger, upstreams, recorder)

    async def serve(
        self, request: web.BaseRequest, devbox_id: str, bodies: RequestBodies
    ) -> web.StreamResponse:
        """Answer one request of a devbox."""
        dialect = None
        try:
            target = requests.target_of(request.raw_path if request.method != "CONNECT" else "")
            dialect = catalog.dialect_of_path(target.plain)
            if requests.is_greeting(request.method, target):
                return web.Response()
            return await self._pass(request, target, devbox_id, bodies)
        except Refused as refused:
            return web.Response(status=refused.status, body=refused.body(dialect), headers=refused.headers())

    async def _pass(
        self, request: web.BaseRequest, target: Target, devbox_id: str, bodies: RequestBodies
    ) -> web.StreamResponse:
        if request.method not in requests.FORWARDED_METHODS:
            raise Refused("bad_request", f"{request.method[:20]} does not pass through the gateway", 405)
        account, token = self._account(request, target, devbox_id)
        upstream = _upstream(account, target)
        dialect = _dialect(request, target, upstream)
        async with bodies.read(request) as body:
            admitted = AdmittedRequest(request, target, account, upstream, dialect, token, body, body)
            if account.grant.logprobs and dialect is not None and dialect.name == "chat":
                # In a thread, since an agent may send as much as it likes.
                passed, added = await asyncio.to_thread(logprobs.request_with_logprobs, body)
                admitted = replace(admitted, passed=passed, added=added)
            return await self._exchange.run(admitted)

    def _account(self, request: web.BaseRequest, target: Target, devbox_id: str) -> tuple[Account, str]:
        token = requests.token_of(request.headers, target.query)
        if token is None:
            message = "no token: the gateway takes it where the provider takes its key"
            raise Refused("auth", message)
        account = self._ledger.find(token, devbox_id)
        if account is None:
            raise Refused("auth", _UNKNOWN)
        return account, token


def _upstream(account: Account, target: Target) -> Upstream:
    upstream = account.grant.upstreams.get(target.route)
    if upstream is None:
        allowed = ", ".join(f"/{route}" for route in sorted(account.grant.upstreams)) or "none"
        raise Refused("forbidden", f"this token does not open /{target.route}; it opens {allowed}")
    return upstream


def _dialect(request: web.BaseRequest, target: Target, upstream: Upstream) -> Dialect | None:
    """Return the dialect of a request; None for a permitted request that is not a call of a model."""
    if "upgrade" in request.headers.get("connection", "").lower():
        # After a 426, clients that try a WebSocket first continue without one at once.
        raise Refused("bad_request", "the gateway takes no upgrades; ask by POST", 426)
    dialect = catalog.dialect_of_path(target.plain) if request.method == "POST" else None
    if dialect is None and not upstream.any_path and not requests.is_lookup(request.method, target):
        raise Refused("forbidden", f"{request.method} {target.plain[:200]} is not a call of a model")
    return dialect
