"""Logs and results of a job's trials, each in a folder of its own."""

import asyncio
import json
import re
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TypeVar

from benchyard.client.job_files.progress import UNSEEN, TrialProgress
from benchyard.client.job_files.results import JobFolder, TrialFolder
from benchyard.client.lookup import find_job, scenario_id_in
from benchyard.client.nouns import SyncNouns
from benchyard.client.operations import TRANSFER_TIMEOUT, Request, at
from benchyard.client.resources.files import download
from benchyard.client.sessions import AsyncSession
from benchyard.errors import BenchyardError, NotFound, TooLarge
from benchyard.models.jobs import BenchmarkJobView
from benchyard.models.trials import TrialView

AT_ONCE = 8
MOST_ZIP_BYTES = 1024**3
MOST_BYTES = 4 * 1024**3
MOST_FILES = 10_000
LONGEST_NAME = 100
RESULTS = "results.json"
FAILURES = (BenchyardError, OSError, zipfile.BadZipFile, zlib.error)
"""Errors of one trial, beside which the others are still fetched."""

Key = TypeVar("Key")

_CHUNK = 1024**2
_UNSAFE = re.compile(r"[^A-Za-z0-9._@+-]+")


@dataclass(frozen=True)
class TrialLogs:
    """A trial whose logs are to be fetched."""

    trial: TrialView
    label: str
    """Label of the trial's agent."""
    folder: Path


@dataclass(frozen=True)
class JobLogs:
    """Trials of a job whose logs are to be fetched below a folder."""

    job_id: str
    folder: Path
    trials: Sequence[TrialLogs]


def find_logs(
    client: SyncNouns,
    given: str,
    folder: Path | None,
    *,
    run: str | None = None,
    scenario: str | None = None,
    progress: TrialProgress = UNSEEN,
) -> JobLogs:
    """Return the trials of a job, by its id or name, or of one run or scenario in it; raises NotFound."""
    view = find_job(client, given, tell=progress.say)
    trials = list(client.jobs.trials(view.id))
    id = scenario_id_in(view, trials, scenario) if scenario else None
    chosen = [each for each in trials if _is_wanted(view, each, run, id)]
    if not chosen:
        raise NotFound("no trial of this job matches; `benchyard job summary -e` shows what there is")
    target = folder if folder is not None else Path(f"job-logs-{view.id}")
    return JobLogs(view.id, target, trial_folders(view, trials, chosen, target))


async def fetch_job_logs(
    session: AsyncSession, logs: JobLogs, *, progress: TrialProgress = UNSEEN
) -> JobFolder:
    """Write the logs and results of trials; a trial that fails has its reason in the result."""

    async def fetch_one(wanted: TrialLogs) -> None:
        await asyncio.to_thread(wanted.folder.mkdir, parents=True, exist_ok=True)
        if wanted.trial.scenario_run_id is not None:
            await fetch_logs(session, wanted.trial.scenario_run_id, wanted.folder)
        results = {"agent_label": wanted.label, **wanted.trial.model_dump(mode="json", exclude_none=True)}
        text = json.dumps(results, indent=2) + "\n"
        await asyncio.to_thread((wanted.folder / RESULTS).write_text, text)

    places = [TrialFolder(each.trial.id, each.folder) for each in logs.trials]
    work = {each.trial.id: each for each in logs.trials}
    written = await write_trials(
        places, logs.folder, lambda place: fetch_one(work[place.trial_id]), progress=progress
    )
    return JobFolder(logs.job_id, logs.folder, written)


