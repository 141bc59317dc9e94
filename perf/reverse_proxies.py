"""Contenders of the gateway: nothing at all, the gateway's own process, and mitmproxy in reverse mode."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchyard.gateway.client import Gateway
from benchyard.gateway.grants import Grant, Upstream

TOKEN = "token-for-measuring"
_KEY = "key-for-measuring"
_ADDON = f"""
class Pass:
    def request(self, flow):
        flow.request.headers["x-api-key"] = "{_KEY}"

    def responseheaders(self, flow):
        flow.response.stream = True

addons = [Pass()]
"""


@dataclass(frozen=True)
class Contender:
    """Where requests go, and the process that passes them on."""

    name: str
    url: str
    pid: int | None

    def cpu_seconds(self) -> float:
        """What its process has computed so far."""
        assert self.pid is not None
        spent = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, spent)) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def model_server() -> Iterator[int]:
    """A model's server in a process of its own; its port."""
    command = [sys.executable, "-m", "perf.model_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


@contextlib.asynccontextmanager
async def gateway(folder: Path, port: int) -> AsyncIterator[Contender]:
    """The gateway, which meters and records as always."""
    process = Gateway(folder / "gateway")
    await process.open()
    upstream = Upstream(f"http://127.0.0.1:{port}", "x-api-key", "", _KEY, prices="anthropic")
    expires_ms = round(time.time() * 1000) + 3_600_000
    await process.grant(Grant("perf", TOKEN, "box", {"anthropic": upstream}, expires_ms))
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        await process.listen("box", listener.fileno())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/anthropic/v1/messages"
        try:
            yield Contender("gateway", url, (await process.status())["pid"])
        finally:
            await process.stop()


def install_mitmproxy(folder: Path) -> Path:
    """The program, in a virtual environment of its own."""
    place = folder / "mitmproxy"
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    # The last line of versions that runs on Python 3.11.
    command = [str(place / "bin/pip"), "install", "--quiet", "mitmproxy>=11,<12"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return place / "bin/mitmdump"


@contextlib.asynccontextmanager
async def mitmproxy(program: Path, folder: Path, port: int) -> AsyncIterator[Contender]:
    """It swaps the key and streams; it meters and records nothing."""
    addon = folder / "addon.py"
    addon.write_text(_ADDON)
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = free.getsockname()[1]
    command = [str(program), "-q", "--mode", f"reverse:http://127.0.0.1:{port}", "-s", str(addon)]
    command += ["--listen-host", "127.0.0.1", "--listen-port", str(listen), "--set", f"confdir={folder}"]
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
    try:
        await _until_open(listen)
        yield Contender("mitmproxy", f"http://127.0.0.1:{listen}/v1/messages", process.pid)
    finally:
        process.terminate()
        await process.wait()


async def _until_open(port: int) -> None:
    for _ in range(1200):
        try:
            _reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    raise TimeoutError("mitmproxy does not listen")
