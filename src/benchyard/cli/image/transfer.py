"""Export and import of archives, for `snapshot` and `image`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import click

from benchyard.cli.progress import ByteMeter, spinner
from benchyard.cli.render import size
from benchyard.client.bodies import Progress, Sized, Target
from benchyard.client.client import Client
from benchyard.errors import UsageError

T = TypeVar("T")

STANDARD = Path("-")

Export = Callable[[str, Target, Progress, Sized], int]


def export_archive(export: Export, id: str, path: Path) -> None:
    """Write an archive to a file, or to standard output with `-`, and report its size."""
    if path != STANDARD and path.is_dir():
        raise UsageError(f"{path} is a folder; name the file to write")
    with ByteMeter(id) as meter:

        def begin(total: int) -> None:
            meter.expect(total)
            click.echo(f"{id}: {size(total)}", err=True)

        click.echo(f"{id}: packing...", err=True)
        if path == STANDARD:
            export(id, sys.stdout.buffer, meter.add, begin)
            sys.stdout.buffer.flush()
        else:
            export(id, path, meter.add, begin)
    click.echo(f"{id}  {path}", err=True)


def import_in_place(client: Client, path: Path, read: Callable[[str], T]) -> T | None:
    """Let a server on this machine read the path itself; None if it cannot."""
    if urlsplit(client.server.url).hostname not in ("127.0.0.1", "::1", "localhost"):
        return None
    with spinner(f"importing {path}"):
        try:
            return read(str(path.resolve()))
        except UsageError:
            # A loopback address can be the end of a tunnel to another machine.
            return None
