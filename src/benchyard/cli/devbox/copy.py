"""`benchyard devbox cp`: files and folders into a devbox and out of it."""

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from benchyard.cli.connection import connect
from benchyard.cli.progress import ByteMeter, metered
from benchyard.client.bodies import size_of
from benchyard.client.client import Client
from benchyard.client.folder_copy import quote_path, run_for_copy
from benchyard.client.lookup import find_devbox
from benchyard.errors import NotFound, UsageError

STANDARD = "-"


@dataclass(frozen=True)
class Remote:
    """A path in a devbox."""

    devbox: str
    path: str


@click.command()
@click.argument("source")
@click.argument("target")
def cp(source: str, target: str) -> None:
    """Copy a file or a folder into a devbox, or out of it.

    One side is ID:PATH; `-` on the other is standard input or output. Relative paths in a devbox start at its
    user's home. A folder is copied so that TARGET has the content of SOURCE.

    \b
      benchyard devbox cp notes.txt box:notes.txt
      benchyard devbox cp box:/var/log/app.log .
      benchyard devbox cp ./project box:project
      tar c src | benchyard devbox cp - box:/tmp/src.tar
    """
    origin, destination = remote_from_text(source), remote_from_text(target)
    with connect() as client:
        if isinstance(destination, Remote) and isinstance(origin, str):
            _upload(client, origin, destination)
        elif isinstance(origin, Remote) and isinstance(destination, str):
            _download(client, origin, destination)
        else:
            raise UsageError(
                "one side must be in a devbox (ID:PATH) and the other here; write ./a:b for a file a:b"
            )


def remote_from_text(text: str) -> Remote | str:
    """Parse `ID:PATH` as a path in a devbox, and all other texts as local paths."""
    devbox, colon, path = text.partition(":")
    if not colon or not devbox or "/" in devbox or devbox == ".":
        return text
    if not path:
        raise UsageError(f"{text!r} names no path; write for example {devbox}:notes.txt")
    return Remote(devbox, path)


def _upload(client: Client, source: str, target: Remote) -> None:
    devbox_id = find_devbox(client, target.devbox).id
    if source == STANDARD:
        with ByteMeter(target.path) as meter:
            client.files.upload(devbox_id, target.path, sys.stdin.buffer, meter.add)
        return
    local = Path(source)
    if local.is_dir():
        client.files.upload_folder(devbox_id, target.path, local, meter=metered)
    elif local.exists():
        path = target.path + local.name if target.path.endswith("/") else target.path
        with ByteMeter(source, size_of(local)) as meter:
            client.files.upload(devbox_id, path, local, meter.add)
        mode = local.stat().st_mode & 0o777
        if mode & 0o111:
            run_for_copy(client, devbox_id, f"chmod {mode:o} -- {quote_path(path)}")
    else:
        raise NotFound(f"there is no {source!r} here")


def _download(client: Client, source: Remote, target: str) -> None:
    devbox_id = find_devbox(client, source.devbox).id
    if target == STANDARD:
        with ByteMeter(source.path) as meter:
            client.files.download(devbox_id, source.path, sys.stdout.buffer, meter.add)
        sys.stdout.buffer.flush()
        return
    local = Path(target)
    if client.executions.run(devbox_id, f"test -d {quote_path(source.path)}").exit_status == 0:
        client.files.download_folder(devbox_id, source.path, local, meter=metered)
        return
    if local.is_dir():
        local = local / source.path.rstrip("/").rpartition("/")[2]
    with ByteMeter(source.path) as meter:
        client.files.download(devbox_id, source.path, local, meter.add)
