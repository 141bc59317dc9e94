"""`benchyard server unit`: a service for systemd that runs `benchyard serve`."""

import getpass
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from benchyard.errors import UsageError
from benchyard.settings import default_data_folder

_STATE = Path("/var/lib/benchyard")
_UNIT = """\
# Made by `benchyard server unit`. {where}
[Unit]
Description=Benchyard: agents on benchmarks
After=network-online.target
Wants=network-online.target

[Service]
Type=exec
ExecStart={command}
{user}{state}Restart=on-failure
RestartSec=2
# Devboxes and the gateway are processes of their own that outlive the server: a stop or a restart
# must end the server's process only.
KillMode=process
TimeoutStopSec=60
# The server makes a cgroup for each devbox.
Delegate=yes
OOMPolicy=continue
LimitNOFILE=1048576
TasksMax=infinity
UMask=0077

[Install]
WantedBy={target}
"""


@click.command()
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Its data folder. Default: /var/lib/benchyard; with --user, that of your own server.",
)
@click.option(
    "--user", "for_user", is_flag=True, help="Write a unit for your own user's services (`systemctl --user`)."
)
@click.option("--run-as", metavar="USER", help="User that a service of the machine runs as. Default: you.")
@click.argument("options", nargs=-1, metavar="[-- SERVE-OPTIONS...]")
def unit(data: Path | None, for_user: bool, run_as: str | None, options: Sequence[str]) -> None:
    """Print a systemd unit that runs the server; devboxes outlive its restarts.

    What stands after `--` is given to `benchyard serve`.

    \b
      benchyard server unit | sudo tee /etc/systemd/system/benchyard.service
      benchyard server unit --user > ~/.config/systemd/user/benchyard.service
      benchyard server unit --data /srv/benchyard -- --host 0.0.0.0 \\
          --keep-results 90d
    """
    if for_user and run_as:
        raise click.UsageError("a service of yours runs as you; give either --user or --run-as")
    folder = data or (default_data_folder(os.environ) if for_user else _STATE)
    command = [_program(), "serve", "--data", str(folder.absolute()), *options]
    where = (
        "Save it as ~/.config/systemd/user/benchyard.service; `systemctl --user enable --now benchyard`,\n"
        "# `loginctl enable-linger` has it run while you are not logged in."
        if for_user
        else "Save it as /etc/systemd/system/benchyard.service; `systemctl enable --now benchyard`."
    )
    user = "" if for_user else f"User={run_as or getpass.getuser()}\n"
    target = "default.target" if for_user else "multi-user.target"
    # Only systemd may make that folder for a user who is not root.
    state = f"StateDirectory={_STATE.name}\nStateDirectoryMode=0700\n" if folder == _STATE else ""
    line = " ".join(map(_quoted, command))
    text = _UNIT.format(where=where, command=line, user=user, state=state, target=target)
    click.echo(text, nl=False)


def _program() -> str:
    """The `benchyard` that runs now, by its whole path."""
    beside = Path(sys.executable).with_name("benchyard")
    found = str(beside) if beside.is_file() else shutil.which("benchyard")
    if found is None:
        raise UsageError("there is no `benchyard` on the PATH; install it, and run this command by its path")
    return str(Path(found).absolute())


def _quoted(word: str) -> str:
    """A word as systemd reads it in a command: `%` and `$` stand for themselves."""
    if any(char in word for char in "\n\r\0"):
        raise UsageError(f"{word!r} cannot stand in a unit: it has a line's end in it")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if not word or any(char in word for char in " \t;'\"\\") else escaped
