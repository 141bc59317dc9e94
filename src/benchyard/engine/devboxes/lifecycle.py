"""Boot, suspension, resumption and end of devboxes: each verb is one store write and one background job."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial

from benchyard.engine.background import devbox_key, retry_store, snapshot_key_prefix
from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes import services
from benchyard.engine.devboxes.boot import PRISTINE, after_boot, boot
from benchyard.engine.devboxes.commands import run_step, suspend_id
from benchyard.engine.devboxes.start_image import Prerequisites
from benchyard.engine.devboxes.states import BOOTING, ENDED, SUSPENDED, Move, record_after_move
from benchyard.engine.network import egress
from benchyard.errors import BenchyardError, Conflict, NotFound, UsageError
from benchyard.hosts.host import ExecRequest
from benchyard.models.devboxes import Devbox, DevboxStatus
from benchyard.models.launch import SUSPEND_DEADLINE_DEFAULT_MS, LifecycleHooks

RELEASE_SECONDS = 2.0

_S = DevboxStatus
_log = logging.getLogger(__name__)


class Lifecycle:
    """The verbs that change a devbox's status."""

    def __init__(self, tools: EngineContext, prerequisites: Prerequisites) -> None:
        self._tools = tools
        self._prerequisites = prerequisites

    def start(self, devbox_id: str) -> None:
        """Bring a recorded devbox up in the background."""
        self._tools.work.start(devbox_key(devbox_id), partial(self._boot, devbox_id))

    async def end(self, devbox_id: str, move: Move) -> Devbox:
        """Record the end of a devbox and release what it holds; a second end changes nothing."""

        def rule(record: Devbox) -> Devbox:
            return record if record.status in ENDED else record_after_move(record, move, now_ms())

        self._tools.make_room_to_end()
        devbox, is_changed = await self._tools.live_devboxes.move(devbox_id, rule)
        if is_changed:
            self.release(devbox_id)
        return devbox

    def release(self, devbox_id: str) -> None:
        """Stop the remaining processes of a devbox and remove its disk, in the background."""
        self._tools.work.start(devbox_key(devbox_id), partial(self._release, devbox_id), finish=True)

    async def suspend(self, devbox_id: str) -> Devbox:
        """Begin to suspend; raises UsageError unless it runs (or is being suspended already)."""

        def rule(record: Devbox) -> Devbox:
            if record.status in SUSPENDED:
                return record
            if record.status is not _S.RUNNING:
                raise UsageError(f"only a running devbox can be suspended; {devbox_id} is {record.status}")
            return record_after_move(record, Move(_S.SUSPENDING), now_ms())

        devbox, is_changed = await self._tools.live_devboxes.move(devbox_id, rule)
        if is_changed:
            self.rest(devbox_id)
        return devbox

    async def retire(self, devbox_id: str) -> None:
        """End the processes of a devbox that will not be used again; its disk stays until its shutdown.

        Its record says `suspended`, but its suspend hooks do not run, and its doors stay until the shutdown,
        so that refused requests can be looked up. Returns when the processes have ended.
        """

        def rule(record: Devbox) -> Devbox:
            return (
                record_after_move(record, Move(_S.SUSPENDING), now_ms())
                if record.status is _S.RUNNING
                else record
            )

        _, is_changed = await self._tools.live_devboxes.move(devbox_id, rule)
        if is_changed:
            self._tools.work.start(devbox_key(devbox_id), partial(self._rest, devbox_id, is_over=True))
        await self._tools.work.settle(devbox_key(devbox_id))

    def rest(self, devbox_id: str) -> None:
        """Bring a devbox from `suspending` to `suspended` in the background."""
        self._tools.work.start(devbox_key(devbox_id), partial(self._rest, devbox_id))

    async def resume(self, devbox_id: str) -> Devbox:
        """Begin to resume; raises UsageError unless it is suspended (or on its way up already)."""

        def rule(record: Devbox) -> Devbox:
            if record.status in BOOTING or record.status is _S.RUNNING:
                return record
            if record.status is not _S.SUSPENDED:
                raise UsageError(f"only a suspended devbox can be resumed; {devbox_id} is {record.status}")
            woken = record_after_move(record, Move(_S.RESUMING), now_ms())
            return woken.model_copy(update={"boot": record.boot + 1})

        devbox, is_changed = await self._tools.live_devboxes.move(devbox_id, rule)
        if is_changed:
            self.start(devbox_id)
        return devbox

    async def _boot(self, devbox_id: str) -> None:
        try:
            move = await boot(self._tools, devbox_id, self._prerequisites)
        except Exception:  # noqa: BLE001
            # A bug must not leave a devbox coming up for ever.
            _log.exception("devbox %s could not be brought up", devbox_id)
            detail = "the server made a mistake; its log tells which"
            move = Move(_S.FAILURE, failure="health_check_failed", detail=detail)
        if move.status is not _S.RUNNING:
            await retry_store(self.end, devbox_id, move)
            return
        # A conflict: the devbox was ended while it came up, and its end cleans up.
        with contextlib.suppress(Conflict):
            await self._note(devbox_id, lambda record: after_boot(record, move))

    async def _note(self, devbox_id: str, change: Callable[[Devbox], Devbox]) -> None:
        await retry_store(self._tools.live_devboxes.change, devbox_id, change)

    async def _rest(self, devbox_id: str, *, is_over: bool = False) -> None:
        if not is_over:
            await self._run_hooks(await self._tools.live_devboxes.get(devbox_id))
        await self._tools.work.settle(snapshot_key_prefix(devbox_id))
        try:
            await services.stop(self._tools, devbox_id, keep_disk=True)
            await self._tools.host.stop(devbox_id, keep_disk=True, is_synced=not is_over)
            if not is_over:
                await egress.close_door(self._tools, devbox_id)
                # An open door would keep a network that is gone; a resume opens the doors anew.
                await self._tools.doors.close(devbox_id)
        except BenchyardError as error:
            failure = Move(_S.FAILURE, failure="health_check_failed", detail=error.message)
            await retry_store(self.end, devbox_id, failure)
            return
        # A conflict: the devbox was ended while it came to rest, and its end cleans up.
        with contextlib.suppress(Conflict):
            await self._note(
                devbox_id,
                lambda record: (
                    record
                    if record.status is _S.SUSPENDED
                    else record_after_move(record, Move(_S.SUSPENDED), now_ms())
                ),
            )

    async def _run_hooks(self, devbox: Devbox) -> None:
        lifecycle = devbox.launch_parameters.lifecycle
        hooks = (lifecycle.lifecycle_hooks if lifecycle else None) or LifecycleHooks()
        deadline = hooks.suspend_deadline_ms
        seconds = (SUSPEND_DEADLINE_DEFAULT_MS if deadline is None else deadline) / 1000
        try:
            async with asyncio.timeout(seconds):
                for index, command in enumerate(hooks.suspend_commands or []):
                    request = ExecRequest(id=suspend_id(devbox, index), command=command)
                    if failure := await run_step(self._tools, devbox.id, request):
                        self._complain(devbox, f"suspend command {failure}")
        except TimeoutError:
            self._complain(devbox, f"suspend commands took over {seconds} s")
        except BenchyardError as error:
            self._complain(devbox, f"suspend commands: {error.message}")

    def _complain(self, devbox: Devbox, message: str) -> None:
        self._tools.note(devbox.id, "setup_commands", message, level="error")

    async def _release(self, devbox_id: str) -> None:
        await self._tools.work.cancel(snapshot_key_prefix(devbox_id))
        while True:
            try:
                await services.stop(self._tools, devbox_id, keep_disk=False)
                await self._tools.host.stop(devbox_id, keep_disk=False)
                await egress.close_door(self._tools, devbox_id)
                with contextlib.suppress(NotFound):
                    await self._tools.images.remove(devbox_id + PRISTINE)
                await self._tools.doors.close(devbox_id)
            except (BenchyardError, OSError) as error:
                _log.warning("devbox %s could not be cleared away, will try again: %s", devbox_id, error)
                await asyncio.sleep(RELEASE_SECONDS)
            else:
                return
