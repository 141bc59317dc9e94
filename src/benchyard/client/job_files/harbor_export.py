"""Results of a job in Harbor's layout, as a folder."""

import asyncio
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchyard.client.benchmark_files.folders import check_folder_is_free
from benchyard.client.job_files.progress import UNSEEN, TrialProgress
from benchyard.client.job_files.results import JobFolder, TrialFolder
from benchyard.client.job_files.trial_logs import fetch_logs, write_trials
from benchyard.client.lookup import find_job
from benchyard.client.nouns import SyncNouns
from benchyard.client.sessions import AsyncSession
from benchyard.models.jobs import BenchmarkJobView
from benchyard.models.trials import TrialView
from benchyard.reports import harbor_results

_SCORER = re.compile(r"scorer-\d+-.*\.log")
_TRAJECTORY = re.compile(r"trace-(.*[._-])?trajectory\.json")
_RUN = "run.json"


@dataclass(frozen=True)
class HarborExport:
    """A job whose results are to be written in Harbor's layout."""

    job: BenchmarkJobView
    folder: Path
    trials: Sequence[TrialView]
    """Trials that count: superseded ones are left out."""
    names: Mapping[str, str]
    """Name of each trial's folder, by the trial's id."""


def find_export(
    client: SyncNouns, given: str, folder: Path, *, force: bool, progress: TrialProgress = UNSEEN
) -> HarborExport:
    """Return the job of that id or name, to be written as a folder of its name below the given one."""
    view = find_job(client, given, tell=progress.say)
    target = folder / harbor_results.safe(view.name)
    check_folder_is_free(target, force=force)
    trials = [each for each in client.jobs.trials(view.id) if not each.is_superseded]
    return HarborExport(view, target, trials, harbor_results.trial_names(trials))


async def write_export(
    session: AsyncSession, export: HarborExport, *, progress: TrialProgress = UNSEEN
) -> JobFolder:
    """Write the folders of a job and its trials; a trial whose logs fail has the reason in the result."""
    trials = {each.id: each for each in export.trials}
    places = [TrialFolder(each.id, export.folder / export.names[each.id]) for each in export.trials]
    written = await write_trials(
        places,
        export.folder,
        lambda place: _write_trial(session, export.job, trials[place.trial_id], place.folder),
        progress=progress,
    )
    await asyncio.to_thread(_write_job, export)
    return JobFolder(export.job.id, export.folder, written)


def _write_job(export: HarborExport) -> None:
    job, trials = export.job, export.trials
    _write_json(export.folder / "config.json", harbor_results.job_config(job))
    _write_json(export.folder / "lock.json", harbor_results.job_lock(job, trials))
    _write_json(export.folder / "result.json", harbor_results.job_result(job, trials, export.names))


async def _write_trial(session: AsyncSession, job: BenchmarkJobView, trial: TrialView, folder: Path) -> None:
    """Write the folder of one trial; its result comes last, so that a folder with a result is complete."""
    result = harbor_results.trial_result(job, trial, folder.name)
    await asyncio.to_thread(_write_beginning, job, trial, folder, result)
    try:
        if trial.scenario_run_id is not None:
            with tempfile.TemporaryDirectory(prefix="benchyard-logs-") as work:
                await fetch_logs(session, trial.scenario_run_id, Path(work))
                await asyncio.to_thread(_sort_logs, Path(work), folder)
    finally:
        _write_json(folder / "result.json", result)


def _write_beginning(
    job: BenchmarkJobView, trial: TrialView, folder: Path, result: Mapping[str, Any]
) -> None:
    """Write all of a trial but its logs and its result."""
    for name in ("agent", "verifier", "artifacts"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", harbor_results.trial_config(job, trial, folder.name))
    _write_json(folder / "lock.json", harbor_results.trial_lock(job, trial))
    _write_json(folder / "artifacts/manifest.json", [])
    rewards = harbor_results.rewards_of(trial.score, trial.rewards)
    if rewards is not None:
        _write_json(folder / "verifier/reward.json", rewards)
    if result["exception_info"] is not None:
        _write(folder / "exception.txt", f"{result['exception_info']['exception_message']}\n".encode())


def _sort_logs(logs: Path, folder: Path) -> None:
    """Sort logs into Harbor's layout: output of scorers, the trajectory, and files of the agent."""
    said = b""
    for each in sorted(logs.iterdir()):
        if _SCORER.fullmatch(each.name):
            said += each.read_bytes()
        elif each.name == _RUN:
            _move(each, folder / "benchyard-run.json")
        elif _TRAJECTORY.fullmatch(each.name):
            _move(each, folder / "agent/trajectory.json")
        else:
            _move(each, folder / "agent" / each.name)
    _write(folder / "verifier/test-stdout.txt", said)


def _move(source: Path, target: Path) -> None:
    _write(target, source.read_bytes())


def _write_json(path: Path, data: Any) -> None:
    _write(path, (json.dumps(data, indent=2, allow_nan=False) + "\n").encode())


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically: readers see the new content as a whole, or the former one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
