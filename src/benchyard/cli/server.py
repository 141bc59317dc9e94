"""`benchyard server`: manage this user's server: status, disk, backup, systemd unit, stop."""

import getpass
import importlib.metadata
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import click

from benchyard.cli.connection import connect, find_or_start
from benchyard.cli.options import age_in_days, confirm, yes_option
from benchyard.cli.progress import ByteMeter, spinner
from benchyard.cli.render import facts, output_option, print_table, show, show_many, size, when
from benchyard.cli.table import Narrow
from benchyard.client import servers
from benchyard.client.client import Client
from benchyard.client.operations import Server
from benchyard.client.plain_text import clean
from benchyard.client.servers import PAIRS, configured_server, recorded_pid, running_server
from benchyard.errors import BenchyardError, Conflict, ServerUnreachable, UsageError
from benchyard.hosts.data_folder import check_data_folder, delete_data_folder
from benchyard.models.jobs import ENDED_JOBS, BenchmarkJobView, JobState
from benchyard.models.removals import CollectedResultsView, RemovalView
from benchyard.settings import default_data_folder
from benchyard.store.backups import read_backup, write_backup

_MOST_NAMED = 10
_UNFINISHED = ",".join(state.value for state in JobState if state not in ENDED_JOBS)
_REMOVED: Mapping[str, Callable[[RemovalView], object]] = {
    "ID": lambda view: view.id,
    "KIND": lambda view: view.kind.replace("_", " "),
    "NAME": lambda view: view.name,
    "TRIALS": lambda view: view.n_trials or "",
    "RUNS": lambda view: view.n_scenario_runs,
    "SIZE": lambda view: size(view.size_bytes),
}
_NARROW = Narrow(shorten=["NAME"], drop=["RUNS", "TRIALS", "KIND"])


@click.command()
@output_option
def disk(output: str) -> None:
    """Show the disk space that the server uses, by kind.

    \b
      benchyard server disk
      benchyard server disk -o json
    """
    with connect() as client, spinner("looking at every file"):
        view = client.disk()
    if output != "text":
        show(view, output, "")
        return
    rows = [
        [kind.kind, size(kind.size_bytes), "" if kind.count is None else str(kind.count), kind.what]
        for kind in view.kinds
    ]
    rows.append(["total", size(view.total_bytes), "", f"{size(view.free_bytes)} free"])
    print_table(["KIND", "SIZE", "NUMBER", "WHAT"], rows, Narrow(drop=["WHAT", "NUMBER"]))
    click.echo(f"data folder: {clean(view.data)}", err=True)
    if not view.is_complete:
        click.echo("there are more files than were looked at: it is more than this", err=True)


@click.command()
@click.option(
    "--keep-results",
    type=age_in_days,
    metavar="AGE",
    help="How old results may be, such as 90d; the server's own limit if not given.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@yes_option
@output_option
def gc(keep_results: float | None, dry_run: bool, yes: bool, output: str) -> None:
    """Remove jobs and runs that ended longer ago, with all their files; pinned jobs stay.

    Images have a collection of their own: `benchyard image gc`.

    \b
      benchyard server gc --keep-results 90d --dry-run
      benchyard server gc --keep-results 90d --yes
      benchyard job pin baseline
    """
    with connect() as client:
        with spinner("looking for old results"):
            found = client.collect_results(keep_results, dry_run=True)
        if not dry_run and found.n_removed:
            if output == "text":
                _show_collected(found)
            confirm(f"Delete {_count_of_results(found.n_removed)} ({size(found.size_bytes)})?", yes=yes)
            with spinner("deleting"):
                found = client.collect_results(found.keep_days, dry_run=False)
    if output != "text":
        show(found, output, "")
    elif dry_run or not found.n_removed:
        _show_collected(found)
    else:
        click.echo(f"deleted {_count_of_results(found.n_removed)}, {size(found.size_bytes)}")


@click.command()
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="The data folder. Default: $BENCHYARD_DATA, else benchyard in your user data folder.",
)
@yes_option
def delete(data: Path | None, yes: bool) -> None:
    """Delete the data folder of a server that is stopped: every job, result, image, key and secret.

    Unlike `rm -r` it may remove the files that devboxes of an ordinary user made.

    \b
      benchyard devbox shutdown --all
      benchyard server stop
      benchyard server delete
    """
    folder = (data or default_data_folder(os.environ)).absolute()
    check_data_folder(folder)
    if running_server(folder) is not None:
        raise Conflict(f"a server runs on {folder}; stop it first with `benchyard server stop`")
    confirm(f"Delete {folder} with every job, result, image, key and secret in it?", yes=yes)
    with spinner(f"deleting {folder}"):
        delete_data_folder(folder)
    click.echo(f"deleted {folder}")


