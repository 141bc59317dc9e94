"""`benchyard baseline`: results under a name that later jobs are compared with."""

from collections.abc import Callable, Mapping, Sequence

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.subjects import find_subject
from benchyard.cli.options import checked_input
from benchyard.cli.render import age, output_option, show_many, wire
from benchyard.cli.render import show as show_data
from benchyard.cli.table import Narrow
from benchyard.client.client import Client
from benchyard.client.lookup import find_benchmark
from benchyard.client.plain_text import clean
from benchyard.errors import NotFound
from benchyard.models.reports.baselines import BaselineView

COLUMNS: Mapping[str, Callable[[BaselineView], object]] = {
    "NAME": lambda view: clean(view.name),
    "BENCHMARK": lambda view: clean(view.benchmark_name or view.benchmark_id or "-"),
    "AGENT": lambda view: clean(view.label),
    "JOB": lambda view: clean(view.job_name),
    "JOB ID": lambda view: view.job_id,
    "SET": lambda view: f"{age(view.set_time_ms)} ago{', deleted' if view.delete_time_ms else ''}",
}
NARROW = Narrow(shorten=["BENCHMARK", "AGENT", "JOB"], drop=["JOB ID"])
benchmark_option = click.option("--benchmark", metavar="ID|NAME", help="Only those of this benchmark.")


@click.group()
def baseline() -> None:
    """Name results that later jobs are compared with; each benchmark and agent has its own of a name.

    \b
      benchyard baseline set main my-job
      benchyard job gate today --against main
    """


@baseline.command("set")
@click.argument("name")
@click.argument("job", metavar="JOB[:AGENT]|RUN")
@output_option
def set_(name: str, job: str, output: str) -> None:
    """Keep a job's results under a name, in place of what had it: those of all its agents, or of one.

    A benchmark run that code of your own made is like a job with one agent. What a baseline names is not
    deleted, neither by hand nor for its age.

    \b
      benchyard baseline set main my-job
      benchyard baseline set main my-job:codex:gpt-5
      benchyard baseline set main bmj_31Yt...:0 -o json
      benchyard baseline set main bmr_4kY...
    """
    with connect() as client:
        found, agent = _job_and_agent(client, job)
        with checked_input():
            made = client.baselines.set(name, found, agent)
    if output != "text":
        show_data({"baselines": [wire(each) for each in made]}, output, "")
        return
    for each in made:
        click.echo(f"{each.name}  {_where(each)}: {each.job_id}  {clean(each.job_name)}")


@baseline.command("list")
@click.option("--name", help="Only those of this name.")
@benchmark_option
@click.option("--all", "show_all", is_flag=True, help="Also deleted ones.")
@output_option
def list_(name: str | None, benchmark: str | None, show_all: bool, output: str) -> None:
    """List baselines, newest first.

    \b
      benchyard baseline list
      benchyard baseline list --benchmark quickstart -o json
    """
    with connect() as client:
        found = _find(client, name, benchmark, deleted=show_all)
    show_many(
        found, output, COLUMNS, none="no baselines; make one with `benchyard baseline set`", narrow=NARROW
    )


@baseline.command("show")
@click.argument("name")
@benchmark_option
@output_option
def show_(name: str, benchmark: str | None, output: str) -> None:
    """Show which jobs have a name.

    \b
      benchyard baseline show main
      benchyard baseline show main --benchmark quickstart -o json
    """
    with connect() as client:
        found = _baselines_named(client, name, benchmark)
    show_many(found, output, COLUMNS, none="", narrow=NARROW)


@baseline.command()
@click.argument("name")
@benchmark_option
@click.option("--agent", metavar="AGENT[:MODEL]", help="Only that of this agent.")
def delete(name: str, benchmark: str | None, agent: str | None) -> None:
    """Delete the baselines of a name; their jobs stay.

    \b
      benchyard baseline delete main
      benchyard baseline delete main --benchmark quickstart --agent codex
    """
    with connect() as client:
        found = _baselines_named(client, name, benchmark)
        chosen = [each for each in found if agent in (None, each.agent_name, each.label, *_parts(each))]
        if not chosen:
            raise NotFound(f"baseline {name!r} has no agent {agent!r}; `benchyard baseline show` lists them")
        for each in chosen:
            client.baselines.delete(each.id)
            click.echo(f"{each.name}  {_where(each)}: deleted")


def _parts(view: BaselineView) -> tuple[str, ...]:
    return (view.agent_name.partition(":")[0],)


def _job_and_agent(client: Client, given: str) -> tuple[str, str | None]:
    """Return the id of a job or run and the agent after its colon; names of jobs may have colons too."""
    try:
        return find_subject(client, given).id, None
    except NotFound:
        name, colon, agent = given.partition(":")
        if not colon:
            raise
        return find_subject(client, name).id, agent


def _baselines_named(client: Client, name: str, benchmark: str | None) -> Sequence[BaselineView]:
    found = _find(client, name, benchmark, deleted=False)
    if not found:
        raise NotFound(f"there is no baseline {name!r}; `benchyard baseline list` shows those there are")
    return found


def _find(
    client: Client, name: str | None, benchmark: str | None, *, deleted: bool
) -> Sequence[BaselineView]:
    listed = (
        client.baselines.list(limit=1000, deleted=deleted, name=name)
        if name
        else client.baselines.list(limit=1000, deleted=deleted)
    )
    id = find_benchmark(client, benchmark).id if benchmark else None
    return [each for each in listed if id is None or each.benchmark_id == id]


def _where(view: BaselineView) -> str:
    benchmark = view.benchmark_name or view.benchmark_id
    return clean(f"{view.label} on {benchmark}" if benchmark else f"{view.label} without a benchmark")
