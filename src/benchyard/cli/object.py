"""`benchyard object`: store files on the server."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.names import find_job
from benchyard.cli.options import IntRange, checked_input, confirm, name_values, yes_option
from benchyard.cli.progress import ByteMeter
from benchyard.cli.render import age, facts, output_option, pairs, show, show_many, size, when
from benchyard.cli.table import Narrow
from benchyard.client.bodies import Source, size_of
from benchyard.client.client import Client
from benchyard.client.plain_text import clean
from benchyard.client.resources.objects import Origin
from benchyard.errors import UsageError
from benchyard.models.base import RenameRequest
from benchyard.models.jobs import Artifact
from benchyard.models.objects import ContentType, ObjectRequest, ObjectView
from benchyard.models.runs import RUN_KEY

STANDARD = Path("-")
COLUMNS: Mapping[str, Callable[[ObjectView], object]] = {
    "ID": lambda view: view.id,
    "NAME": lambda view: view.name,
    "TYPE": lambda view: view.content_type,
    "STATE": lambda view: view.state.value,
    "SIZE": lambda view: size(view.size_bytes),
    "AGE": lambda view: age(view.create_time_ms),
}
_OF_JOB: Mapping[str, Callable[[Artifact], object]] = {
    "ID": lambda view: view.object_id,
    "NAME": lambda view: view.name,
    "TRIAL": lambda view: view.trial_id,
    "RUN": lambda view: view.scenario_run_id,
    "SIZE": lambda view: size(view.size_bytes),
}
NARROW = Narrow(shorten=["NAME"], drop=["AGE", "STATE", "RUN", "TRIAL"])
TYPES: Mapping[str, ContentType] = {
    ".tar.gz": "tgz",
    ".tgz": "tgz",
    ".tar": "tar",
    ".gz": "gzip",
    ".txt": "text",
    ".md": "text",
    ".json": "text",
    ".yaml": "text",
}


@click.group("object")
def object_() -> None:
    """Store files on the server.

    \b
      benchyard object upload data.tgz
      benchyard object download obj_... data.tgz
    """


@object_.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@click.option("--name", help="What to call it; the file's own name if not given.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="A label; repeatable.")
@click.option(
    "--ttl", type=IntRange(min=1), metavar="SECONDS", help="Delete the object after this many seconds."
)
@output_option
def upload(path: Path, name: str | None, metadata: Sequence[str], ttl: int | None, output: str) -> None:
    """Store a file, or standard input with `-`.

    \b
      benchyard object upload data.tgz --metadata for=tests
      git archive HEAD | benchyard object upload - --name source.tar
    """
    if path == STANDARD and not name:
        raise UsageError("standard input has no name; give it one with --name")
    called = name or path.name
    labels = name_values(metadata, "--metadata") or None
    with checked_input():
        request = ObjectRequest(
            name=called,
            content_type=content_type(called),
            metadata=labels,
            ttl_ms=ttl * 1000 if ttl else None,
        )
    source: Source = sys.stdin.buffer if path == STANDARD else path
    with connect() as client, ByteMeter(called, size_of(source)) as meter:
        view = client.objects.upload(source, request, meter.add)
    show(view, output, f"{view.id}  {size(view.size_bytes)}")


@object_.command()
@click.argument("id")
@click.argument("path", required=False, type=click.Path(path_type=Path, allow_dash=True))
def download(id: str, path: Path | None) -> None:
    """Fetch an object into a file, or to standard output with `-`.

    \b
      benchyard object download obj_... data.tgz
      benchyard object download obj_... - | tar tz
    """
    with connect() as client:
        target = path or Path(client.objects.get(id).name.rpartition("/")[2] or id)
        if path is None and target.exists():
            raise UsageError(f"{target} is already here; name the file to write")
        with ByteMeter(str(target)) as meter:
            if target == STANDARD:
                client.objects.download(id, sys.stdout.buffer, meter.add)
                sys.stdout.buffer.flush()
            else:
                client.objects.download(id, target, meter.add)
                click.echo(str(target), err=True)


@object_.command("list")
@click.option("--name", help="Only those of this name.")
@click.option("--all", "show_all", is_flag=True, help="Also list what is kept with runs and trials.")
@click.option("--of", "job", metavar="JOB", help="List what is kept with the trials of this job.")
@click.option("--limit", type=IntRange(min=1), default=100, show_default=True, help="List at most this many.")
@output_option
def list_(name: str | None, show_all: bool, job: str | None, limit: int, output: str) -> None:
    """List uploaded objects, newest first; logs and traces of runs only with --all or --of.

    \b
      benchyard object list
      benchyard object list --of my-job
      benchyard object list --all --name trajectory.json
    """
    if job is not None and show_all:
        raise click.UsageError("give either --all or --of JOB, not both")
    with connect() as client:
        if job is not None:
            found = list(islice(_of_job(client, job, name), limit))
            show_many(found, output, _OF_JOB, none="nothing is kept with its trials", narrow=NARROW)
            return
        origin: Origin | None = None if show_all else "users"
        show_many(client.objects.list(name, limit, origin), output, COLUMNS, none="no objects", narrow=NARROW)
        hidden = 0 if show_all or output != "text" else client.objects.count(name, "runs")
    if hidden:
        told = "1 object of a run is not shown" if hidden == 1 else f"{hidden} objects of runs are not shown"
        click.echo(f"{told}; see `object list --all`, or `--of JOB`", err=True)


def _of_job(client: Client, given: str, name: str | None) -> Iterator[Artifact]:
    job_id = find_job(client, given, scenarios=False).id
    after = None
    while True:
        page = client.jobs.artifacts(job_id, after)
        yield from (each for each in page.artifacts if name in (None, each.name))
        after = page.last_trial_id
        if not page.has_more:
            return


@object_.command("show")
@click.argument("id")
@output_option
def show_(id: str, output: str) -> None:
    """Show one object.

    \b
      benchyard object show obj_...
    """
    with connect() as client:
        view = client.objects.get(id)
    described = {
        "id": view.id,
        "name": view.name,
        "type": view.content_type,
        "state": view.state.value,
        "size": size(view.size_bytes),
        "created": when(view.create_time_ms),
        "removed after": when(view.delete_after_time_ms),
        "metadata": pairs(view.metadata),
    }
    show(view, output, facts(described))


@object_.command()
@click.argument("id", metavar="ID")
@click.argument("name", metavar="NEW-NAME")
@output_option
def rename(id: str, name: str, output: str) -> None:
    """Give an object another name; files that are kept with a run cannot be renamed.

    \b
      benchyard object rename obj_... data-2026.tgz
    """
    with checked_input():
        RenameRequest(name=name)
    with connect() as client:
        view = client.objects.rename(id, name)
    show(view, output, f"{view.id}  {clean(view.name)}")


@object_.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@yes_option
def delete(ids: Sequence[str], yes: bool) -> None:
    """Remove objects.

    \b
      benchyard object delete obj_...
    """
    with connect() as client:
        of_runs = [id for id in ids if RUN_KEY in client.objects.get(id).metadata]
        if of_runs:
            confirm(f"{', '.join(of_runs)}: kept with a run, whose logs will miss it. Delete it?", yes=yes)
        for id in ids:
            client.objects.delete(id)
            click.echo(f"{id}  deleted")


def content_type(name: str) -> ContentType:
    """Return the type of a file's content, guessed from its ending."""
    for suffix, kind in TYPES.items():
        if name.endswith(suffix):
            return kind
    return "binary"
