"""The server's client of the gateway: finds, starts and restarts its process, and sends requests to it."""

import asyncio
import contextvars
import fcntl
import itertools
import logging
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import benchyard
from benchyard.devboxes.guest import wire
from benchyard.devboxes.shared.channel import Channel
from benchyard.errors import (
    BenchyardError,
    Conflict,
    NotFound,
    StillWaiting,
    StoreError,
    TooLarge,
    UsageError,
    from_os,
)
from benchyard.gateway import protocol
from benchyard.gateway.calls import Call
from benchyard.gateway.grants import Grant, GrantUsage
from benchyard.gateway.protocol import GatewayOptions
from benchyard.gateway.records.reader import read_calls

OnRestart = Callable[[], Awaitable[None]]

_LOG = logging.getLogger(__name__)
_PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 0.02
_ERRORS: dict[str, type[BenchyardError]] = {
    kind.code: kind for kind in (UsageError, NotFound, Conflict, TooLarge, StoreError)
}
_PASSED_ON = ("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""Variables of the server's environment that the gateway gets: those for reaching upstreams, and no key."""

_restarting: contextvars.ContextVar[bool] = contextvars.ContextVar("restarting", default=False)


class Gateway:
    """The gateway process of one folder.

    The process outlives the server that started it. A process of another version that still has grants is
    kept until they are gone, because their requests would die with it; `status()` returns its version.
    """

    def __init__(
        self, folder: Path, options: GatewayOptions | None = None, on_restart: OnRestart | None = None
    ) -> None:
        self._folder = folder
        self._options = options or GatewayOptions()
        self._on_restart = on_restart
        self._channel: Channel | None = None
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count(1)
        self._instance: str | None = None
        self._ready = asyncio.Event()
        self._recovery: asyncio.Task[None] | None = None
        self._is_open = False

    async def open(self) -> None:
        """Find the running process, or start one."""
        self._is_open = True
        await self._connect()
        status = await self._tell({"op": "status"})
        if status["version"] != protocol.VERSION and not status["grants"]:
            await self._end_process()
            await self._connect()
            status = await self._tell({"op": "status"})
        self._instance = status["instance"]
        self._ready.set()

    async def close(self) -> None:
        """Disconnect from the process, which goes on."""
        self._is_open = False
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        self._fail_asked()

    async def grant(self, grant: Grant) -> GrantUsage:
        """Accept a token; earlier usage under the same id still counts. Raises UsageError."""
        answer = await self._ask({"op": "grant", "grant": protocol.grant_to_json(grant)})
        return protocol.spent_from_json(answer["spent"])

    async def listen(self, devbox_id: str, descriptor: int) -> None:
        """Serve models on a listening socket of a devbox; the caller still closes its own descriptor."""
        await self._ask({"op": "listen", "devbox_id": devbox_id}, [descriptor])

    async def unlisten(self, devbox_id: str) -> None:
        """Stop serving a devbox, both by socket and by connection; a devbox that is not served is fine."""
        await self._ask({"op": "unlisten", "devbox_id": devbox_id})

    async def spent(self, grant_id: str) -> GrantUsage:
        """Return the usage so far; raises NotFound."""
        answer = await self._ask({"op": "usage", "grant_id": grant_id})
        return protocol.spent_from_json(answer["spent"])

    async def revoke(self, grant_id: str) -> GrantUsage:
        """End a token and its open requests, and return the usage; every call is on disk by then."""
        answer = await self._ask({"op": "revoke", "grant_id": grant_id})
        return protocol.spent_from_json(answer["spent"])

    async def status(self) -> dict[str, Any]:
        """Return `grants` and `devboxes` by id, `pid`, `version`, `instance`."""
        return await self._ask({"op": "status"})

    def calls(self, grant_id: str) -> Iterator[Call]:
        """Yield every call of a grant, in order, read from disk lazily (blocks)."""
        return read_calls(protocol.record_file(self._folder, grant_id))

    async def forget(self, grant_id: str) -> None:
        """Remove the record of a grant that was revoked; raises Conflict if it was not."""
        await self._ask({"op": "forget", "grant_id": grant_id})

    async def stop(self) -> None:
        """End the process together with its open requests, and wait until it is gone."""
        self._is_open = False
        if is_running(self._folder):
            await self._connect()
            await self._end_process()
        await self.close()

    async def ask(self, message: dict[str, Any], descriptors: list[int] | None = None) -> dict[str, Any]:
        """Send an operation by name, for the operations that other modules add to the gateway."""
        return await self._ask(message, descriptors)

    async def _ask(self, message: dict[str, Any], descriptors: list[int] | None = None) -> dict[str, Any]:
        """Send a message, and once more if the process died meanwhile: every operation may be repeated."""
        for attempt in range(2):
            if not self._is_open:
                raise Conflict("the gateway was not opened, or is closed already")
            if not _restarting.get():
                await self._until_ready()
            try:
                return await self._tell(message, descriptors)
            except OSError:
                if attempt:
                    break
        raise BenchyardError(f"the gateway ended twice over one request; its log is {self._log_file}")

    async def _until_ready(self) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._ready.wait()
        except TimeoutError as error:
            raise StillWaiting(f"the gateway does not start; its log is {self._log_file}") from error

    async def _tell(self, message: dict[str, Any], descriptors: list[int] | None = None) -> dict[str, Any]:
        channel = self._channel
        if channel is None:
            raise BrokenPipeError(32, "no connection to the gateway")
        number = next(self._numbers)
        packet = {**message, "id": number}
        if len(str(packet)) * 2 > wire.MAX_MESSAGE:
            raise TooLarge("the grant is too long; give it fewer routes or shorter headers")
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        try:
            await channel.send(packet, descriptors)
            answer = await future
        finally:
            self._asked.pop(number, None)
        if not answer["ok"]:
            raise _ERRORS.get(answer["code"], BenchyardError)(answer["message"])
        return answer

    def _heard(self, message: dict[str, Any] | None, descriptors: list[int]) -> None:
        for descriptor in descriptors:
            os.close(descriptor)
        if message is not None:
            future = self._asked.get(message["id"])
            if future is not None and not future.done():
                future.set_result(message)
            return
        self._channel = None
        self._ready.clear()
        self._fail_asked()
        if self._is_open and (self._recovery is None or self._recovery.done()):
            self._recovery = asyncio.create_task(self._recover())

    def _fail_asked(self) -> None:
        for future in self._asked.values():
            if not future.done():
                future.set_exception(BrokenPipeError(32, "the gateway is gone"))

    async def _recover(self) -> None:
        """Find or start the process again, and run the callback that grants and listens again."""
        while self._is_open:
            try:
                await self._connect()
                status = await self._tell({"op": "status"})
                if status["instance"] != self._instance and self._on_restart is not None:
                    _restarting.set(True)
                    await self._on_restart()
                if self._channel is None:
                    # The connection ended again meanwhile, and only this task restores it.
                    continue
                self._instance = status["instance"]
                self._ready.set()
                return
            except (BenchyardError, OSError) as error:
                _LOG.error("could not reconnect to the gateway: %s", error)
                await asyncio.sleep(1)

    async def _connect(self) -> None:
        """Connect to the process, starting it if needed; its lock lets only one of several starts succeed."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        while self._channel is None:
            try:
                self._channel = Channel(protocol.connect_control_socket(self._folder), self._heard)
            except OSError as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise StillWaiting(f"the gateway does not answer: {error}") from error
                await self._start()

    async def _start(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise from_os(error) from error
        values = [f"--{field.name}={getattr(self._options, field.name)}" for field in fields(GatewayOptions)]
        # Start it in a thread: uvloop waits for the end of a pipe that the gateway itself keeps open.
        ran = await asyncio.to_thread(
            subprocess.run,
            (sys.executable, "-s", "-m", "benchyard.gateway", str(self._folder), *values),
            env=_environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            check=False,
        )
        if ran.returncode not in (0, Conflict.exit_code):
            said = ran.stderr.decode(errors="replace").strip()
            last = said.splitlines()[-1:] or ["it ended without a message"]
            raise BenchyardError(f"the gateway did not start: {last[0]}; its log is {self._log_file}")

    async def _end_process(self) -> None:
        try:
            await self._tell({"op": "stop"})
        except OSError:
            # The process ended before it could answer.
            _LOG.info("the gateway had ended already")
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        while is_running(self._folder):
            if asyncio.get_running_loop().time() > deadline:
                raise StillWaiting("the gateway does not end")
            await asyncio.sleep(_LOOK_SECONDS)

    @property
    def _log_file(self) -> Path:
        return self._folder / protocol.LOG


def _environment() -> dict[str, str]:
    names = [name for each in _PASSED_ON for name in (each, each.lower()) if name in os.environ]
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(Path(benchyard.__file__).parent.parent),
        **{name: os.environ[name] for name in names},
    }


def is_running(folder: Path) -> bool:
    """Tell whether the gateway of a folder is running: its process holds a lock until it ends."""
    try:
        descriptor = os.open(folder / protocol.LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