async def write_trials(
    places: Sequence[TrialFolder],
    folder: Path,
    write: Callable[[TrialFolder], Awaitable[None]],
    *,
    progress: TrialProgress,
) -> list[TrialFolder]:
    """Write the files of trials, some at the same time; returns each with its problem, if any."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(place: TrialFolder) -> TrialFolder:
        async with gate:
            try:
                await write(place)
            except FAILURES as error:
                place = TrialFolder(place.trial_id, place.folder, str(error))
            tell(place)
            return place

    with progress.trials(len(places), folder) as tell:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(each)) for each in places]
        return [each.result() for each in tasks]


def _is_wanted(view: BenchmarkJobView, trial: TrialView, run: str | None, scenario: str | None) -> bool:
    if scenario is not None and scenario not in (trial.scenario_id, trial.scenario_name):
        return False
    return run is None or run in (trial.scenario_run_id, run_ids(view).get(trial.agent))


def run_ids(view: BenchmarkJobView) -> dict[int, str]:
    """Return the id of each agent's benchmark run, by the agent's number."""
    return {number: each.benchmark_run_id for number, each in enumerate(view.progress)}


def trial_folders(
    view: BenchmarkJobView, trials: Sequence[TrialView], chosen: Iterable[TrialView], folder: Path
) -> list[TrialLogs]:
    """Return a folder for each chosen trial: distinct, and independent of the other chosen ones."""
    agents = _unique({number: _agent(view, number) for number in sorted({each.agent for each in trials})})
    names = {each.scenario_id: path_segment(each.scenario_name) for each in trials}
    scenarios = _unique(dict(sorted(names.items())))
    several = max((each.attempt for each in trials), default=1) > 1
    found = []
    for each in chosen:
        place = folder / agents[each.agent] / scenarios[each.scenario_id]
        if each.is_superseded:
            place = place / "superseded" / f"attempt-{each.attempt}-try-{each.retry + 1}"
        elif several:
            place /= f"attempt-{each.attempt}"
        found.append(TrialLogs(each, agents[each.agent], place))
    return found


def path_segment(name: str) -> str:
    """Return a name that is safe as a part of a path, from any text."""
    safe = _UNSAFE.sub("_", name).strip("._")[:LONGEST_NAME]
    return safe or "unnamed"


def _agent(view: BenchmarkJobView, number: int) -> str:
    configs = view.job_spec.agent_configs
    if not 0 <= number < len(configs):
        return f"agent-{number}"
    config = configs[number]
    version = f"@{config.version}" if config.version else ""
    return path_segment(f"{config.name}{version}" + (f"_{config.model_name}" if config.model_name else ""))


def _unique(names: dict[Key, str]) -> dict[Key, str]:
    """Add numbers to repeated names, ignoring case, which a file system may not distinguish."""
    used: set[str] = set()
    count: Counter[str] = Counter()
    found = {}
    for key, name in names.items():
        unique = name
        while unique.lower() in used:
            count[name] += 1
            unique = f"{name}-{count[name] + 1}"
        used.add(unique.lower())
        found[key] = unique
    return found


async def fetch_logs(session: AsyncSession, run_id: str, folder: Path) -> None:
    """Write the logs of a scenario run into a folder."""
    left = MOST_ZIP_BYTES

    def count(size: int) -> None:
        nonlocal left
        left -= size
        if left < 0:
            raise TooLarge(f"the logs are over {MOST_ZIP_BYTES} bytes")

    request = Request("POST", at("/v1/scenarios/runs/{}/download_logs", run_id), timeout=TRANSFER_TIMEOUT)
    with tempfile.TemporaryFile(dir=folder) as file:
        await session.run(download(request, file, count))
        await asyncio.to_thread(unpack_logs, file, folder, f"{run_id}_")


def unpack_logs(file: IO[bytes], folder: Path, prefix: str = "") -> None:
    """Write the files of an archive by their last names only, within limits of number and size.

    The archive comes from an agent: its paths and sizes are not trusted. The common prefix of the names,
    which only tells runs apart, is removed.
    """
    left = MOST_BYTES
    with zipfile.ZipFile(file) as archive:
        members = [each for each in archive.infolist() if not each.is_dir()]
        if len(members) > MOST_FILES:
            raise TooLarge(f"the logs are {len(members)} files; {MOST_FILES} are the most")
        names = _unique({number: _file_name(each.filename, prefix) for number, each in enumerate(members)})
        for number, member in enumerate(members):
            with archive.open(member) as source, (folder / names[number]).open("wb") as target:
                while chunk := source.read(_CHUNK):
                    left -= len(chunk)
                    if left < 0:
                        raise TooLarge(f"the logs are over {MOST_BYTES} bytes when unpacked")
                    target.write(chunk)


def _file_name(path: str, prefix: str) -> str:
    name = path_segment(PurePosixPath(path.replace("\\", "/")).name.removeprefix(prefix))
    return f"log-{name}" if name.lower() in (RESULTS, "superseded") else name
