"""Tunnels for the API: made with a devbox or later, stored in its record, entered by their key."""

import asyncio
import base64
import hmac
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.service import Devboxes
from benchyard.engine.devboxes.states import ENDED
from benchyard.engine.devboxes.tunnel_rules import enabled_tunnel
from benchyard.errors import Conflict, NotFound, TooMany, Unauthorized, UsageError
from benchyard.models.devboxes import Devbox, DevboxStatus, DevboxView, Tunnel, TunnelRequest, TunnelView

WAKE_SECONDS = 5
"""Seconds until a client asks again for a devbox that comes up."""
MOST_PER_TUNNEL = 128
MOST_TOGETHER = 2048
_REMEMBERED = 4096
_TOKEN_BYTES = 24


class NotRunning(Conflict):
    """The devbox behind a tunnel is not running; `details` say how long to wait, if that helps."""

    code = "not_running"
    http_status = 503


@dataclass(eq=False)
class TunnelConnection:
    """Connection through a tunnel."""

    devbox_id: str
    tunnel: Tunnel
    token: str = ""
    """Token that the client entered with; empty if the tunnel is open."""
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the tunnel is removed."""


class Tunnels:
    """The tunnels of all devboxes."""

    def __init__(self, tools: EngineContext, devboxes: Devboxes) -> None:
        self._live_devboxes = tools.live_devboxes
        self._vault = tools.vault
        self._devboxes = devboxes
        self._found: dict[str, str] = {}
        self._passages: dict[str, set[TunnelConnection]] = {}

    async def enable(self, devbox_id: str, request: TunnelRequest) -> TunnelView:
        """Give a devbox its tunnel; a second call returns the same one, unless `auth_mode` differs."""

        def rule(devbox: Devbox) -> Devbox:
            if devbox.status in ENDED:
                raise UsageError(f"devbox {devbox_id} has ended; create another")
            tunnel = enabled_tunnel(devbox.tunnel, request, devbox.launch_parameters, now_ms())
            return devbox.model_copy(update={"tunnel": tunnel})

        before = (await self._live_devboxes.get(devbox_id)).tunnel
        tunnel = (await self._live_devboxes.change(devbox_id, rule)).tunnel
        assert tunnel is not None
        if before and before.tunnel_key != tunnel.tunnel_key:
            self._close(before)
        return self._view(tunnel)

    async def remove(self, devbox_id: str) -> None:
        """Remove a devbox's tunnel and close its connections; without a tunnel this does nothing."""
        before = (await self._live_devboxes.get(devbox_id)).tunnel
        if before is not None:
            await self._live_devboxes.change(
                devbox_id, lambda devbox: devbox.model_copy(update={"tunnel": None})
            )
            self._close(before)

    def view(self, devbox: Devbox) -> DevboxView:
        """Return a devbox as the API shows it, with its tunnel's token."""
        view = devbox.view()
        return view.model_copy(update={"tunnel": self._view(devbox.tunnel)}) if devbox.tunnel else view

    @contextmanager
    def entered(self, key: str, tokens: Sequence[str]) -> Iterator[TunnelConnection]:
        """Open a connection in the tunnel with this key, by one of these tokens if it needs one.

        Raises NotFound, Unauthorized, and TooMany if it has too many connections.
        """
        devbox = self._find(key)
        tunnel = devbox.tunnel if devbox else None
        if devbox is None or tunnel is None:
            raise NotFound("there is no such tunnel")
        wanted = self._token(tunnel) if tunnel.auth_mode == "authenticated" else ""
        if wanted and not any(hmac.compare_digest(token.encode(), wanted.encode()) for token in tokens):
            raise Unauthorized(
                "this tunnel needs its token; send `X-Runloop-Tunnel-Authorization: Bearer AUTH_TOKEN`, "
                "or the same as `Authorization`"
            )
        inside = self._passages.setdefault(key, set())
        passage = TunnelConnection(devbox.id, tunnel, wanted)
        try:
            together = sum(map(len, self._passages.values()))
            if len(inside) >= MOST_PER_TUNNEL or together >= MOST_TOGETHER:
                raise TooMany("too many connections through this tunnel; try again in a moment")
            inside.add(passage)
            yield passage
        finally:
            inside.discard(passage)
            if not inside and self._passages.get(key) is inside:
                del self._passages[key]

    async def awake(self, passage: TunnelConnection) -> None:
        """Return if the devbox runs; else wake it if its tunnel says so, and raise NotRunning."""
        devbox = await self._live_devboxes.get(passage.devbox_id)
        if devbox.status is DevboxStatus.RUNNING:
            self.used(passage)
            return
        if devbox.status in ENDED:
            raise NotFound("there is no such tunnel")
        wakes = passage.tunnel.wake_on_http
        is_coming = devbox.status not in (DevboxStatus.SUSPENDED, DevboxStatus.SUSPENDING)
        if wakes and devbox.status is DevboxStatus.SUSPENDED:
            with suppress(UsageError):
                # Another request may have ended or woken the devbox just now.
                await self._devboxes.resume(devbox.id)
        if is_coming or wakes:
            raise NotRunning("the devbox is coming up; ask again in a moment", retry_after=WAKE_SECONDS)
        raise NotRunning(f"the devbox is {devbox.status}; resume it first")

    def used(self, passage: TunnelConnection) -> None:
        """Note that bytes pass, which counts as use of the devbox unless its tunnel says otherwise."""
        if passage.tunnel.http_keep_alive:
            self._devboxes.touch(passage.devbox_id)

    def _find(self, key: str) -> Devbox | None:
        found = self._live_devboxes.living(self._found.get(key, ""))
        if found is None or found.tunnel is None or found.tunnel.tunnel_key != key:
            matching = (
                each for each in self._live_devboxes.live() if each.tunnel and each.tunnel.tunnel_key == key
            )
            found = next(matching, None)
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            if found is not None:
                self._found[key] = found.id
        return found

    def _close(self, tunnel: Tunnel) -> None:
        for passage in self._passages.get(tunnel.tunnel_key, ()):
            passage.closed.set()

    def _token(self, tunnel: Tunnel) -> str:
        secret = self._vault.derive("tunnel-token", tunnel.tunnel_key)[:_TOKEN_BYTES]
        return base64.urlsafe_b64encode(secret).decode()

    def _view(self, tunnel: Tunnel) -> TunnelView:
        token = self._token(tunnel) if tunnel.auth_mode == "authenticated" else None
        return TunnelView(**tunnel.model_dump(), auth_token=token)
