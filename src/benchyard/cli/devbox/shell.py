"""`benchyard devbox shell`: a real terminal in a devbox."""

import asyncio
import os
import secrets
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

import click

from benchyard.cli.connection import connect, connect_async
from benchyard.cli.render import write_all
from benchyard.client.client import AsyncClient
from benchyard.client.lookup import find_devbox
from benchyard.client.sockets import Terminal, open_terminal
from benchyard.errors import BenchyardError, ServerUnreachable, UsageError
from benchyard.models.devboxes import PtyControlRequest

CHUNK = 64 * 1024
LARGEST = 1000
USUAL = (80, 24)
LEFT_SCREEN = b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[0m\r\n"
"""Escape sequences that undo a full-screen program's changes to this terminal after a lost connection."""


@click.command()
@click.argument("id")
@click.option(
    "--session", help="A name for the session, to come back to it; a new one each time if not given."
)
def shell(id: str, session: str | None) -> int:
    """Open a terminal in a devbox; it ends with the shell's exit status.

    \b
      benchyard devbox shell box
      benchyard devbox shell box --session work
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("a shell needs a terminal; `benchyard devbox exec ID -- COMMAND` does not")
    with connect() as client:
        devbox_id = find_devbox(client, id).id
    name = session or f"cli-{secrets.token_hex(8)}"
    return asyncio.run(_attend(devbox_id, name))


async def _attend(devbox_id: str, session: str) -> int:
    async with connect_async() as client, open_terminal(client, devbox_id, session, *_size()) as terminal:
        with _raw_mode():
            await _until_end(client, terminal, devbox_id, session)
            if not terminal.has_ended:
                os.write(sys.stdout.fileno(), LEFT_SCREEN)
        if not terminal.has_ended:
            raise ServerUnreachable(
                "the connection to the terminal is gone, the shell inside is not; "
                f"`benchyard devbox shell {devbox_id} --session {session}` takes it up again"
            )
        return terminal.exit_status


async def _until_end(client: AsyncClient, terminal: Terminal, devbox_id: str, session: str) -> None:
    """Carry bytes both ways, and sizes in, until the connection ends or a signal demands the end."""
    typed: asyncio.Queue[bytes] = asyncio.Queue()
    resized = asyncio.Event()
    loop = asyncio.get_running_loop()
    leave = asyncio.Event()
    loop.add_signal_handler(signal.SIGWINCH, resized.set)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, leave.set)
    loop.add_reader(sys.stdin.fileno(), lambda: _read_keys(typed, leave))
    helpers = [
        asyncio.create_task(_type(terminal, typed)),
        asyncio.create_task(_resize(client, devbox_id, session, resized)),
    ]
    ends = [asyncio.create_task(_print(terminal)), asyncio.create_task(leave.wait())]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_reader(sys.stdin.fileno())
        for task in (*helpers, *ends):
            task.cancel()
        await asyncio.gather(*helpers, *ends, return_exceptions=True)


async def _print(terminal: Terminal) -> None:
    async for data in terminal.printed():
        write_all(sys.stdout.buffer, data)


async def _type(terminal: Terminal, typed: "asyncio.Queue[bytes]") -> None:
    while True:
        await terminal.type(await typed.get())


async def _resize(client: AsyncClient, devbox_id: str, session: str, resized: asyncio.Event) -> None:
    while await resized.wait():
        resized.clear()
        columns, rows = _size()
        request = PtyControlRequest(action="resize", cols=columns, rows=rows)
        try:
            await client.pty.control(devbox_id, session, request)
        except BenchyardError:
            # The session may just have ended; failing to set a size must not end one that goes on.
            continue


def _read_keys(typed: "asyncio.Queue[bytes]", leave: asyncio.Event) -> None:
    try:
        data = os.read(sys.stdin.fileno(), CHUNK)
    except OSError:
        data = b""
    if data:
        typed.put_nowait(data)
    else:
        leave.set()


def _size() -> tuple[int, int]:
    columns, rows = os.get_terminal_size(sys.stdin.fileno())
    return min(columns or USUAL[0], LARGEST), min(rows or USUAL[1], LARGEST)


@contextmanager
def _raw_mode() -> Iterator[None]:
    """Pass keys through unchanged, even Ctrl-C, and restore the terminal's settings at the end."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:
        tty.setraw(keyboard, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
