"""`benchyard devbox cp`: files and folders into a devbox and out of it."""

import secrets
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from benchyard.cli.connection import connect
from benchyard.cli.progress import ByteMeter
from benchyard.client.bodies import size_of
from benchyard.client.client import Client
from benchyard.client.folder_archive import folder_tar, tar_writer
from benchyard.client.lookup import find_devbox
from benchyard.errors import DevboxError, NotFound, UsageError

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
        _upload_folder(client, devbox_id, local, target.path)
    elif local.exists():
        path = target.path + local.name if target.path.endswith("/") else target.path
        with ByteMeter(source, size_of(local)) as meter:
            client.files.upload(devbox_id, path, local, meter.add)
        mode = local.stat().st_mode & 0o777
        if mode & 0o111:
            _run(client, devbox_id, f"chmod {mode:o} -- {quote_path(path)}")
    else:
        raise NotFound(f"there is no {source!r} here")


def _upload_folder(client: Client, devbox_id: str, folder: Path, path: str) -> None:
    with _scratch(client, devbox_id) as archive:
        with folder_tar(folder) as tar, ByteMeter(str(folder)) as meter:
            client.files.upload(devbox_id, archive, tar, meter.add)
        here = quote_path(path)
        _run(client, devbox_id, f"mkdir -p -- {here} && tar -x --no-same-owner -f {archive} -C {here}")


def _download(client: Client, source: Remote, target: str) -> None:
    devbox_id = find_devbox(client, source.devbox).id
    if target == STANDARD:
        with ByteMeter(source.path) as meter:
            client.files.download(devbox_id, source.path, sys.stdout.buffer, meter.add)
        sys.stdout.buffer.flush()
        return
    local = Path(target)
    if client.executions.run(devbox_id, f"test -d {quote_path(source.path)}").exit_status == 0:
        _download_folder(client, devbox_id, source.path, local)
        return
    if local.is_dir():
        local = local / source.path.rstrip("/").rpartition("/")[2]
    with ByteMeter(source.path) as meter:
        client.files.download(devbox_id, source.path, local, meter.add)


def _download_folder(client: Client, devbox_id: str, path: str, folder: Path) -> None:
    with _scratch(client, devbox_id) as archive:
        _run(client, devbox_id, f"tar -c -f {archive} -C {quote_path(path)} .")
        with tar_writer(folder) as tar, ByteMeter(path) as meter:
            client.files.download(devbox_id, archive, tar, meter.add)


@contextmanager
def _scratch(client: Client, devbox_id: str) -> Iterator[str]:
    """Yield the name of a file in the home of the devbox's user, which is removed afterwards."""
    archive = f".benchyard-{secrets.token_hex(8)}.tar"
    try:
        yield archive
    finally:
        client.executions.run(devbox_id, f"rm -f {archive}")


def _run(client: Client, devbox_id: str, command: str) -> None:
    ended = client.executions.run(devbox_id, command)
    if ended.exit_status != 0:
        reason = ended.stderr.strip()[-500:] or f"exit status {ended.exit_status}"
        raise DevboxError(f"copying failed in the devbox: {reason}")


def quote_path(path: str) -> str:
    """Quote a path for the devbox's shell; commands start at the user's home, so `~` is `.`."""
    if path == "~" or path.startswith("~/"):
        path = "." + path[1:]
    return shlex.quote(path)
