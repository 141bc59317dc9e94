"""`benchyard scenario`: write, keep, check and delete scenarios."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

import click

from benchyard.cli.connection import connect
from benchyard.cli.lazy_group import Noun
from benchyard.cli.options import IntRange, confirm, yes_option
from benchyard.cli.render import age, output_option, show, show_many
from benchyard.cli.table import Narrow
from benchyard.client.listings import PAGE_SIZE
from benchyard.client.lookup import find_scenario
from benchyard.client.plain_text import clean
from benchyard.models.scenarios import ScenarioView

COLUMNS: Mapping[str, Callable[[ScenarioView], object]] = {
    "ID": lambda view: view.id,
    "NAME": lambda view: view.name,
    "REVISION": lambda view: view.revision,
    "ISOLATION": lambda view: view.isolation,
    "SCORERS": lambda view: ", ".join(scorer_types(view)),
    "AGE": lambda view: age(view.create_time_ms),
}
NARROW = Narrow(shorten=["NAME"], drop=["AGE", "REVISION", "SCORERS", "ISOLATION"])
_ELSEWHERE = {
    "export": "benchyard.cli.benchmark.scenario_files:export",
    "from-snapshot": "benchyard.cli.benchmark.scenario_files:from_snapshot",
    "history": "benchyard.cli.benchmark.trends:scenario_history",
    "new": "benchyard.cli.benchmark.scenario_files:new",
    "pull": "benchyard.cli.benchmark.scenario_files:pull",
    "push": "benchyard.cli.benchmark.scenario_files:push",
    "show": "benchyard.cli.benchmark.show:show_scenario_command",
    "validate": "benchyard.cli.benchmark.scenario_files:validate",
}


@click.group(cls=Noun, places=_ELSEWHERE)
def scenario() -> None:
    """Write, keep and check scenarios: a problem, a devbox, and how the result is graded.

    \b
      benchyard scenario new my-task
      benchyard scenario validate my-task
      benchyard scenario push my-task
    """


@scenario.command()
@click.argument("given", nargs=-1, required=True, metavar="ID|NAME...")
@yes_option
@output_option
def delete(given: Sequence[str], yes: bool, output: str) -> None:
    """Delete scenarios that no benchmark has; runs keep the revision they began with.

    `benchyard scenario archive` only hides them.

    \b
      benchyard scenario delete my-task
    """
    with connect() as client:
        views = [find_scenario(client, each) for each in given]
        named = ", ".join(f"{clean(view.name)!r}" for view in views)
        confirm(f"Delete {'scenario' if len(views) == 1 else 'scenarios'} {named}?", yes=yes)
        for view in views:
            show(client.scenarios.delete(view.id), output, f"{clean(view.name)}  deleted")


@scenario.command("list")
@click.option("--public", is_flag=True, help="List those that come with the server.")
@click.option("--search", help="Only those with this in their name.")
@click.option("--limit", type=IntRange(min=1), default=100, show_default=True, help="List at most this many.")
@output_option
def list_(public: bool, search: str | None, limit: int, output: str) -> None:
    """List scenarios, newest first.

    \b
      benchyard scenario list
      benchyard scenario list --public --search bug -o json
    """
    with connect() as client:
        found = client.scenarios.list_public if public else client.scenarios.list
        size = min(limit, PAGE_SIZE)
        every = found(search=search, limit=size) if search else found(limit=size)
        show_many(
            islice(every, limit),
            output,
            COLUMNS,
            none="no scenarios; make one with `benchyard scenario new`",
            narrow=NARROW,
        )


@scenario.command()
@click.argument("given", nargs=-1, required=True, metavar="ID|NAME...")
def archive(given: Sequence[str]) -> None:
    """Hide scenarios from lists; they cannot be run or changed any more.

    \b
      benchyard scenario archive my-task
    """
    with connect() as client:
        for view in [find_scenario(client, each) for each in given]:
            client.scenarios.archive(view.id)
            click.echo(f"{view.id}  archived")


def scorer_types(view: ScenarioView) -> list[str]:
    """Return the types of the scorers of a scenario, as people name them."""
    functions = view.scoring_contract.scoring_function_parameters
    return [str(function.scorer.get("type", "")).removesuffix("_scorer") for function in functions]
