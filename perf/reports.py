"""`reports`: large jobs looked at while the server answers others, and what a report costs beside a view.

Also the long form of the simulations that `make test` has in short: gates and intervals on equal agents.
"""

import asyncio
import gc
import os
import random
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import httpx

from benchyard.models.jobs import (
    AgentConfig,
    Job,
    JobSource,
    JobSpec,
    JobState,
    OrchestratorConfig,
)
from benchyard.models.trials import Stage, Trial, TrialState
from benchyard.reports.attempt_cells import STAGE_PATHS, TRIAL_PATHS
from benchyard.reports.job_reports import make_job_report, make_job_view
from benchyard.reports.statistics.means import estimate
from benchyard.reports.statistics.verdicts import GateVerdict, gate_bounds, verdict
from benchyard.store.database import Store
from benchyard.testing.server import RunningServer
from perf.measure import Figure
from perf.options import Options
from perf.page import heading, table

_SMALL = (20, 500, 1)
_LARGE = (10, 2000, 5)
"""Agents, scenarios and attempts."""
_OPENINGS = 10
_IDLE_SECONDS = 5.0
_ROUNDS = 5
_AT_ONCE = 1000
_SIMULATED = 2_000
_STAGES = ("provision", "setup", "agent", "scoring", "teardown")


def measure(folder: Path, options: Options) -> list[str]:
    """A large job opened ten times; the processor time of a report; simulated jobs."""
    agents, scenarios, attempts = _LARGE
    scenarios = max(1, round(scenarios * min(1.0, options.trials / 10_000)))
    data = folder / "data"
    data.mkdir(mode=0o700, parents=True)
    asyncio.run(_fill(f"sqlite:///{data / 'benchyard.db'}", (agents, scenarios, attempts)))
    ratios = asyncio.run(_costs(folder))
    looks = _looks(data)
    return [heading("Simulations are seeded."), "", *looks, "", *ratios, "", *_simulations()]


def stored_job(id: str, agents: int, scenarios: int, attempts: int) -> tuple[Job, list[Trial]]:
    """An ended job as it is stored, with trials of about a kilobyte each."""
    chance = random.Random(id)
    ids = [f"scn_{number}" for number in range(scenarios)]
    job = Job(
        id=id,
        create_time_ms=1,
        start_time_ms=1,
        end_time_ms=50_000,
        name=id,
        state=JobState.COMPLETED,
        source=JobSource(type="scenarios"),
        spec=JobSpec(
            agent_configs=[AgentConfig(name=f"agent-{number}") for number in range(agents)],
            scenario_ids=ids,
            orchestrator_config=OrchestratorConfig(n_attempts=attempts),
        ),
        scenario_revisions=[1] * scenarios,
    )
    shares = [chance.betavariate(0.5, 0.5) for _ in ids]
    return job, [
        _trial(chance, id, agent, scenario, attempt, shares[scenario])
        for agent in range(agents)
        for scenario in range(scenarios)
        for attempt in range(1, attempts + 1)
    ]


def _trial(chance: random.Random, job: str, agent: int, scenario: int, attempt: int, share: float) -> Trial:
    begin = 1_000 + scenario
    return Trial(
        id=f"trl_{job}_{agent}_{scenario}_{attempt}",
        create_time_ms=1,
        job_id=job,
        agent=agent,
        scenario=scenario,
        scenario_id=f"scn_{scenario}",
        scenario_name=f"scenario {scenario}",
        attempt=attempt,
        state=TrialState.COMPLETED,
        score=float(chance.random() < share),
        scenario_run_id=f"scr_{agent}_{scenario}_{attempt}",
        devbox_id=f"dbx_{agent}_{scenario}_{attempt}",
        network="gateway",
        scoring_network="none",
        isolation="system",
        start_time_ms=begin,
        end_time_ms=begin + 5_000,
        stages=[
            Stage(name=name, start_ms=begin + at * 1_000, end_ms=begin + at * 1_000 + 900)
            for at, name in enumerate(_STAGES)
        ],
        usage={"model_calls": 12.0, "input_tokens": 12_345.0, "output_tokens": 2_345.0, "cost_usd": 0.05},
        scorer_note="3 of 7 tests failed: test_one, test_two and test_three; see the log of the scorer",
    )


async def _fill(url: str, large: tuple[int, int, int]) -> None:
    async with Store(url) as store:
        await _insert(store, *stored_job("bmj_large", *large))


async def _insert(store: Store, job: Job, trials: Sequence[Trial]) -> None:
    await store.collection("benchmark_jobs", Job).insert(job)
    rows = store.collection("trials", Trial).rows
    for at in range(0, len(trials), _AT_ONCE):
        await store.write(rows.adding(trials[at : at + _AT_ONCE]))


