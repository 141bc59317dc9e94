"""`benchyard job export`: the results of a job in Harbor's layout, or its trials as CSV or Parquet."""

import asyncio
import json
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchyard.cli.connection import connect, connect_async
from benchyard.cli.job.logs import AT_ONCE, INCOMPLETE, fetch_logs, find_job_async
from benchyard.cli.job.names import of_job
from benchyard.cli.job.output_files import replace_file
from benchyard.cli.progress import patience
from benchyard.client.benchmark_files.folders import check_folder_is_free
from benchyard.client.client import AsyncClient
from benchyard.client.plain_text import clean
from benchyard.client.trial_frames import write_csv, write_parquet
from benchyard.errors import BenchyardError, UsageError
from benchyard.models.jobs import BenchmarkJobView
from benchyard.models.reports.job_report import TableView
from benchyard.models.trials import TrialView
from benchyard.reports import harbor_results

_SCORER = re.compile(r"scorer-\d+-.*\.log")
_TRAJECTORY = re.compile(r"trace-(.*[._-])?trajectory\.json")
_RUN = "run.json"


@click.command()
@click.argument("given", metavar="ID|NAME")
@click.argument("folder", type=click.Path(path_type=Path), metavar="[DIR]", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(["harbor"]),
    default="harbor",
    show_default=True,
    help="The layout of the folder.",
)
@click.option("--force", is_flag=True, help="Overwrite what is in the folder.")
@click.option(
    "--csv",
    "csv_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the trials as CSV instead; - prints it.",
)
@click.option(
    "--parquet",
    "parquet_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the trials as Parquet instead, which needs pyarrow.",
)
@click.option("--columns", metavar="A,B,C", help="Columns of these files. Default: the usual ones.")
def export(
    given: str,
    folder: Path | None,
    form: str,
    force: bool,
    csv_file: Path | None,
    parquet_file: Path | None,
    columns: str | None,
) -> None:
    """Write the results of a job as Harbor does: DIR/JOB/TRIAL/result.json, logs, rewards, trajectories.

    Superseded trials are left out. Ends with 1 if some logs could not be fetched. With --csv or --parquet, a
    table with a line for each trial is written instead. In CSV, a text that a spreadsheet would take for a
    formula has a quote before it.

    \b
      benchyard job export my-job jobs --format harbor
      benchyard job export my-job --csv trials.csv
      benchyard job export my-job --csv - --columns scenario_name,score
      benchyard job export my-job --parquet trials.parquet
    """
    if csv_file is not None or parquet_file is not None:
        if folder is not None:
            raise UsageError("name either a folder for Harbor's layout, or files with --csv and --parquet")
        _export_table(given, csv_file, parquet_file, columns)
    elif folder is None:
        raise UsageError("name a folder to write to, or a file with --csv or --parquet")
    else:
        asyncio.run(_export(given, folder, force=force))


def _export_table(given: str, csv_file: Path | None, parquet_file: Path | None, columns: str | None) -> None:
    with connect() as client:
        names = None if columns is None else columns.split(",")
        table = of_job(client, given, lambda id: client.jobs.table(id, names))
    if parquet_file is not None:
        replace_file(parquet_file, lambda place: write_parquet(table, place))
    if csv_file is not None and str(csv_file) == "-":
        write_csv(table, sys.stdout)
    elif csv_file is not None:
        replace_file(csv_file, lambda place: _write_csv_file(table, place))
    for file in (csv_file, parquet_file):
        if file is not None and str(file) != "-":
            click.echo(f"{file}  {table.n} trials")


def _write_csv_file(table: TableView, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        write_csv(table, file)


async def _export(given: str, folder: Path, *, force: bool) -> None:
    async with connect_async() as client:
        view = await find_job_async(client, given)
        target = folder / harbor_results.safe(view.name)
        check_folder_is_free(target, force=force)
        trials = [each async for each in client.jobs.trials(view.id)]
        counted = [each for each in trials if not each.is_superseded]
        names = harbor_results.trial_names(counted)
        places = {id: target / name for id, name in names.items()}
        with patience(f"writing {len(counted)} trials to {target}"):
            failed = await _write_trials(client, view, counted, places)
    _write_json(target / "config.json", harbor_results.job_config(view))
    _write_json(target / "lock.json", harbor_results.job_lock(view, counted))
    _write_json(target / "result.json", harbor_results.job_result(view, counted, names))
    click.echo(f"{target}  {len(counted) - failed} of {len(counted)} trials")
    if failed:
        raise click.exceptions.Exit(INCOMPLETE)


async def _write_trials(
    client: AsyncClient, view: BenchmarkJobView, trials: Sequence[TrialView], places: Mapping[str, Path]
) -> int:
    """Write the folders of trials; returns the number of those whose logs could not be fetched."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(trial: TrialView) -> bool:
        async with gate:
            try:
                await write_trial(client, view, trial, places[trial.id])
            except (BenchyardError, zipfile.BadZipFile) as error:
                click.echo(f"{places[trial.id]}: {clean(str(error))}", err=True)
                return True
            return False

    return sum(await asyncio.gather(*(one(each) for each in trials)))


async def write_trial(client: AsyncClient, view: BenchmarkJobView, trial: TrialView, folder: Path) -> None:
    """Write the folder of one trial; its result comes last, so that a folder with a result is complete."""
    for name in ("agent", "verifier", "artifacts"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", harbor_results.trial_config(view, trial, folder.name))
    _write_json(folder / "lock.json", harbor_results.trial_lock(view, trial))
    _write_json(folder / "artifacts/manifest.json", [])
    rewards = harbor_results.rewards_of(trial.score, trial.rewards)
    if rewards is not None:
        _write_json(folder / "verifier/reward.json", rewards)
    result = harbor_results.trial_result(view, trial, folder.name)
    if result["exception_info"] is not None:
        _write(folder / "exception.txt", f"{result['exception_info']['exception_message']}\n".encode())
    try:
        if trial.scenario_run_id is not None:
            with tempfile.TemporaryDirectory(prefix="benchyard-logs-") as work:
                await fetch_logs(client, trial.scenario_run_id, Path(work))
                _sort_logs(Path(work), folder)
    finally:
        _write_json(folder / "result.json", result)


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
