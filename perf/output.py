"""`output`: what a gigabyte of output costs, and how a short command fares among hundreds of others."""

import json
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchyard.devboxes.base import DevboxLimits
from benchyard.testing.server import RunningServer
from perf import machine
from perf.api import Api
from perf.measure import Figure
from perf.options import Options
from perf.page import heading, table

_MIB = 1024**2
_KEPT = DevboxLimits().output_bytes // _MIB
_DEVBOXES = 20
_LONG = "exec sleep 3600"


@dataclass(frozen=True)
class _Flow:
    """Bytes that went one way, how long that took, and the server's memory meanwhile."""

    way: str
    size: int
    seconds: float
    before: int
    peak: int

    @property
    def row(self) -> tuple[str, ...]:
        """As it stands in the table."""
        rate = self.size / self.seconds / machine.MB
        size = f"{self.size / machine.MB:.0f} MB"
        memory = [f"{value / machine.MB:.0f} MB" for value in (self.before, self.peak)]
        return (
            self.way,
            size,
            f"{rate:.0f} MB/s",
            *memory,
            f"+{(self.peak - self.before) / machine.MB:.0f} MB",
        )


class _Source:
    """A devbox that prints a lot."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._api = Api(server)
        self._devbox = self._api.create()

    def written(self, megabytes: int) -> _Flow:
        """One command prints everything; what is over the limit is read and thrown away."""
        way = f"printed by one command, the first {_KEPT * _MIB / machine.MB:.0f} MB kept"
        with _Watch(self._server.pid) as watch:
            self._api.run(self._devbox, _print(megabytes))
        return watch.flow(way, megabytes * _MIB)

    def followed(self, megabytes: int, *, events: bool) -> _Flow:
        """Commands print as much as is kept of each, one after another, and a client reads along."""
        way = "followed as server-sent events" if events else "followed as raw bytes"
        received = 0
        with _Watch(self._server.pid) as watch:
            for size in _portions(megabytes):
                execution = self._api.start(self._devbox, _print(size))
                received += self._read(execution, events=events, follow=True)
        return watch.flow(way, received)

    def read_again(self, megabytes: int) -> _Flow:
        """A client downloads what was printed before."""
        sizes = _portions(megabytes)
        executions = [self._api.start(self._devbox, _print(size)) for size in sizes]
        for execution in executions:
            self._await(execution)
        with _Watch(self._server.pid) as watch:
            received = sum(self._read(execution, events=False, follow=False) for execution in executions)
        return watch.flow("read afterwards as raw bytes", received)

    def close(self) -> None:
        self._api.end(self._devbox)
        self._api.close()

    def _await(self, execution: str) -> None:
        path = f"/v1/devboxes/{self._devbox}/executions/{execution}/wait_for_status"
        self._api.post(path, {"statuses": ["completed"], "timeout_seconds": 25})

    def _read(self, execution: str, *, events: bool, follow: bool) -> int:
        path = f"/v1/devboxes/{self._devbox}/executions/{execution}"
        api = Api(self._server)
        if events:
            return _text_bytes(api.stream(f"{path}/stream_stdout_updates"))
        return sum(len(piece) for piece in api.stream(f"{path}/output/stdout?follow={str(follow).lower()}"))


class _Watch:
    """The time and the server's memory while something is going on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def __enter__(self) -> "_Watch":
        machine.forget_peak(self._pid)
        self._before = machine.resident(self._pid)
        self._begin = time.perf_counter()
        return self

    def __exit__(self, *_error: object) -> None:
        self._seconds = time.perf_counter() - self._begin
        self._peak = machine.peak(self._pid)

    def flow(self, way: str, size: int) -> _Flow:
        """What went on."""
        return _Flow(way, size, self._seconds, self._before, self._peak)


def measure(folder: Path, options: Options) -> list[str]:
    """A gigabyte each way, then hundreds of commands."""
    with RunningServer(folder / "data", ["--driver", "native"]) as server:
        source = _Source(server)
        flows = [
            source.written(options.megabytes),
            source.followed(options.megabytes, events=True),
            source.followed(options.megabytes, events=False),
            source.read_again(options.megabytes),
        ]
        source.close()
        for flow in flows:
            if flow.size != options.megabytes * _MIB:
                raise RuntimeError(f"{flow.way}: {flow.size} bytes instead of {options.megabytes * _MIB}")
        alone, among, burst = _crowd(server, options)
    head = ("output of one devbox", "size", "rate", "server before", "server's peak", "growth")
    return [
        heading("Text lines; commands of as many bytes as are kept of each, one after another."),
        *table(head, [flow.row for flow in flows]),
        "",
        f"`true` through the API, in {_DEVBOXES} devboxes:",
        *table(
            ("situation", "p50 ms", "p99 ms"),
            [_latency(figure) for figure in (alone, among, burst)],
        ),
    ]


def _crowd(server: RunningServer, options: Options) -> tuple[Figure, Figure, Figure]:
    api = Api(server)
    devboxes = [api.create() for _ in range(_DEVBOXES)]
    for devbox in devboxes:
        api.run(devbox)
    alone = _short(api, devboxes, "alone", options.executions)
    for number in range(options.executions - 1):
        api.start(devboxes[number % _DEVBOXES], _LONG)
    name = f"while {options.executions - 1} other commands run"
    among = _short(api, devboxes, name, options.executions)
    burst = _burst(server, devboxes, options.executions)
    for devbox in devboxes:
        api.end(devbox)
    api.close()
    return alone, among, burst


def _short(api: Api, devboxes: list[str], name: str, count: int) -> Figure:
    return Figure(name, tuple(_timed(api, devboxes[number % len(devboxes)]) for number in range(count)))


def _burst(server: RunningServer, devboxes: list[str], count: int) -> Figure:
    clients = [Api(server) for _ in range(count)]
    places = [devboxes[number % len(devboxes)] for number in range(count)]
    with ThreadPoolExecutor(count) as threads:
        values = tuple(threads.map(_timed, clients, places))
    for client in clients:
        client.close()
    return Figure(f"{count} of them asked for at the same moment", values)


def _timed(api: Api, devbox: str) -> float:
    begin = time.perf_counter()
    api.run(devbox)
    return (time.perf_counter() - begin) * 1000


def _latency(figure: Figure) -> tuple[str, ...]:
    return figure.name, f"{figure.p50:.1f}", f"{figure.p99:.1f}"


def _print(megabytes: int) -> str:
    return f"yes 'a line of output like many others, of about sixty characters' | head -c {megabytes * _MIB}"


def _portions(megabytes: int) -> list[int]:
    whole, rest = divmod(megabytes, _KEPT)
    return [_KEPT] * whole + ([rest] if rest else [])


def _text_bytes(pieces: Iterable[bytes]) -> int:
    """How far the text in a stream of events goes, as its last event tells."""
    last = b""
    for piece in pieces:
        last = (last + piece)[-256 * 1024 :]
    event = last.strip().rpartition(b"\n\n")[2].removeprefix(b"data: ")
    return int(json.loads(event)["offset"])
