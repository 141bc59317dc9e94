"""`benchyard job logs`: the logs of a job's trials as folders."""

import asyncio
import json
import re
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TypeVar

import click
from rich.console import Console

from benchyard.cli.connection import connect_async
from benchyard.cli.job.names import tell_of_several
from benchyard.cli.render import echo_sentence
from benchyard.client.client import AsyncClient
from benchyard.client.lookup import PAGE, nearest_hint, scenario_id_in
from benchyard.client.operations import TRANSFER_TIMEOUT, Request, at
from benchyard.client.plain_text import clean
from benchyard.client.resources.files import download
from benchyard.errors import BenchyardError, NotFound, TooLarge
from benchyard.models.job_plans import count_text
from benchyard.models.jobs import BenchmarkJobView
from benchyard.models.trials import TrialView

AT_ONCE = 8
MOST_ZIP_BYTES = 1024**3
MOST_BYTES = 4 * 1024**3
MOST_FILES = 10_000
LONGEST_NAME = 100
RESULTS = "results.json"
INCOMPLETE = 1
"""Exit status if some logs could not be fetched."""

Key = TypeVar("Key")

_CHUNK = 1024**2
_UNSAFE = re.compile(r"[^A-Za-z0-9._@+-]+")
_EVERY = 50


@click.command()
@click.argument("given", metavar="ID|NAME")
@click.option(
    "-o",
    "--output-dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write to. Default: job-logs-ID.",
)
@click.option("--run", "run_id", metavar="ID", help="Only this benchmark run (one agent), or scenario run.")
@click.option("--scenario", metavar="ID|NAME", help="Only this scenario.")
def logs(given: str, folder: Path | None, run_id: str | None, scenario: str | None) -> None:
    """Fetch the logs and results of a job's trials.

    Writes AGENT_MODEL/SCENARIO/results.json and the log files beside it; with several attempts each has a
    folder `attempt-N`, and superseded trials are in `superseded`. Ends with 1 if some could not be fetched.

    \b
      benchyard job logs my-job
      benchyard job logs my-job -o logs --scenario quickstart/fix-a-bug
    """
    asyncio.run(_fetch_all(given, folder, run_id, scenario))


@dataclass(frozen=True)
class _TrialFolder:
    """A trial, and the folder for it."""

    trial: TrialView
    label: str
    """Label of the trial's agent."""
    folder: Path


async def _fetch_all(given: str, folder: Path | None, run_id: str | None, scenario: str | None) -> None:
    async with connect_async() as client:
        view = await find_job_async(client, given)
        trials = [each async for each in client.jobs.trials(view.id)]
        id = scenario_id_in(view, trials, scenario) if scenario else None
        chosen = [each for each in trials if _is_wanted(view, each, run_id, id)]
        if not chosen:
            raise NotFound("no trial of this job matches; `benchyard job summary -e` shows what there is")
        target = folder if folder is not None else Path(f"job-logs-{view.id}")
        wanted = trial_folders(view, trials, chosen, target)
        with _Progress(len(wanted)) as progress:
            gate = asyncio.Semaphore(AT_ONCE)
            await asyncio.gather(*(_fetch(client, each, gate, progress) for each in wanted))
    fetched = f"{len(wanted) - progress.failed} of {count_text(len(wanted), 'trial')}"
    echo_sentence(f"{target}  {fetched}, each with its logs and results.json in a folder of its own")
    if progress.failed:
        raise click.exceptions.Exit(INCOMPLETE)


async def find_job_async(client: AsyncClient, given: str) -> BenchmarkJobView:
    """Return the job of that id; else the newest one of that name."""
    try:
        return await client.jobs.get(given)
    except NotFound:
        named = (await client.jobs.list(name=given, limit=2)).items
        if named:
            tell_of_several(given, named)
            return await client.jobs.get(named[0].id)
    hint = nearest_hint(given, (await client.jobs.list(limit=PAGE)).items)
    raise NotFound(f"no job has the id or name {given!r}{hint}; `benchyard job list --all` shows all")


def _is_wanted(view: BenchmarkJobView, trial: TrialView, run_id: str | None, scenario: str | None) -> bool:
    if scenario is not None and scenario not in (trial.scenario_id, trial.scenario_name):
        return False
    return run_id is None or run_id in (trial.scenario_run_id, run_ids(view).get(trial.agent))


def run_ids(view: BenchmarkJobView) -> dict[int, str]:
    """Return the id of each agent's benchmark run, by the agent's number."""
    return {number: each.benchmark_run_id for number, each in enumerate(view.progress)}


def trial_folders(
    view: BenchmarkJobView, trials: Sequence[TrialView], chosen: Iterable[TrialView], folder: Path
) -> list[_TrialFolder]:
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
        found.append(_TrialFolder(each, agents[each.agent], place))
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


async def _fetch(
    client: AsyncClient, wanted: _TrialFolder, gate: asyncio.Semaphore, progress: "_Progress"
) -> None:
    async with gate:
        try:
            wanted.folder.mkdir(parents=True, exist_ok=True)
            if wanted.trial.scenario_run_id is not None:
                await fetch_logs(client, wanted.trial.scenario_run_id, wanted.folder)
            results = {"agent_label": wanted.label, **wanted.trial.model_dump(mode="json", exclude_none=True)}
            (wanted.folder / RESULTS).write_text(json.dumps(results, indent=2) + "\n")
        except (BenchyardError, zipfile.BadZipFile) as error:
            progress.fail(wanted, str(error))
        else:
            progress.done()


async def fetch_logs(client: AsyncClient, run_id: str, folder: Path) -> None:
    """Write the logs of a scenario run into a folder."""
    left = MOST_ZIP_BYTES

    def count(size: int) -> None:
        nonlocal left
        left -= size
        if left < 0:
            raise TooLarge(f"the logs are over {MOST_ZIP_BYTES} bytes")

    request = Request("POST", at("/v1/scenarios/runs/{}/download_logs", run_id), timeout=TRANSFER_TIMEOUT)
    with tempfile.TemporaryFile(dir=folder) as file:
        await client.session.run(download(request, file, count))
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


class _Progress:
    """Reports the number of fetched trials on stderr."""

    def __init__(self, total: int) -> None:
        self.failed = 0
        self._total = total
        self._done = 0
        self._status = Console(stderr=True).status("fetching logs") if sys.stderr.isatty() else None

    def __enter__(self) -> "_Progress":
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def done(self) -> None:
        """Count a trial whose logs are fetched."""
        self._done += 1
        text = f"fetching logs: {self._done} of {self._total} trials"
        if self._status:
            self._status.update(text)
        elif self._done % _EVERY == 0:
            click.echo(text, err=True)

    def fail(self, wanted: _TrialFolder, why: str) -> None:
        """Report a trial whose logs could not be fetched, and go on."""
        self.failed += 1
        self._done += 1
        click.echo(f"{wanted.folder}: {clean(why)}", err=True)
