"""Copies folders into devboxes and out of them, as archives in the home of the devbox's user."""

import secrets
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchyard.client.bodies import Meter, no_meter
from benchyard.client.folder_archive import folder_tar, tar_writer
from benchyard.client.nouns import SyncNouns
from benchyard.errors import DevboxError


def upload_folder(
    client: SyncNouns, devbox_id: str, path: str, folder: Path, meter: Meter = no_meter
) -> None:
    """Copy a folder of this machine, so that the path in the devbox has its content."""
    with _scratch(client, devbox_id) as archive:
        with folder_tar(folder) as tar, meter(str(folder), None) as progress:
            client.files.upload(devbox_id, archive, tar, progress)
        here = quote_path(path)
        run_for_copy(
            client, devbox_id, f"mkdir -p -- {here} && tar -x --no-same-owner -f {archive} -C {here}"
        )


def download_folder(
    client: SyncNouns, devbox_id: str, path: str, folder: Path, meter: Meter = no_meter
) -> None:
    """Copy a folder of a devbox, so that the folder of this machine has its content."""
    with _scratch(client, devbox_id) as archive:
        run_for_copy(client, devbox_id, f"tar -c -f {archive} -C {quote_path(path)} .")
        with tar_writer(folder) as tar, meter(path, None) as progress:
            client.files.download(devbox_id, archive, tar, progress)


@contextmanager
def _scratch(client: SyncNouns, devbox_id: str) -> Iterator[str]:
    """Yield the name of a file in the home of the devbox's user, which is removed afterwards."""
    archive = f".benchyard-{secrets.token_hex(8)}.tar"
    try:
        yield archive
    finally:
        client.executions.run(devbox_id, f"rm -f {archive}")


def run_for_copy(client: SyncNouns, devbox_id: str, command: str) -> None:
    """Run a command of a copy in the devbox; raises DevboxError with the reason if it fails."""
    ended = client.executions.run(devbox_id, command)
    if ended.exit_status != 0:
        reason = ended.stderr.strip()[-500:] or f"exit status {ended.exit_status}"
        raise DevboxError(f"copying failed in the devbox: {reason}")


def quote_path(path: str) -> str:
    """Quote a path for the devbox's shell; commands start at the user's home, so `~` is `.`."""
    if path == "~" or path.startswith("~/"):
        path = "." + path[1:]
    return shlex.quote(path)
