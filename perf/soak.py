"""`soak`: tens of thousands of devboxes come and go, and nothing may grow but what is kept on purpose."""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from perf import machine
from perf.api import Api
from perf.fleet import settled
from perf.options import Options
from perf.page import heading, table
from perf.restart import again

_CLIENTS = 2
_SAMPLES = 48
_WARM_UP = 0.25
"""The part of the samples that does not count: caches and pools fill once."""
_RECORDS = ("host", "logs")
"""Where the data folder keeps the outputs and logs of ended devboxes."""

Sample = dict[str, float]
_ROWS: dict[str, tuple[str, float, str]] = {
    "memory": ("memory of the server", machine.MB, "MB"),
    "helpers": ("memory of its helper processes", machine.MB, "MB"),
    "descriptors": ("descriptors of the server", 1, ""),
    "threads": ("threads of the server", 1, ""),
    "processes": ("processes of the server and its devboxes", 1, ""),
    "mounts": ("mounts on the machine", 1, ""),
    "groups": ("control groups of devboxes", 1, ""),
    "temporary": ("temporary files", 1, ""),
    "entries": ("files in the data folder, without the records", 1, ""),
    "records": ("files of records (kept for a week)", 1, ""),
    "database": ("database (records are kept)", machine.MB, "MB"),
}


def measure(folder: Path, options: Options) -> list[str]:
    """Cycle until the number or the time is reached; the growth is that of a line through the samples."""
    temporary = folder / "temporary"
    temporary.mkdir()
    with RunningServer(folder / "data", ["--driver", "native"], {"TMPDIR": str(temporary)}) as server:
        begin = time.monotonic()
        remembered = machine.remembered_groups()
        samples = _cycles(server, temporary, options)
        minutes = (time.monotonic() - begin) / 60
        machine.drop_caches()
        remembered = machine.remembered_groups() - remembered
        left = leaks.find(server.data)
        _first, ready = again(server, 0)
    counted = samples[int(len(samples) * _WARM_UP) :]
    cycles = int(samples[-1]["cycles"])
    return [
        heading(f"{cycles} cycles of create, `true`, shutdown in {minutes:.1f} minutes, {_CLIENTS} clients."),
        *table(
            ("what", "after warm-up", "at the end", "growth per 1,000 cycles"),
            [_row(name, counted) for name in _ROWS],
        ),
        "",
        f"`benchyard doctor --leaks` found {len(left) or 'nothing'}. The kernel remembers {remembered:+} "
        f"memory groups more than before. Killed and started again over these records, the server was "
        f"ready in {ready:.2f} s.",
    ]


def _cycles(server: RunningServer, temporary: Path, options: Options) -> list[Sample]:
    batch = max(_CLIENTS, options.cycles // _SAMPLES)
    deadline = time.monotonic() + options.minutes * 60
    samples: list[Sample] = []
    done = 0
    with ThreadPoolExecutor(_CLIENTS) as threads:
        while done < options.cycles and time.monotonic() < deadline:
            list(threads.map(_repeat, [server] * _CLIENTS, [batch // _CLIENTS] * _CLIENTS))
            done += batch // _CLIENTS * _CLIENTS
            settled(server.data)
            samples.append({"cycles": done, **_sample(server, temporary)})
            print({name: round(value) for name, value in samples[-1].items()}, file=sys.stderr, flush=True)
    return samples


def _repeat(server: RunningServer, count: int) -> None:
    # Connected anew each time: while a sample is taken, the server may close a connection that rests.
    api = Api(server)
    for _ in range(count):
        api.cycle()
    api.close()


def _sample(server: RunningServer, temporary: Path) -> Sample:
    pid, data = server.pid, server.data
    family = machine.family(pid)
    kept = sum(machine.entries(data / name) for name in _RECORDS)
    return {
        "memory": machine.resident(pid),
        "helpers": machine.share(family[1:]),
        "descriptors": machine.descriptors(pid),
        "threads": machine.threads(pid),
        "processes": len({*family, *machine.members(data / "driver")}),
        "mounts": machine.mounts(),
        "groups": len(machine.groups(data / "driver")),
        "temporary": machine.entries(temporary),
        "entries": machine.entries(data) - kept,
        "records": kept,
        "database": sum(path.stat().st_size for path in data.glob("benchyard.db*")),
    }


def _row(name: str, samples: list[Sample]) -> tuple[str, ...]:
    label, unit, suffix = _ROWS[name]
    shown: Callable[[float], str] = lambda value: f"{value / unit:.{1 if suffix else 0}f} {suffix}".strip()  # noqa: E731
    growth = slope([each["cycles"] for each in samples], [each[name] for each in samples]) * 1000
    return label, shown(samples[0][name]), shown(samples[-1][name]), f"{growth / unit:+.2f} {suffix}".strip()


def slope(places: list[float], values: list[float]) -> float:
    """How steep the line is that fits best."""
    middle, mean = sum(places) / len(places), sum(values) / len(values)
    spread = sum((place - middle) ** 2 for place in places)
    if not spread:
        return 0.0
    return sum((x - middle) * (y - mean) for x, y in zip(places, values, strict=True)) / spread
