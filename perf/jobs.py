"""`jobs`: what the engine itself takes for a trial, how large jobs are shown, and trials in real devboxes."""

import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from benchyard.testing.server import RunningServer
from perf.options import Options
from perf.page import heading, table

_SMALL = 1_000
_WARM_UP = 200
_CONCURRENT = 20
_LOOKS = 7
_QUICKSTART = 12
_LOOP = 2_000_000


def measure(folder: Path, options: Options) -> list[str]:
    """The engine without devboxes; a large job looked at; real devboxes."""
    floor = _floor(folder / "floor", options.trials)
    real = _real(folder / "real", options.executions)
    return [heading("The server's own processor time is that of its process."), "", *floor, "", *real]


def _floor(folder: Path, large: int) -> list[str]:
    with RunningServer(folder, ["--driver", "pretend"]) as server:
        with _client(server) as client:
            scenario = _scenario(client)
            _job(client, server, _spec([scenario], "nop", _WARM_UP))
            before = _calibrated()
            small = _job(client, server, _spec([scenario], "nop", _SMALL))
            big = _job(client, server, _spec([scenario], "nop", large))
            calibration = statistics.fmean((before, _calibrated()))
            summary = _median(lambda: client.get(f"/v1/benchmark_jobs/{big.id}"))
            page = _median(lambda: client.get(f"/v1/benchmark_jobs/{big.id}/trials", params={"limit": 20}))
        server.kill()
        begin = time.perf_counter()
        server.start()
        with _client(server) as client:
            client.get("/healthz").raise_for_status()
            ready = time.perf_counter() - begin
    ratio = big.cpu_ms / small.cpu_ms
    rows = [
        (f"server CPU per trial, {_SMALL:,} trials", f"{small.cpu_ms:.2f} ms", "at most 5 ms"),
        (f"server CPU per trial, {large:,} trials", f"{big.cpu_ms:.2f} ms", "at most 5 ms"),
        (f"{large:,} to {_SMALL:,}, per trial", f"{ratio:.2f}x", "at most 1.3x"),
        (f"wall time per trial, {large:,} trials", f"{big.wall_ms:.2f} ms", ""),
        (f"summary of the job of {large:,}", f"{summary * 1000:.0f} ms", "under 1 s"),
        ("first page of its trials", f"{page * 1000:.0f} ms", "under 100 ms"),
        ("restart with it in the database, to ready", f"{ready:.2f} s", "under 2 s"),
        (f"calibration: {_LOOP:,} additions in Python", f"{calibration * 1000:.0f} ms", ""),
        ("a trial of the large job in additions", f"{big.cpu_ms / 1000 / calibration * _LOOP:,.0f}", ""),
    ]
    return [
        "### The engine by itself: the `pretend` driver, agent `nop`, one scorer",
        *table(("", "measured", "target"), rows),
    ]


def processor_ms_per_trial(server: RunningServer, trials: int) -> float:
    """Processor milliseconds of a server's own process for each trial of a job without real devboxes."""
    with _client(server) as client:
        return _job(client, server, _spec([_scenario(client)], "nop", trials)).cpu_ms


def _real(folder: Path, trials: int) -> list[str]:
    with RunningServer(folder, ["--driver", "native"]) as server, _client(server) as client:
        attempts = max(1, trials // _QUICKSTART)
        spec = {
            "type": "benchmark",
            "benchmark_id": "quickstart",
            "agent_configs": [{"name": "oracle"}],
            "orchestrator_config": {"n_concurrent_trials": 10, "n_attempts": attempts},
        }
        ran = _job(client, server, spec)
        listed = client.get(f"/v1/benchmark_jobs/{ran.id}/trials", params={"limit": 5000}).json()["trials"]
    spent = sum(each["end_ms"] - each["start_ms"] for trial in listed for each in trial["stages"])
    whole = sum(trial["duration_ms"] for trial in listed)
    rows = [
        ("trials", f"{len(listed)}"),
        ("trials per second", f"{len(listed) / ran.wall_s:.2f}"),
        ("server CPU per trial", f"{ran.cpu_ms:.1f} ms"),
        ("share of a trial's time outside its stages", f"{1 - spent / whole:.2%}"),
        *_shares(listed, whole),
    ]
    return [
        "### Real devboxes: the native driver, agent `oracle`, quickstart, ten trials at once",
        *table(("", "measured"), rows),
    ]


def _shares(trials: list[dict[str, Any]], whole: float) -> list[tuple[str, str]]:
    spent: dict[str, float] = {}
    for trial in trials:
        for each in trial["stages"]:
            spent[each["name"]] = spent.get(each["name"], 0) + each["end_ms"] - each["start_ms"]
    return [(f"share of the stage `{name}`", f"{part / whole:.1%}") for name, part in spent.items()]


class _Ran:
    """A job that has ended, and what it took."""

    def __init__(self, id: str, trials: int, wall_s: float, cpu_s: float) -> None:
        self.id = id
        self.wall_s = wall_s
        self.wall_ms = wall_s / trials * 1000
        self.cpu_ms = cpu_s / trials * 1000


def _job(client: httpx.Client, server: RunningServer, spec: dict[str, Any]) -> _Ran:
    begin, spent = time.perf_counter(), _cpu(server.pid)
    job = client.post("/v1/benchmark_jobs", json={"spec": spec}).raise_for_status().json()
    # Followed from its end on: nothing is sent but the end of the stream.
    with client.stream("GET", f"/v1/benchmark_jobs/{job['id']}/events", params={"after": 2**40}) as events:
        for _line in events.iter_lines():
            pass
    wall, cpu = time.perf_counter() - begin, _cpu(server.pid) - spent
    view = client.get(f"/v1/benchmark_jobs/{job['id']}").raise_for_status().json()
    outcome = view["benchmark_outcomes"][0]
    if view["state"] != "completed" or outcome.get("mean_score") != 1.0 or outcome["unscored"]:
        raise RuntimeError(f"the job did not go well: {json.dumps(outcome)[:500]}")
    return _Ran(job["id"], view["n_trials"], wall, cpu)


def _spec(scenarios: list[str], agent: str, attempts: int) -> dict[str, Any]:
    rounds = max(1, attempts // _SMALL)
    return {
        "type": "scenarios",
        "scenario_ids": scenarios,
        "agent_configs": [{"name": agent} for _ in range(rounds)],
        "orchestrator_config": {
            "n_concurrent_trials": _CONCURRENT,
            "n_attempts": min(attempts, _SMALL),
        },
    }


def _scenario(client: httpx.Client) -> str:
    scorer = {"name": "true", "weight": 1, "scorer": {"type": "command_scorer", "command": "true"}}
    body = {
        "name": "measured",
        "input_context": {"problem_statement": "Do nothing."},
        "scoring_contract": {"scoring_function_parameters": [scorer]},
    }
    return str(client.post("/v1/scenarios", json=body).raise_for_status().json()["id"])


def _client(server: RunningServer) -> httpx.Client:
    headers = {"authorization": f"Bearer {server.key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=None)


def _cpu(pid: int) -> float:
    """Seconds of processor time that a process has used, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _calibrated() -> float:
    """Processor seconds of a loop that every Python has: what this machine is worth just now."""
    begin = time.process_time()
    total = 0
    for number in range(_LOOP):
        total += number
    return time.process_time() - begin


def _median(ask: Callable[[], httpx.Response]) -> float:
    times = []
    for _ in range(_LOOKS):
        begin = time.perf_counter()
        ask().raise_for_status()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)
