"""Problems are read in parts and once; a trial that takes a worker too much does not hide the others."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from benchyard.api import problem_reports
from benchyard.api.problem_reports import ProblemReports
from benchyard.engine.jobs.evidence import EvidenceBatch
from benchyard.models.jobs import Job, JobSource, JobState
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
        self.jobs = SimpleNamespace()
        self.reported_jobs = SimpleNamespace(write_trials=self._write_trials, before=self._before)
        self.evidence = self

    async def _before(self, job: Job, limit: int) -> list[Job]:
        return []

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


class JobsOfOneBenchmark(StoredTrials):
    """A job whose agent loops, one before it whose agent did not, and one that has only just ended."""

    def __init__(self) -> None:
        looping, good = (scenes.trial(0.0, attempt=number, end_time_ms=number) for number in (1, 2))
        super().__init__([(looping, LOOP), (good, trajectory(ran("ls")))])
        self.of_job = {"bmj_2": [looping], "bmj_1": [good]}
        ended_ms = time.time_ns() // 1_000_000 - 120_000
        fields: dict[str, Any] = {
            "state": JobState.COMPLETED,
            "end_time_ms": ended_ms,
            "source": JobSource(type="benchmark", benchmark_id="bmd_1"),
        }
        job = scenes.job(attempts=1).model_copy(update=fields)
        self.latest = job.model_copy(update={"id": "bmj_2"})
        self.earlier = job.model_copy(update={"id": "bmj_1", "end_time_ms": ended_ms - 2 * 24 * 3600 * 1000})
        self.fresh = job.model_copy(update={"id": "bmj_3", "end_time_ms": ended_ms + 110_000})
        self.empty = job.model_copy(update={"id": "bmj_0", "state": JobState.CANCELLED})
        self.of_job["bmj_0"] = []
        self.jobs.records = SimpleNamespace(find=self._find)
        self.is_awaited = False
        self.told: list[tuple[str, list[str]]] = []
        self.recent = ["bmj_2", "bmj_3"]
        ends = SimpleNamespace(ids=self._ids, forget=self.recent.remove)
        self.webhooks = SimpleNamespace(
            is_awaited=lambda _: self.is_awaited, new_problems=self._tell, recent_ends=ends
        )

    async def _ids(self) -> list[str]:
        return list(self.recent)

    async def _find(self, id: str) -> Job | None:
        jobs = (self.latest, self.earlier, self.fresh, self.empty)
        return next((job for job in jobs if job.id == id), None)

    async def _write_trials(self, job_id: str, descriptor: int) -> None:
        os.write(
            descriptor, b"".join(each.model_dump_json().encode() + b"\n" for each in self.of_job[job_id])
        )

    async def _before(self, job: Job, limit: int) -> list[Job]:
        assert job.id in ("bmj_2", "bmj_3")
        # A job was cancelled between the two before any of its trials began.
        return [self.empty, self.earlier][:limit]

    async def _tell(self, job: Job, names: list[str]) -> None:
        self.told.append((job.id, names))


def test_webhooks_are_told_once_what_a_job_has_that_the_last_one_had_not() -> None:
    engine: Any = JobsOfOneBenchmark()

    async def scenario(reports: ProblemReports) -> None:
        await reports.tell_new(engine)
        assert (engine.told, engine.batches) == ([], [])
        engine.is_awaited = True
        await reports.tell_new(engine)
        await reports.tell_new(engine)

    live(scenario)
    ((job_id, names),) = engine.told
    assert job_id == "bmj_2"
    assert "repeated-call" in names
    # The one that has only just ended is looked at again.
    assert engine.recent == ["bmj_3"]


def test_a_job_without_trials_is_no_measure_of_what_is_new() -> None:
    engine: Any = JobsOfOneBenchmark()

    async def scenario(reports: ProblemReports) -> None:
        view = await read(reports, engine, engine.latest)
        assert (view.previous_job_id, view.is_complete) == ("bmj_1", True)
        new = {each.signal: each.is_new for each in view.problems}
        assert new["repeated-call"] is True

    live(scenario)


def test_polls_of_a_running_job_read_its_trials_once_for_all_who_ask() -> None:
    engine, job = StoredTrials([(scenes.trial(0.0, end_time_ms=1), LOOP)]), scenes.job()
    written: list[str] = []

    async def write(job_id: str, descriptor: int) -> None:
        written.append(job_id)
        os.write(descriptor, b"".join(each.model_dump_json().encode() for each, _ in engine.kept.values()))

    engine.reported_jobs.write_trials = write

    async def scenario(reports: ProblemReports) -> None:
        views = await asyncio.gather(*(read(reports, engine, job) for _ in range(20)))
        assert all(view.is_complete and view.n_read == 1 for view in views)
        # Once to list what is not read yet, and once to count.
        assert len(written) == 2

    live(scenario)
