"""`benchyard server backup` and `restore`: all that cannot be made again, in one file."""

import importlib.metadata
import os
import sys
from pathlib import Path
from typing import IO

import click

from benchyard.cli.progress import Meter
from benchyard.cli.render import output_option, show, size, when
from benchyard.errors import UsageError
from benchyard.settings import default_data_folder
from benchyard.store.backups import read_backup, write_backup

STANDARD = Path("-")
_data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="The data folder. Default: $BENCHYARD_DATA, else benchyard in your user data folder.",
)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@_data_option
@click.option(
    "--without-database", is_flag=True, help="Leave the database out, where you back it up by other means."
)
@output_option
def backup(file: Path, data: Path | None, without_database: bool, output: str) -> None:
    """Write a backup of a server on this machine, while it runs or not; to standard output with `-`.

    In it are the database with all results, objects, logs, secrets and keys. Not in it are images: those of
    blueprints are built again. Snapshots, final states and devboxes that live are lost with their folder.
    Whoever has the file has the keys.

    \b
      benchyard server backup benchyard-backup.tgz
      benchyard server backup - --data /srv/benchyard \\
          | ssh store "cat > backup.tgz"
    """
    folder = _folder(data)
    version = importlib.metadata.version("benchyard")
    if file == STANDARD:
        with Meter("backup") as meter:
            made = write_backup(folder, sys.stdout.buffer, version, meter.add, database=not without_database)
        sys.stdout.buffer.flush()
        return
    if file.exists():
        raise UsageError(f"{file} is already there; name another file")
    part = file.with_name(f".{file.name}.part")
    try:
        with Meter(str(file)) as meter, _private(part) as target:
            made = write_backup(folder, target, version, meter.add, database=not without_database)
            target.flush()
            os.fsync(target.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    told = {**vars(made), "file": str(file), "size_bytes": file.stat().st_size}
    show(told, output, f"{file}  {size(file.stat().st_size)}, {made.objects} objects, schema {made.schema}")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@_data_option
@output_option
def restore(file: Path, data: Path | None, output: str) -> None:
    """Make a data folder of a backup; refuses a folder that has something in it.

    \b
      benchyard server restore benchyard-backup.tgz --data /srv/benchyard
      benchyard serve --data /srv/benchyard
    """
    folder = _folder(data)
    with Meter(str(folder)) as meter:
        if file == STANDARD:
            made = read_backup(sys.stdin.buffer, folder, meter.add)
        else:
            with file.open("rb") as source:
                made = read_backup(source, folder, meter.add)
    told = {**vars(made), "data": str(folder)}
    text = f"{folder}  restored: backup of {when(made.create_time_ms)}, {made.objects} objects"
    show(told, output, f"{text}\nstart it: `benchyard serve --data {folder}`")
    if not made.has_database:
        click.echo("the database is not in this backup; restore it before the server starts", err=True)


def _folder(data: Path | None) -> Path:
    return (data or default_data_folder(os.environ)).absolute()


def _private(path: Path) -> IO[bytes]:
    # A new file: one that somebody else has put there, or a link, would show them what is written.
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
