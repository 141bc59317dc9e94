"""`versions`: trials and commands of this checkout, side by side with those of another one (`--before`).

Both servers are there at the same time and take turns, so that whatever else the machine does hits both.
"""

import contextlib
import itertools
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import httpx

from benchyard.testing.server import RunningServer, ServerProcess
from perf.api import Api
from perf.machine import Account
from perf.options import Options
from perf.page import heading, table
from perf.scoring import BODY

_FILES = """\
mkdir -p ~/many && cd ~/many && python3 -c "
import os
for folder in range({folders}):
    os.mkdir(str(folder))
    for file in range(1000):
        open(f'{{folder}}/{{file}}', 'wb').write(b'x' * 10000)
"
"""
_LEFT = {
    "nothing": "true",
    "1,000 files and 10 MB": _FILES.format(folders=1),
    "100,000 files and 1 GB": _FILES.format(folders=100),
}
"""What an agent leaves in a job, and how it is made."""
_MOST_LEFT = "100,000 files and 1 GB"
_TARGETS = {"1,000 files and 10 MB": "at most 2x", _MOST_LEFT: "at most 5x"}
_LARGE_EVERY = 4
"""Of the rounds, those in which the largest is left too: it takes long to be written and to be removed."""
_CALM_SECONDS = 300.0
_AT_ONCE = 10
_MOST_FAILED_SHARE = 10
"""One trial of so many of an earlier version may fail: a grader of it misses its moment now and then."""
_REST_SECONDS = 0.3
"""Until what a job left behind has been removed, which is counted to its processor time."""
_BLOCK = 20
"""Commands of one version before the turn of the next."""
_DRIVER = ["--driver", "native"]
_NOW = "now"
_BEFORE = "before"
_AGAIN = "before, once more"
"""A second server of the version before: what it differs by from the first one is chance."""


def measure(folder: Path, options: Options) -> list[str]:
    """Run trials and commands in turns by each version."""
    contenders: dict[str, RunningServer] = {_NOW: RunningServer(folder / "now", _DRIVER)}
    if options.before:
        contenders[_BEFORE] = OtherCheckout(folder / "before", Path(options.before), _DRIVER)
        contenders[_AGAIN] = OtherCheckout(folder / "again", Path(options.before), _DRIVER)
    accounts = {name: Account(server.data.name) for name, server in contenders.items()}
    with contextlib.ExitStack() as stack:
        for name, server in contenders.items():
            stack.callback(accounts[name].close)
            with accounts[name]:
                stack.enter_context(server)
        load = [os.getloadavg()[0]]
        commands = _commands(contenders, accounts, options.rounds * 4)
        servers = {name: server for name, server in contenders.items() if name != _AGAIN}
        speeds = _speeds(servers, accounts, options.rounds, load)
        scored = _scored(servers, options.rounds, load)
        load.append(os.getloadavg()[0])
    notes = [f"{options.rounds} rounds, in turns; the load was {min(load):.1f} to {max(load):.1f} meanwhile."]
    if options.before:
        notes.append(f"Before: commit {commit_of(Path(options.before))}.")
    return [heading(*notes), "", *_left_report(scored), "", *_speed_report(speeds, commands)]


