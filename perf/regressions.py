"""`regressions`: devboxes, the engine, the gateway and the command line, beside those of `--before`.

A change of the layout must not make them slower. Processor time is that of the servers' control groups, or
of the process and its children; each ratio is the median of those of neighbouring turns.
"""

import contextlib
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchyard.testing.server import RunningServer
from perf.api import Api
from perf.jobs import processor_ms_per_trial
from perf.machine import Account
from perf.options import Options
from perf.page import heading, table
from perf.versions import OtherCheckout, commit_of

_NOW = "now"
_BEFORE = "before"
_BLOCK = 10
"""Devboxes, or starts of the command line, of one version before the turn of the other."""
_TRIALS = 500
_TARGET = "at most 1.05x"
_GATEWAY_RATE = """
import asyncio, contextlib, pathlib, tempfile
import aiohttp
from perf import gateway, reverse_proxies

async def main():
    async with contextlib.AsyncExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = stack.enter_context(reverse_proxies.model_server())
        contender = await stack.enter_async_context(reverse_proxies.gateway(folder, port))
        connector = aiohttp.TCPConnector(limit=0)
        client = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        await gateway._together(client, contender)
        print(await gateway._rate(client, contender))

asyncio.run(main())
"""
"""Measures with the modules of the checkout that it runs in, whose names are those of both versions."""
_STARTS = {
    "`benchyard --version`": ("--version",),
    "`benchyard job list --help`": ("job", "list", "--help"),
    "`benchyard job list`": ("job", "list"),
}


def measure(folder: Path, options: Options) -> list[str]:
    """Take turns between this checkout and another one."""
    if not options.before:
        raise SystemExit("perf: regressions needs --before CHECKOUT, with an environment of its own in .venv")
    before = Path(options.before)
    load = [os.getloadavg()[0]]
    rows = [
        *_devboxes(folder, before, options.rounds),
        *_engine(folder, before, max(3, options.rounds // 4)),
        *_commands(folder, before, options.rounds),
        *_gateway(before, max(3, options.rounds // 6)),
    ]
    load.append(os.getloadavg()[0])
    notes = (
        f"{options.rounds} rounds, in turns; the load was {min(load):.1f} to {max(load):.1f}.",
        f"Before: commit {commit_of(before)}.",
    )
    return [
        heading(*notes),
        "",
        *table(("", _NOW, _BEFORE, "now, to before", "target"), rows),
    ]


Row = tuple[str, str, str, str, str]


def _devboxes(folder: Path, before: Path, rounds: int) -> list[Row]:
    driver = ["--driver", "native"]
    servers: dict[str, RunningServer] = {
        _NOW: RunningServer(folder / "now", driver),
        _BEFORE: OtherCheckout(folder / "before", before, driver),
    }
    accounts = {name: Account(server.data.name) for name, server in servers.items()}
    with contextlib.ExitStack() as stack:
        for name, server in servers.items():
            stack.callback(accounts[name].close)
            with accounts[name]:
                stack.enter_context(server)
        apis = {name: Api(server) for name, server in servers.items()}
        for api in apis.values():
            stack.callback(api.close)

        def block(name: str) -> tuple[float, float]:
            earlier = accounts[name].milliseconds()
            taken = statistics.median(_milliseconds(apis[name].cycle) for _ in range(_BLOCK))
            return taken, (accounts[name].milliseconds() - earlier) / _BLOCK

        turns = _in_turns(block, rounds)
    return [
        _row("create, first command, shut down, ms", turns, 0, ""),
        _row("... its processor time, ms", turns, 1, _TARGET),
    ]


def _engine(folder: Path, before: Path, rounds: int) -> list[Row]:
    driver = ["--driver", "pretend"]
    servers: dict[str, RunningServer] = {
        _NOW: RunningServer(folder / "engine-now", driver),
        _BEFORE: OtherCheckout(folder / "engine-before", before, driver),
    }
    with contextlib.ExitStack() as stack:
        for server in servers.values():
            stack.enter_context(server)
        turns = _in_turns(lambda name: (processor_ms_per_trial(servers[name], _TRIALS),), rounds)
    return [_row("the engine for a trial, processor time, ms", turns, 0, _TARGET)]


def _commands(folder: Path, before: Path, rounds: int) -> list[Row]:
    pythons = {_NOW: sys.executable, _BEFORE: str(before / ".venv/bin/python")}
    places = {_NOW: Path.cwd(), _BEFORE: before}
    rows = []
    with RunningServer(folder / "command-line", ["--driver", "fake"]) as server:
        environment = {
            **os.environ,
            "BENCHYARD_URL": server.url,
            "BENCHYARD_API_KEY": server.key,
            "HOME": str(folder),
        }
        for label, arguments in _STARTS.items():

            def block(name: str, arguments: tuple[str, ...] = arguments) -> tuple[float, float]:
                command = [pythons[name], "-m", "benchyard.cli.main", *arguments]

                def start() -> object:
                    return subprocess.run(
                        command, check=True, capture_output=True, env=environment, cwd=places[name]
                    )

                earlier = _children_ms()
                taken = statistics.median(_milliseconds(start) for _ in range(_BLOCK))
                return taken, (_children_ms() - earlier) / _BLOCK

            turns = _in_turns(block, max(3, rounds // 3))
            rows.append(_row(f"{label}, ms", turns, 0, ""))
            rows.append(_row("... its processor time, ms", turns, 1, _TARGET))
    return rows


def _gateway(before: Path, rounds: int) -> list[Row]:
    pythons = {_NOW: (sys.executable, Path.cwd()), _BEFORE: (str(before / ".venv/bin/python"), before)}

    def block(name: str) -> tuple[float]:
        python, place = pythons[name]
        run = subprocess.run(
            [python, "-c", _GATEWAY_RATE], check=True, capture_output=True, text=True, cwd=place
        )
        return (float(run.stdout.split()[-1]),)

    turns = _in_turns(block, rounds)
    return [_row("requests per second of one core of the gateway", turns, 0, "at least 0.95x")]


Turns = dict[str, list[tuple[float, ...]]]


def _in_turns(block: Callable[[str], tuple[float, ...]], rounds: int) -> Turns:
    """Figures by version; the first round, which makes what later ones share, is left out."""
    turns: Turns = {_NOW: [], _BEFORE: []}
    for number in range(rounds + 1):
        for name in (_NOW, _BEFORE) if number % 2 else (_BEFORE, _NOW):
            figures = block(name)
            if number:
                turns[name].append(figures)
    return turns


def _row(label: str, turns: Turns, place: int, target: str) -> Row:
    now, before = ([figures[place] for figures in turns[name]] for name in (_NOW, _BEFORE))
    ratio = statistics.median(one / other for one, other in zip(now, before, strict=True))
    return label, f"{statistics.median(now):.1f}", f"{statistics.median(before):.1f}", f"{ratio:.2f}x", target


def _milliseconds(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return (time.perf_counter() - begin) * 1000


def _children_ms() -> float:
    """Processor milliseconds of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1000
