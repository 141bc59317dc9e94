"""`benchyard devbox exec`: run a command with live output, and exit with its status."""

import asyncio
import codecs
import concurrent.futures
import os
import shlex
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import BinaryIO

import click

from benchyard.cli.connection import connect, connect_async
from benchyard.cli.notices import tell
from benchyard.cli.options import FloatRange, checked_input
from benchyard.cli.render import write_all
from benchyard.client.client import AsyncClient
from benchyard.client.lookup import find_devbox
from benchyard.errors import BenchyardError, UsageError
from benchyard.models.executions import ExecuteRequest, ExecutionView, StdInRequest, StreamName

CHUNK = 64 * 1024
TIMED_OUT = 124


@click.command("exec", context_settings={"ignore_unknown_options": True})
@click.argument("id")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--shell", "shell_name", help="Run it in the named shell, which keeps directory and environment."
)
@click.option(
    "-i", "--stdin", is_flag=True, help="Pass this command's standard input on to the one in the devbox."
)
@click.option(
    "--timeout", type=FloatRange(min=0), metavar="SECONDS", help="Kill the command after this many seconds."
)
def exec_(id: str, command: Sequence[str], shell_name: str | None, stdin: bool, timeout: float | None) -> int:
    """Run a command in a devbox, and end with its exit status.

    One argument is a line for the shell; several are passed on exactly as they are.

    \b
      benchyard devbox exec box -- 'ls | wc -l'
      benchyard devbox exec box -- python3 -c 'print("as it is")'
      benchyard devbox exec box --shell work -- 'cd /tmp && export A=1'
      git diff | benchyard devbox exec box -i -- 'patch -p1'
    """
    with connect() as client:
        devbox_id = find_devbox(client, id).id
    line = command[0] if len(command) == 1 else shlex.join(command)
    with checked_input():
        request = ExecuteRequest(command=line, shell_name=shell_name, attach_stdin=stdin or None)
    return asyncio.run(_run(devbox_id, request, timeout))


async def _run(devbox_id: str, request: ExecuteRequest, timeout: float | None) -> int:
    async with connect_async() as client:
        view = await client.executions.start(devbox_id, request)
        try:
            async with asyncio.timeout(timeout):
                await _follow(client, view, stdin=bool(request.attach_stdin))
        except TimeoutError:
            await client.executions.kill(devbox_id, view.execution_id)
            tell(f"the command was killed after {timeout:g} s")
            return TIMED_OUT
        except BaseException:
            with suppress(BenchyardError):
                await client.executions.kill(devbox_id, view.execution_id)
            raise
        ended = await client.executions.wait(devbox_id, view.execution_id)
    if ended.hint:
        tell(f"{ended.hint}")
    return ended.exit_status or 0


async def _follow(client: AsyncClient, view: ExecutionView, *, stdin: bool) -> None:
    """Copy both outputs to their ends, and standard input meanwhile; the first error ends all of it."""
    outputs = [
        asyncio.create_task(_copy(client, view, "stdout", sys.stdout.buffer)),
        asyncio.create_task(_copy(client, view, "stderr", sys.stderr.buffer)),
    ]
    tasks = [*outputs, asyncio.create_task(_feed(client, view))] if stdin else outputs
    try:
        waiting = set(tasks)
        while not all(task.done() for task in outputs):
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(client: AsyncClient, view: ExecutionView, stream: StreamName, target: BinaryIO) -> None:
    async for chunk in client.executions.stream(view.devbox_id, view.execution_id, stream):
        write_all(target, chunk)


async def _feed(client: AsyncClient, view: ExecutionView) -> None:
    """Send standard input on as it comes, then its end; stops when the command takes no more."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    chunks = _input_chunks()
    while True:
        data = await chunks.get()
        try:
            text = decoder.decode(data, final=not data)
        except UnicodeDecodeError:
            raise UsageError(
                "standard input is not UTF-8 text; bring it in with `benchyard devbox cp - ID:PATH`"
            ) from None
        request = StdInRequest(text=text) if data else StdInRequest(text=text or None, signal="EOF")
        if data and not text:
            continue
        sent = await client.executions.send_stdin(view.devbox_id, view.execution_id, request)
        if not data or not sent.success:
            return


def _input_chunks() -> "asyncio.Queue[bytes]":
    """Return standard input in pieces, b"" at its end, read by a thread that does not block the exit."""
    chunks: asyncio.Queue[bytes] = asyncio.Queue(1)
    loop = asyncio.get_running_loop()

    def read() -> None:
        data = b"."
        while data:
            data = os.read(sys.stdin.fileno(), CHUNK)
            with suppress(RuntimeError, concurrent.futures.CancelledError):
                asyncio.run_coroutine_threadsafe(chunks.put(data), loop).result()

    threading.Thread(target=read, daemon=True).start()
    return chunks