class OtherCheckout(RunningServer):
    """A server of another checkout, by the Python of its own environment."""

    def __init__(self, data: Path, checkout: Path, options: list[str]) -> None:
        super().__init__(data, options)
        self._checkout = checkout
        self._start = self._execute

    def _execute(self, arguments: list[str], environment: Mapping[str, str], log: IO[bytes]) -> ServerProcess:
        return subprocess.Popen(
            [str(self._checkout / ".venv/bin/python"), "-m", "benchyard.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            cwd=self._checkout,
        )


def commit_of(checkout: Path) -> str:
    """Return the short name of the commit that a checkout is at."""
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


Scored = dict[str, dict[str, list[float]]]
"""Milliseconds of the stage `scoring`, by what was left and by version."""


def _scored(servers: dict[str, RunningServer], rounds: int, load: list[float]) -> Scored:
    found: Scored = {left: {name: [] for name in servers} for left in _LEFT}
    scenarios = {name: _scenarios(server) for name, server in servers.items()}
    for number in range(rounds):
        load.append(os.getloadavg()[0])
        for left, by_version in found.items():
            if left == _MOST_LEFT and number % _LARGE_EVERY:
                continue
            for name, server in servers.items():
                if left == _MOST_LEFT and name == _BEFORE and number:
                    # Once is enough: it takes a hundred times as long.
                    continue
                milliseconds = _trial(server, scenarios[name][left])
                if number or left == _MOST_LEFT:
                    # The first one makes what later ones share.
                    by_version[name].append(milliseconds)
                _wait_for_removal(server)
    return found


def _scenarios(server: RunningServer) -> dict[str, str]:
    with _client(server) as client:
        return {
            left: client.post("/v1/scenarios", json={**BODY, "name": left, "reference_output": made_by})
            .raise_for_status()
            .json()["id"]
            for left, made_by in _LEFT.items()
        }


def _trial(server: RunningServer, scenario: str) -> float:
    """Milliseconds of the stage `scoring` of one trial of the reference."""
    spec = {
        "type": "scenarios",
        "scenario_ids": [scenario],
        "agent_configs": [{"name": "oracle"}],
        "orchestrator_config": {"n_concurrent_trials": 1, "n_attempts": 1},
    }
    with _client(server) as client:
        (trial,) = _job(client, spec)
    (stage,) = [each for each in trial["stages"] if each["name"] == "scoring"]
    return float(stage["end_ms"] - stage["start_ms"])


def _wait_for_removal(server: RunningServer) -> None:
    """Return when nothing of a trial is left to be removed, so that it does not slow the next one down."""
    partial = server.data / "images" / "partial"
    deadline = time.monotonic() + _CALM_SECONDS
    while any(partial.iterdir()) or any((server.data / "host" / "devboxes").glob("*/changes")):
        if time.monotonic() > deadline:
            raise RuntimeError(f"what a trial left was not removed within {_CALM_SECONDS:.0f} s")
        time.sleep(0.05)


Figures = dict[str, list[float]]
"""By version, one figure of each round."""


def _speeds(
    servers: dict[str, RunningServer], accounts: dict[str, Account], rounds: int, load: list[float]
) -> tuple[Figures, Figures]:
    """Trials per second of quickstart and processor milliseconds of each, the first round left out."""
    spec = {
        "type": "benchmark",
        "benchmark_id": "quickstart",
        "agent_configs": [{"name": "oracle"}],
        "orchestrator_config": {"n_concurrent_trials": _AT_ONCE, "n_attempts": 2},
    }
    speeds: Figures = {name: [] for name in servers}
    spent: Figures = {name: [] for name in servers}
    for number in range(rounds + 1):
        load.append(os.getloadavg()[0])
        for name in _in_turn([*servers], number):
            with _client(servers[name]) as client:
                earlier, begin = accounts[name].milliseconds(), time.perf_counter()
                count = len(_job(client, spec, may_fail=name != _NOW))
                seconds = time.perf_counter() - begin
            time.sleep(_REST_SECONDS)
            if number:
                speeds[name].append(count / seconds)
                spent[name].append((accounts[name].milliseconds() - earlier) / count)
    return speeds, spent


def _in_turn(names: list[str], number: int) -> list[str]:
    """Return the names in another order each time, so that none always follows the same one."""
    orders = list(itertools.permutations(names))
    return list(orders[number % len(orders)])


def _job(client: httpx.Client, spec: dict[str, Any], *, may_fail: bool = False) -> list[dict[str, Any]]:
    """The trials of a job, when all of them have ended well."""
    job = client.post("/v1/benchmark_jobs", json={"spec": spec}).raise_for_status().json()["id"]
    # Followed from its end on: nothing is sent but the end of the stream.
    with client.stream("GET", f"/v1/benchmark_jobs/{job}/events", params={"after": 2**40}) as events:
        for _line in events.iter_lines():
            pass
    answer = client.get(f"/v1/benchmark_jobs/{job}/trials", params={"limit": 1000}).raise_for_status()
    trials: list[dict[str, Any]] = answer.json()["trials"]
    failed = [each for each in trials if each.get("score") != 1.0]
    if len(failed) > (len(trials) // _MOST_FAILED_SHARE if may_fail else 0):
        raise RuntimeError(f"the trials did not go well: {failed[0]}")
    return trials


def _commands(
    servers: dict[str, RunningServer], accounts: dict[str, Account], rounds: int
) -> tuple[Figures, Figures]:
    """Milliseconds of a command in a running devbox, and processor milliseconds; each is that of a block."""
    apis = {name: Api(server) for name, server in servers.items()}
    taken: Figures = {name: [] for name in servers}
    spent: Figures = {name: [] for name in servers}
    for api in apis.values():
        api.keep_one()
        for _ in range(2 * _BLOCK):
            api.command()
    for number in range(rounds):
        for name in _in_turn([*servers], number):
            earlier = accounts[name].milliseconds()
            taken[name].append(statistics.median(_timed(apis[name].command) for _ in range(_BLOCK)))
            spent[name].append((accounts[name].milliseconds() - earlier) / _BLOCK)
    for api in apis.values():
        api.end_kept()
    return taken, spent


def _timed(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return (time.perf_counter() - begin) * 1000


@contextlib.contextmanager
def _client(server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=1200) as client:
        yield client


def _left_report(scored: Scored) -> list[str]:
    versions = list(scored["nothing"])
    floors = {name: statistics.median(found) for name, found in scored["nothing"].items()}
    rows = []
    for left, by_version in scored.items():
        cells = []
        for name in versions:
            middle = statistics.median(by_version[name])
            cells += [f"{middle:.0f}", f"{middle / floors[name]:.2f}x"]
        rows.append((left, *cells, _TARGETS.get(left, "")))
    heads = [head for name in versions for head in (f"{name}, p50 ms", f"{name}, to nothing")]
    return [
        "### The stage `scoring` of a trial in a job, by what the agent left",
        *table(("left", *heads, "target, now"), rows),
    ]


def _speed_report(trials: tuple[Figures, Figures], commands: tuple[Figures, Figures]) -> list[str]:
    """A table of what was measured in turns; a ratio is the median of those of neighbouring turns."""
    rows = [
        ("quickstart, trials per second", trials[0], "at least 1.3x"),
        ("... processor time of each, ms", trials[1], ""),
        ("a command in a running devbox, ms", commands[0], "at most 1.05x"),
        ("... its processor time, ms", commands[1], ""),
    ]
    names = [*commands[0]]
    heads = [*names, *(f"{name}, to before" for name in names if _BEFORE in names and name != _BEFORE)]
    lines = []
    for label, figures, aim in rows:
        cells = [f"{statistics.median(figures[name]):.2f}" if name in figures else "" for name in names]
        cells += [_ratio(figures, name) for name in names if _BEFORE in names and name != _BEFORE]
        lines.append((label, *cells, aim))
    return [
        f"### Trials, {_AT_ONCE} at once, and commands",
        *table(("", *heads, "target, now to before"), lines),
    ]


def _ratio(figures: Figures, name: str) -> str:
    if name not in figures or not all(figures[_BEFORE]):
        return ""
    pairs = [one / other for one, other in zip(figures[name], figures[_BEFORE], strict=True)]
    return f"{statistics.median(pairs):.2f}x"