def _looks(data: Path) -> list[str]:
    """Poll `/healthz` at rest, and while a large job's report, table and view are opened."""
    with RunningServer(data, ["--driver", "fake"]) as server:
        headers = {"authorization": f"Bearer {server.key}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=600) as client:
            idle = _polled(client, seconds=_IDLE_SECONDS)
            rows = [("at rest", f"{idle.p50:.1f}", f"{idle.p99:.1f}", "")]
            for what in ("report", "table", "?scenarios=true"):
                path = f"/v1/benchmark_jobs/bmj_large{'' if what.startswith('?') else '/'}{what}"
                busy, wall = _while_opened(server, path)
                ratio = f"{busy.p99 / idle.p99:.1f}x, at most 5x; {wall:.1f} s in all"
                name = "view" if what.startswith("?") else what
                rows.append(
                    (
                        f"while its {name} is opened {_OPENINGS} times",
                        f"{busy.p50:.1f}",
                        f"{busy.p99:.1f}",
                        ratio,
                    )
                )
    return [
        "### `/healthz` while a large job is looked at",
        *table(("", "p50 ms", "p99 ms", "to rest"), rows),
    ]


def _polled(client: httpx.Client, *, seconds: float = 0.0, until: threading.Event | None = None) -> Figure:
    found = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or (until is not None and not until.is_set()):
        begin = time.perf_counter()
        client.get("/healthz").raise_for_status()
        found.append((time.perf_counter() - begin) * 1000)
    return Figure("healthz", tuple(found))


def _while_opened(server: RunningServer, path: str) -> tuple[Figure, float]:
    """Return the answers' times while a path is asked for again and again, and how long that took."""
    over = threading.Event()

    def open_often() -> None:
        headers = {"authorization": f"Bearer {server.key}"}
        try:
            with httpx.Client(base_url=server.url, headers=headers, timeout=600) as client:
                for number in range(_OPENINGS):
                    # Another key each time: what is remembered costs nothing.
                    suspect = ("keep", "zero")[number % 2]
                    client.get(path, params={"suspect": suspect, "columns": "score,state"}).raise_for_status()
        finally:
            over.set()

    begin = time.perf_counter()
    opener = threading.Thread(target=open_often)
    opener.start()
    with httpx.Client(base_url=server.url, timeout=600) as client:
        found = _polled(client, until=over)
    opener.join()
    return found, time.perf_counter() - begin


async def _costs(folder: Path) -> list[str]:
    """Compare the processor time of a report with that of the view, database included, in turns."""
    job, trials = stored_job("bmj_small", *_SMALL)
    parameters = job.model_dump(mode="json")
    views, reports = [], []
    async with Store(f"sqlite:///{folder / 'costs.db'}") as store:
        await _insert(store, job, trials)
        known = store.collection("trials", Trial)
        for _ in range(_ROUNDS):
            descriptor = os.memfd_create("bodies")
            begin = time.process_time()
            await known.write_bodies({"parent": job.id}, descriptor)
            with _opened(descriptor) as file:
                make_job_view(file, parameters, None, with_scenarios=True)
            views.append((time.process_time() - begin) * 1000)
            descriptor = os.memfd_create("rows")
            begin = time.process_time()
            await known.write_rows({"parent": job.id}, list(TRIAL_PATHS.values()), descriptor)
            share = 1_000 / len(trials)
            await known.write_rows({"parent": job.id}, list(STAGE_PATHS.values()), descriptor, share)
            with _opened(descriptor) as file:
                make_job_report(file, parameters, None, None, None)
            reports.append((time.process_time() - begin) * 1000)
    # They run in workers otherwise, which need no collection in their short life.
    gc.enable()
    view, report = statistics.median(views), statistics.median(reports)
    rows = [
        (f"view of {len(trials):,} trials, CPU", f"{view:.0f} ms", ""),
        (f"report of {len(trials):,} trials, CPU", f"{report:.0f} ms", ""),
        ("view to report", f"{view / report:.1f}x", "12x"),
    ]
    return ["### Processor time of a report", *table(("", "measured", "target"), rows)]


def _opened(descriptor: int) -> BinaryIO:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return open(descriptor, "rb")


def _simulations() -> list[str]:
    """Simulate pairs of jobs and means, and count how often gates and intervals are wrong."""
    equal = [_gate(0.0, 0.0, 30, 3, seed) for seed in range(_SIMULATED)]
    lost = [_gate(0.1, 0.02, 500, 5, seed) for seed in range(_SIMULATED // 10)]
    rows = [
        (
            "30 scenarios x 3, equal agents, no margin: fails",
            _share(equal, GateVerdict.FAIL),
            "at most 2.5 %",
        ),
        ("500 x 5, a loss of 10 points: fails", _share(lost, GateVerdict.FAIL), "at least 90 %"),
    ]
    return [
        f"### Simulated jobs, {_SIMULATED:,} pairs",
        *table(("", "measured", "target"), rows),
        "",
        *_margin_rows(),
        "",
        *_coverage_rows(),
    ]


def _margin_rows() -> list[str]:
    """Count how often a loss of just the margin passes, after baselines from a half to perfect ones."""
    rows = []
    for (scenarios, attempts), margin in _SIZES.items():
        for loss in ("everywhere", "whole scenarios"):
            found = [
                _share(
                    [
                        _loss_of_margin(baseline, margin, scenarios, attempts, loss, seed)
                        for seed in range(_SIMULATED)
                    ],
                    GateVerdict.PASS,
                )
                for baseline in _BASELINES
            ]
            rows.append((f"{scenarios} x {attempts}, margin {margin:g}, lost {loss}", *found))
    titles = ("a loss of the margin passes; at most 2.5 %", *(f"baseline {each:g}" for each in _BASELINES))
    return table(titles, rows)


_SIZES = {
    (40, 1): 0.1,
    (40, 3): 0.1,
    (100, 3): 0.05,
    (250, 1): 0.02,
    (500, 1): 0.02,
    (500, 5): 0.01,
}
"""Scenarios and attempts -> the margin that is lost."""
_BASELINES = (0.5, 0.8, 0.95, 0.98, 1.0)


def _loss_of_margin(
    baseline: float, margin: float, scenarios: int, attempts: int, loss: str, seed: int
) -> GateVerdict:
    """Return the verdict on an agent that lost just the margin, a little everywhere or whole scenarios."""
    chance = random.Random(f"{baseline} {margin} {scenarios} {attempts} {loss} {seed}")
    before = _means(chance, [baseline] * scenarios, attempts)
    if loss == "everywhere":
        shares = [baseline - margin] * scenarios
    else:
        # A scenario that is lost wholly takes all that the baseline had there.
        shares = [baseline * (chance.random() >= margin / baseline) for _ in range(scenarios)]
    return _verdict(before, _means(chance, shares, attempts), margin)


def _gate(loss: float, margin: float, scenarios: int, attempts: int, seed: int) -> GateVerdict:
    chance = random.Random(seed)
    shares = [loss + (1 - loss) * chance.random() for _ in range(scenarios)]
    before = _means(chance, shares, attempts)
    return _verdict(before, _means(chance, [share - loss for share in shares], attempts), margin)


def _verdict(before: Sequence[float], after: Sequence[float], margin: float) -> GateVerdict:
    bounds = gate_bounds([b - a for a, b in zip(before, after, strict=True)])
    if bounds is None:
        raise RuntimeError("scenarios always have a difference")
    return verdict(bounds.low, bounds.high, margin)


def _hard_share(chance: random.Random) -> float:
    return chance.betavariate(0.2, 8) if chance.random() < 0.8 else chance.betavariate(3, 2)


_POPULATIONS: dict[str, tuple[Callable[[random.Random], float], float]] = {
    "easy": (lambda chance: chance.betavariate(12, 1), 12 / 13),
    "hard": (_hard_share, 0.8 * 0.2 / 8.2 + 0.2 * 0.6),
    "half and half": (lambda chance: chance.betavariate(0.25, 0.25), 0.5),
    "middle": (lambda chance: chance.betavariate(2, 2), 0.5),
}
"""Chances to pass at scenarios, and their mean."""


def _coverage_rows() -> list[str]:
    """Count how often the interval of a mean holds it."""
    rows = []
    for name, scenarios, attempts in (
        ("easy", 30, 5),
        ("hard", 30, 5),
        ("half and half", 30, 5),
        ("middle", 89, 5),
        ("middle", 30, 1),
    ):
        held = sum(_holds(name, scenarios, attempts, seed) for seed in range(_SIMULATED))
        rows.append((f"{name}, {scenarios} x {attempts}", f"{held / _SIMULATED:.1%}", "95 % +- 1.5 %"))
    return table(("the interval holds the mean", "measured", "target"), rows)


def _holds(population: str, scenarios: int, attempts: int, seed: int) -> bool:
    chance = random.Random(seed)
    draw, truth = _POPULATIONS[population]
    found = estimate(_means(chance, [draw(chance) for _ in range(scenarios)], attempts))
    return found is not None and found.low <= truth <= found.high


def _means(chance: random.Random, shares: Sequence[float], attempts: int) -> list[float]:
    return [sum(chance.random() < share for _ in range(attempts)) / attempts for share in shares]


def _share(verdicts: Sequence[GateVerdict], wanted: GateVerdict) -> str:
    return f"{sum(each is wanted for each in verdicts) / len(verdicts):.1%}"