def tell_jobs(server: Server, *, yes: bool) -> None:
    """Tell which jobs run on a server that is about to stop; in a terminal, ask whether to go on."""
    try:
        with Client(server) as client:
            jobs = list(client.jobs.list(limit=_MOST_NAMED + 1, status=_UNFINISHED))
    except BenchyardError as error:
        # Stopping must work for a server that is too broken to answer.
        click.echo(f"which jobs run could not be asked: {error.message}", err=True)
        return
    if not jobs:
        return
    for line in running_jobs(jobs):
        click.echo(line, err=True)
    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        confirm("Stop the server all the same?", yes=False)


def running_jobs(jobs: list[BenchmarkJobView]) -> list[str]:
    """Return lines that name the jobs which continue at the next start."""
    lines = [f"  {clean(job.name)}  {job.state.value}  ({job.id})" for job in jobs[:_MOST_NAMED]]
    if len(jobs) > _MOST_NAMED:
        lines.append("  and more")
    many = f"{len(jobs)} jobs" if len(jobs) <= _MOST_NAMED else f"more than {_MOST_NAMED} jobs"
    head = "1 job is not over; it goes" if len(jobs) == 1 else f"{many} are not over; they go"
    return [f"{head} on at the next start:", *lines]


def _show_collected(found: CollectedResultsView) -> None:
    none = f"nothing ended more than {found.keep_days:g} days ago"
    show_many(found.removed, "text", _REMOVED, none=none, narrow=_NARROW)
    if found.n_removed > len(found.removed):
        click.echo(f"and {found.n_removed - len(found.removed)} more")
    if found.n_removed and found.dry_run:
        click.echo(f"would go: {_count_of_results(found.n_removed)}, {size(found.size_bytes)}")
    if found.n_pinned:
        pinned = "1 pinned job stays" if found.n_pinned == 1 else f"{found.n_pinned} pinned jobs stay"
        click.echo(pinned, err=True)
    if found.n_baselines:
        named = "1 job stays" if found.n_baselines == 1 else f"{found.n_baselines} jobs stay"
        click.echo(f"{named} because a baseline names it, see `benchyard baseline list`", err=True)


