"""Problems are read in parts and once; a trial that takes a worker too much does not hide the others."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from benchyard.api import problem_reports
from benchyard.api.problem_reports import ProblemReports
from benchyard.engine.jobs.evidence import EvidenceBatch
from benchyard.models.jobs import Job
from benchyard.models.reports.problems import ProblemsView
from benchyard.models.trials import Trial
from benchyard.workers.workers import WorkerLimits, Workers
from tests.reports import scenes
from tests.reports.problems.planted import ran, trajectory

LOOP = trajectory(*[ran("ls")] * 3)
NOISY = trajectory(*(ran(f"make {'x' * 120}{number}", "no rule", 2) for number in range(30)))


class StoredTrials:
    """Trials with their trajectories in memory, in place of a server's records."""

    def __init__(self, kept: Sequence[tuple[Trial, bytes]]) -> None:
        self.kept = {trial.id: (trial, content) for trial, content in kept}
        self.lines = b""
        self.batches: list[list[str]] = []
        self.jobs = SimpleNamespace(write_trials=self._write_trials)
        self.evidence = self

    async def _write_trials(self, _: str, descriptor: int) -> None:
        os.write(
            descriptor, b"".join(each.model_dump_json().encode() + b"\n" for each, _ in self.kept.values())
        )

    async def write(self, _: str, wanted: Sequence[tuple[str, str | None]], batch: EvidenceBatch) -> int:
        self.batches.append([id for id, _ in wanted])
        for trial, content in (self.kept[id] for id, _ in wanted):
            os.write(batch.descriptor, content)
            item = {"trial": trial.model_dump(mode="json"), "trajectory": len(content)}
            batch.items.append({**item, "calls": None, "result": None, "tamper": None, "unread": None})
        return len(wanted)

    async def append(self, _: str, lines: bytes) -> None:
        self.lines += lines

    async def copy(self, _: str, descriptor: int) -> None:
        os.write(descriptor, self.lines)


async def read(reports: ProblemReports, engine: Any, job: Job) -> ProblemsView:
    return ProblemsView.model_validate_json((await reports.job(engine, job)).text)


def live(scenario: Callable[[ProblemReports], Awaitable[None]]) -> None:
    async def open_and_close() -> None:
        async with Workers() as workers:
            await scenario(ProblemReports(workers))

    asyncio.run(open_and_close())


def test_a_trial_that_takes_too_much_is_told_and_the_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem_reports, "_READING", WorkerLimits(output_bytes=3000))
    contents = (LOOP, NOISY, LOOP)
    kept = [(scenes.trial(0.0, attempt=n, end_time_ms=n), each) for n, each in enumerate(contents, start=1)]
    engine, job = StoredTrials(kept), scenes.job(attempts=3)

    async def scenario(reports: ProblemReports) -> None:
        view = await read(reports, engine, job)
        assert (view.n_read, view.n_with_trajectory, view.is_complete) == (3, 2, True)
        assert view.notes == ["1 trials could not be read whole: the worker made more than 3000 bytes"]
        (loop,) = (each for each in view.problems if each.signal == "repeated-call")
        assert (loop.n_found, loop.n_known) == (2, 2)
        n_batches = len(engine.batches)
        assert await read(reports, engine, job) == view
        assert len(engine.batches) == n_batches

    live(scenario)


def test_a_request_whose_time_is_over_answers_with_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, job = StoredTrials([(scenes.trial(0.0, end_time_ms=1), LOOP)]), scenes.job()

    async def scenario(reports: ProblemReports) -> None:
        monkeypatch.setattr(problem_reports, "READING_SECONDS", -1.0)
        view = await read(reports, engine, job)
        assert (view.n_trials, view.n_read, view.is_complete) == (1, 0, False)
        monkeypatch.setattr(problem_reports, "READING_SECONDS", 60.0)
        assert (await read(reports, engine, job)).is_complete

    live(scenario)
