"""`restart`: the server is killed with hundreds of devboxes, and how soon the next one answers for them."""

import time
from pathlib import Path

from benchyard.testing.server import RunningServer
from perf.api import Api
from perf.fleet import Fleet
from perf.measure import Figure
from perf.options import Options
from perf.page import heading, table

_SHARE_OF_ROUNDS = 5


def measure(folder: Path, options: Options) -> list[str]:
    """Kill and start again some times, then use every devbox."""
    rounds = max(1, options.rounds // _SHARE_OF_ROUNDS)
    answered, ready = [], []
    with RunningServer(folder / "data", ["--driver", "native"]) as server:
        fleet = Fleet(server)
        fleet.fill(options.devboxes)
        for _ in range(rounds):
            first, all_there = again(server, options.devboxes)
            answered.append(first)
            ready.append(all_there)
        visit = fleet.visit()
        fleet.empty()
    return [
        heading(f"{options.devboxes} idle devboxes; killed with SIGKILL {rounds} times."),
        *table(
            ("from the start of the process to", "p50 s", "longest s", "target"),
            [
                ("an answer of `/healthz`", *_seconds(answered), ""),
                ("all of them listed as running", *_seconds(ready), "under 2 s"),
            ],
        ),
        "",
        f"Afterwards `true` was run in every devbox, all {options.devboxes} of them in {visit:.1f} s.",
    ]


def again(server: RunningServer, expected: int) -> tuple[float, float]:
    """Kill a server and start it: the seconds until it answers, and until it tells of all its devboxes."""
    server.kill()
    begin = time.perf_counter()
    server.start()
    api = Api(server)
    api.get("/healthz")
    first = time.perf_counter() - begin
    found = api.get(f"/v1/devboxes?status=running&limit={max(1, expected)}")["devboxes"]
    ready = time.perf_counter() - begin
    api.close()
    if len(found) != expected:
        raise RuntimeError(f"{len(found)} of {expected} devboxes are running after the restart")
    return first, ready


def _seconds(values: list[float]) -> tuple[str, str]:
    return f"{Figure('', tuple(values)).p50:.2f}", f"{max(values):.2f}"