def _count_of_results(count: int) -> str:
    return "1 result" if count == 1 else f"{count} results"


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

    It holds the database with all results, objects, logs, secrets and keys. It does not hold images: those of
    blueprints are built again. Snapshots, final states and living devboxes are lost with their folder.
    Anybody who has the file has the keys.

    \b
      benchyard server backup benchyard-backup.tgz
      benchyard server backup - --data /srv/benchyard \\
          | ssh store "cat > backup.tgz"
    """
    folder = _folder(data)
    version = importlib.metadata.version("benchyard")
    if file == STANDARD:
        with ByteMeter("backup") as meter:
            made = write_backup(folder, sys.stdout.buffer, version, meter.add, database=not without_database)
        sys.stdout.buffer.flush()
        return
    if file.exists():
        raise UsageError(f"{file} is already there; name another file")
    part = file.with_name(f".{file.name}.part")
    try:
        with ByteMeter(str(file)) as meter, _private(part) as target:
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
    with ByteMeter(str(folder)) as meter:
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
    # Make a new file: an existing one, or a link, might let another user read the content.
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


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

    Arguments after `--` are given to `benchyard serve`.

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
    """Return the whole path of the running `benchyard`."""
    beside = Path(sys.executable).with_name("benchyard")
    found = str(beside) if beside.is_file() else shutil.which("benchyard")
    if found is None:
        raise UsageError("there is no `benchyard` on the PATH; install it, and run this command by its path")
    return str(Path(found).absolute())


def _quoted(word: str) -> str:
    """Quote a word for a command in a systemd unit: `%` and `$` stand for themselves."""
    if any(char in word for char in "\n\r\0"):
        raise UsageError(f"{word!r} cannot be part of a unit: it has a line break")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if not word or any(char in word for char in " \t;'\"\\") else escaped


data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Its data folder. Default: $BENCHYARD_DATA, else benchyard in your user data folder.",
)


@click.group()
def server() -> None:
    """Look after a server: see what runs, what it keeps, back it up, stop it.

    \b
      benchyard server status
      benchyard server disk
      eval "$(benchyard server env)"
      benchyard server stop
    """


for each in (delete, disk, gc, backup, restore, unit):
    server.add_command(each)


@server.command()
@data_option
@output_option
def status(data: Path | None, output: str) -> None:
    """Say whether a server runs, where, and which one commands use.

    \b
      benchyard server status
    """
    folder = (data or default_data_folder(os.environ)).absolute()
    configured = configured_server(os.environ)
    running = running_server(folder)
    found = {
        "status": "running" if running else "stopped",
        "url": running.url if running else None,
        "process": recorded_pid(folder) if running else None,
        "data": str(folder),
        "configured": configured.url if configured else None,
    }
    show({name: value for name, value in found.items() if value is not None}, output, facts(found))
    if running is None:
        raise click.exceptions.Exit(ServerUnreachable.exit_code)


@server.command()
@click.option(
    "--shell",
    type=click.Choice(["sh", "fish"]),
    default="sh",
    show_default=True,
    help="The shell to write for; sh is for bash and zsh too.",
)
@data_option
@output_option
def env(shell: str, data: Path | None, output: str) -> None:
    """Print the variables that lead SDKs and other programs to the server: its URL and key.

    They are those of this SDK and of the official one (runloop_api_client==1.32.0: 2.0 and later have no
    benchmarks). A server is started if none runs.
    Anyone who sees this output can use the server.

    \b
      eval "$(benchyard server env)"
      benchyard server env --shell fish | source
    """
    environ: Mapping[str, str] = os.environ
    if data is not None:
        configured = {name for pair in PAIRS for name in pair}
        environ = {name: value for name, value in os.environ.items() if name not in configured}
        environ = {**environ, "BENCHYARD_DATA": str(data.absolute())}
    found = find_or_start(environ)
    variables = {
        name: value for pair in PAIRS for name, value in zip(pair, (found.url, found.key), strict=True)
    }
    form = "set -gx {} {};" if shell == "fish" else "export {}={}"
    lines = [form.format(name, shlex.quote(value)) for name, value in variables.items()]
    if found.trusted:
        lines.append(f"# clients must trust its certificate: {found.trusted}")
    show(variables, output, "\n".join(lines))


@server.command()
@data_option
@yes_option
def stop(data: Path | None, yes: bool) -> None:
    """Stop the server; devboxes live on, and the next server takes them and its jobs up again.

    \b
      benchyard server stop
      benchyard server stop --yes
    """
    folder = (data or default_data_folder(os.environ)).absolute()
    running = running_server(folder)
    if running is not None:
        tell_jobs(running, yes=yes)
    pid = servers.stop_server(folder)
    click.echo(f"no server runs on {folder}" if pid is None else f"stopped (process {pid})", err=pid is None)
