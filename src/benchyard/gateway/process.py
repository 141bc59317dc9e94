"""The gateway's process: one per folder, in its own session; ends when it is no longer needed."""

import asyncio
import contextlib
import fcntl
import gc
import logging
import os
import resource
import signal
import socket
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

import uvloop

from benchyard.devboxes.guest import syscalls
from benchyard.errors import Conflict
from benchyard.gateway import protocol
from benchyard.gateway.accounts import TokenAccounts
from benchyard.gateway.control import Control
from benchyard.gateway.doors import ServedDoors
from benchyard.gateway.protocol import GatewayOptions
from benchyard.gateway.proxy.server import ModelProxy
from benchyard.gateway.proxy.upstreams import UpstreamClient
from benchyard.gateway.records.writer import Recorder

_LOG = logging.getLogger(__name__)
_LOG_BYTES = 1024 * 1024
_LOOK_SECONDS = 1.0
_RINGS = (50_000, 20, 20)
_SET_DUMPABLE = 4


def start(folder: Path, options: GatewayOptions) -> int:
    """Start the gateway of a folder in the background; return an exit status once it listens or failed."""
    os.umask(0o077)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    lock = os.open(folder / protocol.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return Conflict.exit_code
    listener = protocol.bind_control_socket(folder)
    # The socket listens from here on: clients that connect wait until the child accepts.
    if os.fork():
        return 0
    os.setsid()
    _let_go()
    _serve(folder, options, listener)
    return 0


def _let_go() -> None:
    """Detach the standard streams, keep the memory with its keys unreadable, and raise the file limit."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    os.close(nothing)
    syscalls.prctl(_SET_DUMPABLE, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _serve(folder: Path, options: GatewayOptions, listener: socket.socket) -> None:
    recorder = Recorder(folder)
    ledger = TokenAccounts(recorder)
    _write_log(folder / protocol.LOG, ledger)
    _LOG.info("gateway %s begins", protocol.VERSION)
    # Objects of a request are rarely in reference cycles, and searching for cycles costs time.
    gc.freeze()
    gc.set_threshold(*_RINGS)
    try:
        uvloop.run(_work(folder, options, listener, recorder, ledger))
    finally:
        logging.shutdown()


async def _work(
    folder: Path, options: GatewayOptions, listener: socket.socket, recorder: Recorder, ledger: TokenAccounts
) -> None:
    upstreams, doors = UpstreamClient(options), ServedDoors()
    proxy = ModelProxy(ledger, upstreams, recorder)
    control = Control(ledger, doors, proxy)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, control.stopped.set)
    recorder.open()
    await upstreams.open()
    control.open(listener)
    try:
        await _until_unneeded(control, ledger, options.lease_seconds, folder)
    finally:
        await control.close()
        await asyncio.gather(
            *(ledger.end(account, "the gateway was stopped") for account in ledger.accounts())
        )
        await doors.close_all()
        await upstreams.close()
        await recorder.close()
        _LOG.info("gateway ends")


async def _until_unneeded(
    control: Control, ledger: TokenAccounts, lease_seconds: float, folder: Path
) -> None:
    """End expired grants, until the server asks to stop or there is neither a grant nor a server."""
    look = min(_LOOK_SECONDS, lease_seconds)
    while not control.stopped.is_set():
        control.see_to_socket(folder)
        live = False
        for account in ledger.accounts():
            if account.is_live:
                live = True
            elif account.open:
                await ledger.end(account, "the token expired")
        if not live and control.silent_seconds > lease_seconds:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(control.stopped.wait(), look)


def _write_log(file: Path, ledger: TokenAccounts) -> None:
    handler = RotatingFileHandler(file, maxBytes=_LOG_BYTES, backupCount=1)
    handler.setFormatter(_Discreet(ledger))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class _Discreet(logging.Formatter):
    """Log formatter that masks tokens and keys in every line."""

    def __init__(self, ledger: TokenAccounts) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")
        self._ledger = ledger

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        for secret in self._ledger.secrets():
            line = line.replace(secret, "***")
        return line


def complain(error: OSError) -> int:
    """Write the reason why the gateway cannot start to stderr; return the exit status."""
    sys.stderr.write(f"{error.strerror}: {error.filename}\n")
    return 1
