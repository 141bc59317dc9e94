"""Ends devboxes that expired, are idle or died; reconciles records and machine after a restart."""

import asyncio
import contextlib
import logging
import time
from functools import partial
from typing import get_args

from benchyard.devboxes.base import DevboxEnded, Event
from benchyard.engine.background import retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes import services
from benchyard.engine.devboxes.commands import PTY_PREFIX, entrypoint_id
from benchyard.engine.devboxes.lifecycle import Lifecycle
from benchyard.engine.devboxes.live import LIVE
from benchyard.engine.devboxes.states import BOOTING, Move, alive_since_ms, is_idle, seconds_left
from benchyard.engine.network import egress
from benchyard.errors import BenchyardError, NotFound
from benchyard.models.devboxes import Devbox, DevboxStatus, FailureReason

TICK_SECONDS = 1.0
KEEP_SECONDS = 7 * 24 * 3600
"""Seconds for which logs and outputs of ended devboxes can be read."""
_FIRST_CLEAR_SECONDS = 30.0
CLEAR_SECONDS = 600.0

_S = DevboxStatus
_log = logging.getLogger(__name__)


class Reaper:
    """Timer and reader of events; both act on the present state, so a missed event loses nothing."""

    def __init__(self, tools: EngineContext, lifecycle: Lifecycle) -> None:
        self._tools = tools
        self._lifecycle = lifecycle
        self._last_use_ms: dict[str, int] = {}
        self._deadlines: dict[str, tuple[int, float]] = {}
        """Start of a devbox's lifetime by the wall clock, and its end by the monotonic clock."""
        self._has_looked = False

    def touch(self, devbox_id: str) -> None:
        """Note that a devbox is being used."""
        self._last_use_ms[devbox_id] = now_ms()

    async def reconcile(self) -> None:
        """Reconcile records and machine after a start: resume running and booting devboxes, end lost ones."""
        running = self._tools.host.running()
        for devbox in self._tools.live_devboxes.live():
            if devbox.status in BOOTING:
                self._lifecycle.start(devbox.id)
            elif devbox.status is _S.SUSPENDING:
                self._lifecycle.rest(devbox.id)
            elif devbox.status is _S.RUNNING and devbox.id not in running:
                detail = "the devbox was gone when the server started again"
                await self._lifecycle.end(devbox.id, _failure("health_check_failed", detail))
            elif devbox.status is _S.RUNNING and devbox.egress is not None:
                # Its proxy may have been restarted too.
                reopen = partial(egress.reopen_door, self._tools, devbox.id)
                self._tools.work.start(f"egress/{devbox.id}", reopen)
        left = running | self._tools.host.with_disk()
        # Devboxes with an unreadable record stay, so that the record can be repaired.
        live = await self._tools.live_devboxes.records.ids({"status": LIVE})
        for devbox_id in left - live:
            if services.main_of(devbox_id) not in live:
                self._lifecycle.release(devbox_id)

    async def watch(self) -> None:
        """Check every live devbox again and again."""
        while True:
            for devbox in self._tools.live_devboxes.live():
                await self._look(devbox)
            self._has_looked = True
            live = {devbox.id for devbox in self._tools.live_devboxes.live()}
            self._last_use_ms = {id: used for id, used in self._last_use_ms.items() if id in live}
            self._deadlines = {id: each for id, each in self._deadlines.items() if id in live}
            if self._tools.reserve is not None:
                self._tools.reserve.restore()
            await asyncio.sleep(TICK_SECONDS)

    async def clear(self) -> None:
        """Delete the logs and outputs of devboxes that ended long ago, again and again."""
        # Not at once: a starting server has more urgent work than searching all old devboxes.
        await asyncio.sleep(_FIRST_CLEAR_SECONDS)
        while True:
            try:
                for devbox_id in await self._tools.host.forget_old(now_ms() - KEEP_SECONDS * 1000):
                    self._tools.journal.forget(devbox_id)
            except (BenchyardError, OSError) as error:
                _log.warning("old logs could not be removed, will try again: %s", error)
            await asyncio.sleep(CLEAR_SECONDS)

    async def listen(self) -> None:
        """Act on the host's events as they come."""
        async for event in self._tools.host.events():
            try:
                await retry_store(self._on_event, event)
            except (BenchyardError, OSError) as error:
                _log.warning("could not act on the end of something in %s: %s", event.devbox_id, error)

    async def _on_event(self, event: Event) -> None:
        if isinstance(event, DevboxEnded):
            services.note_end(self._tools, event.devbox_id, event.detail)
        with contextlib.suppress(NotFound):
            devbox = await self._tools.live_devboxes.get(event.devbox_id)
            if isinstance(event, DevboxEnded):
                if devbox.status is _S.RUNNING or devbox.status in BOOTING:
                    await self._lifecycle.end(devbox.id, _failure(event.reason, event.detail))
            elif devbox.entrypoint and event.execution_id == entrypoint_id(devbox):
                await self._look(devbox)

    async def _look(self, devbox: Devbox) -> None:
        try:
            if self._is_expired(devbox):
                await self._lifecycle.end(devbox.id, Move(_S.SHUTDOWN, shutdown="keep_alive_timeout"))
            elif await self._entrypoint_ended(devbox):
                await self._lifecycle.end(devbox.id, Move(_S.SHUTDOWN, shutdown="entrypoint_exit"))
            elif is_idle(devbox, self._last_use_ms.get(devbox.id, 0), now_ms()):
                await self._on_idle(devbox)
        except (BenchyardError, OSError) as error:
            # The next pass tries again.
            _log.warning("could not look after %s: %s", devbox.id, error)

    def _is_expired(self, devbox: Devbox) -> bool:
        """Tell whether the keep-alive time is over, by the monotonic clock once its start has been seen."""
        begun = alive_since_ms(devbox)
        # At first, lifetimes are read from the wall clock; one seen later has just begun.
        left = seconds_left(devbox, begun if self._has_looked else now_ms())
        if left is None:
            return False
        known, deadline = self._deadlines.get(devbox.id, (None, 0.0))
        if known != begun:
            deadline = time.monotonic() + left
            self._deadlines[devbox.id] = begun, deadline
        return time.monotonic() >= deadline

    async def _entrypoint_ended(self, devbox: Devbox) -> bool:
        if not devbox.entrypoint or devbox.status is not _S.RUNNING:
            return False
        state = await self._tools.host.execution(devbox.id, entrypoint_id(devbox))
        return state.status == "completed"

    async def _on_idle(self, devbox: Devbox) -> None:
        policy = devbox.launch_parameters.idle_policy
        harmless = (entrypoint_id(devbox), PTY_PREFIX)
        is_busy = any(not state.id.startswith(harmless) for state in self._tools.host.under_way(devbox.id))
        if policy is None or is_busy:
            self.touch(devbox.id)
        elif policy.on_idle == "suspend":
            await self._lifecycle.suspend(devbox.id)
        else:
            await self._lifecycle.end(devbox.id, Move(_S.SHUTDOWN, shutdown="idle"))


def _failure(reason: str, detail: str) -> Move:
    known: tuple[FailureReason, ...] = get_args(FailureReason)
    matching = [each for each in known if each == reason]
    return Move(_S.FAILURE, failure=matching[0] if matching else "health_check_failed", detail=detail)
