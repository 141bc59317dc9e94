"""`benchyard run`: scenario runs and benchmark runs, mainly those that were made through the SDK."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click
from pydantic import Field

from benchyard.cli.connection import connect, connect_async
from benchyard.cli.job.logs import fetch_logs
from benchyard.cli.job.summary import conditions_once
from benchyard.cli.options import IntRange, checked_input, confirm, yes_option
from benchyard.cli.render import (
    age,
    duration,
    facts,
    marked_score,
    output_option,
    pairs,
    print_paged,
    score_text,
    show,
    show_many,
    show_removed,
    size,
    table_lines,
    when,
    wire,
)
from benchyard.cli.run.report import (
    EXCERPT,
    RunDetails,
    StepSelection,
    fetch_details,
    spending,
    steps_options,
    traces_of,
    trajectory_lines,
)
from benchyard.cli.table import Narrow
from benchyard.client.client import Client
from benchyard.client.lookup import SHOWN, find_benchmark, find_scenario
from benchyard.client.plain_text import clean
from benchyard.errors import NotFound, UsageError
from benchyard.models.base import Model, RenameRequest
from benchyard.models.jobs import JOB_KEY, TRIAL_KEY
from benchyard.models.runs import (
    ENDED_RUNS,
    BenchmarkRunView,
    RunState,
    ScenarioRunView,
)
from benchyard.models.trials import NEARLY_PASSED

PAGE = 100
_MOST_NAMED = 5
_MOST_CHILDREN = 1000
_ALL = StepSelection()
_BENCHMARK_RUN_STATES = ("running", "canceled", "completed", "failed")
_SPELLED = {"cancelled": "canceled"}


class RunRow(Model):
    """A run of either kind, as a list shows it."""

    id: str
    kind: str
    """`scenario` or `benchmark`."""
    name: str | None = None
    of_id: str
    of: str
    """Name of the scenario or benchmark that was run."""
    state: str
    score: float | None = None
    n_suspect: int = 0
    """Scores that may not be earned: 1 for a suspect scenario run, their number for a benchmark run."""
    suspicions: list[str] = Field(default_factory=list)
    """Reasons of a scenario run."""
    start_time_ms: int
    duration_ms: int | None = None
    benchmark_run_id: str | None = None
    job_id: str | None = None


COLUMNS: Mapping[str, Callable[[RunRow], object]] = {
    "ID": lambda row: row.id,
    "NAME": lambda row: row.name,
    "KIND": lambda row: row.kind,
    "OF": lambda row: row.of,
    "STATE": lambda row: row.state,
    "SCORE": lambda row: marked_score(row.score, is_suspect=row.n_suspect > 0),
    "DURATION": lambda row: duration(row.duration_ms),
    "AGE": lambda row: age(row.start_time_ms),
}
NARROW = Narrow(shorten=["NAME", "OF"], drop=["DURATION", "KIND", "AGE", "NAME"])


@click.group()
def run() -> None:
    """Look at scenario runs and benchmark runs, such as code of your own makes through the SDK.

    Runs that belong to jobs are trials: see `benchyard trial`.

    \b
      benchyard run list
      benchyard run show my-run
    """


@run.command("list")
@click.option("--kind", type=click.Choice(["scenario", "benchmark"]), help="Only runs of this kind.")
@click.option("--scenario", metavar="ID|NAME", help="Only runs of this scenario.")
@click.option("--benchmark", metavar="ID|NAME", help="Only runs of this benchmark.")
@click.option("--of", "parent", metavar="RUN", help="Only the scenario runs of this benchmark run.")
@click.option("--state", help="Only those in this state, such as running or completed.")
@click.option("--search", metavar="TEXT", help="Only those with this in their name.")
@click.option(
    "--all", "show_all", is_flag=True, help="Also those of jobs, and scenario runs of benchmark runs."
)
@click.option("--limit", type=IntRange(min=1), default=50, show_default=True, help="List at most this many.")
@output_option
def list_(
    kind: str | None,
    scenario: str | None,
    benchmark: str | None,
    parent: str | None,
    state: str | None,
    search: str | None,
    show_all: bool,
    limit: int,
    output: str,
) -> None:
    """List runs, newest first.

    Runs of jobs, and scenario runs that belong to a benchmark run, are left out unless they are asked for.

    \b
      benchyard run list
      benchyard run list --kind benchmark --state running
      benchyard run list --of my-benchmark-run
      benchyard run list --scenario quickstart/fix-a-bug --all -o json
    """
    word = _state(state, kind)
    with connect() as client:
        filters: dict[str, Any] = {"state": word, "search": search, "own": not show_all}
        found: list[RunRow] = []
        of_scenarios = {"scenario_id": find_scenario(client, scenario).id if scenario else None}
        if parent is not None:
            of_scenarios["benchmark_run_id"] = _benchmark_run(client, parent).id
            filters["own"] = False
        names = _Names(client)
        if kind != "benchmark" and benchmark is None and word in (None, *RunState):
            listed = client.scenarios.runs.list(limit=min(limit, PAGE), **_given({**filters, **of_scenarios}))
            found += [_scenario_row(each, names) for each in islice(listed, limit)]
        if kind != "scenario" and not scenario and not parent and word in (None, *_BENCHMARK_RUN_STATES):
            id = find_benchmark(client, benchmark).id if benchmark else None
            several = client.benchmark_runs.list(
                limit=min(limit, PAGE), **_given({**filters, "benchmark_id": id})
            )
            found += [_benchmark_row(each, names) for each in islice(several, limit)]
    found.sort(key=lambda row: -row.start_time_ms)
    none = "no runs; code of your own makes them, `run list --all` has those of jobs, `job run` makes a job"
    show_many(found[:limit], output, COLUMNS, none=none, narrow=NARROW)


@run.command("show")
@click.argument("given", metavar="ID|NAME")
@steps_options
@output_option
def show_(given: str, steps: StepSelection | None, full: bool, output: str) -> None:
    """Show one run: its score and why, scorers, the last commands and the trajectory.

    For a benchmark run, show its scenario runs. -o json has everything, the whole trajectory included.

    \b
      benchyard run show my-run
      benchyard run show scr_4kY... --steps 5
      benchyard run show my-benchmark-run -o json
    """
    with connect() as client:
        found = _find_run(client, given)
        names = _Names(client)
        if isinstance(found, BenchmarkRunView):
            children = list(islice(client.benchmark_runs.list_scenario_runs(found.id), _MOST_CHILDREN))
            data = {**wire(found), "scenario_runs": [wire(each) for each in children]}
            lines = _benchmark_lines(found, children, names)
        else:
            with_all = full or output != "text"
            details = fetch_details(
                client,
                found,
                full=with_all,
                most_commands=100 if with_all else 3,
                of_agent=TRIAL_KEY in found.metadata,
            )
            data = {**wire(found), **details.data("executions")}
            wanted = steps or (_ALL if full else EXCERPT)
            lines = _scenario_lines(details, names, wanted, full=full)
        text = [] if output != "text" else list(lines)
    if output != "text":
        show(data, output, "")
    elif steps or full:
        print_paged(iter(text))
    else:
        click.echo("\n".join(text))


@run.command()
@click.argument("given", metavar="ID|NAME")
@click.option(
    "-o",
    "--output-dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write to. Default: run-logs-ID.",
)
def logs(given: str, folder: Path | None) -> None:
    """Fetch the logs of a run: the run as JSON, the output of devbox and scorers, and the traces.

    For a benchmark run, each of its scenario runs has a folder of its own.

    \b
      benchyard run logs my-run
      benchyard run logs bmr_4kY... -o logs
    """
    with connect() as client:
        found = _find_run(client, given)
        target = folder if folder is not None else Path(f"run-logs-{found.id}")
        if isinstance(found, BenchmarkRunView):
            children = client.benchmark_runs.list_scenario_runs(found.id)
            places = {each.id: target / each.id for each in children}
        else:
            places = {found.id: target}
    asyncio.run(_fetch(places))
    click.echo(f"{target}  {len(places)} scenario run{'' if len(places) == 1 else 's'}")


@run.command()
@click.argument("given", nargs=-1, required=True, metavar="ID|NAME...")
@output_option
def cancel(given: Sequence[str], output: str) -> None:
    """End runs without a score, and their devboxes; a benchmark run ends its scenario runs.

    \b
      benchyard run cancel my-run
      benchyard run cancel bmr_4kY...
    """
    with connect() as client:
        meant = [_find_run(client, each) for each in given]
        for each in meant:
            if TRIAL_KEY in each.metadata or JOB_KEY in each.metadata:
                job_id = each.metadata.get(JOB_KEY, "JOB")
                raise UsageError(
                    f"{each.id} belongs to a job; `benchyard job cancel {clean(job_id)}` ends that"
                )
        ended = [
            client.benchmark_runs.cancel(each.id)
            if isinstance(each, BenchmarkRunView)
            else client.scenarios.runs.cancel(each.id)
            for each in meant
        ]
    if output != "text":
        show_many(ended, output, {})
    for view in ended if output == "text" else []:
        click.echo(f"{view.id}  {_word(view.state)}")


@run.command()
@click.argument("given", metavar="ID|NAME")
@click.argument("name", metavar="NEW-NAME")
@output_option
def rename(given: str, name: str, output: str) -> None:
    """Give a run another name; runs of a job have theirs from the job.

    \b
      benchyard run rename bmr_4kY... nightly
    """
    with checked_input():
        RenameRequest(name=name)
    with connect() as client:
        meant = _find_run(client, given)
        runs = client.benchmark_runs if isinstance(meant, BenchmarkRunView) else client.scenarios.runs
        view = runs.rename(meant.id, name)
    show(view, output, f"{view.id}  {clean(view.name or '')}")


@run.command()
@click.argument("given", nargs=-1, required=True, metavar="ID|NAME...")
@yes_option
@output_option
def delete(given: Sequence[str], yes: bool, output: str) -> None:
    """Delete runs that have ended, with their logs, traces and final states; a benchmark run with its runs.

    \b
      benchyard run delete my-run
      benchyard run delete bmr_4kY... --yes
    """
    with connect() as client:
        meant = [_find_run(client, each) for each in given]
        for each in meant:
            if JOB_KEY in each.metadata:
                job_id = clean(each.metadata[JOB_KEY])
                raise UsageError(f"{each.id} belongs to a job; `benchyard job delete {job_id}` deletes that")
        what = "1 run" if len(meant) == 1 else f"{len(meant)} runs"
        confirm(f"Delete {what} ({', '.join(each.id for each in meant[:SHOWN])}) with all files?", yes=yes)
        for each in meant:
            runs = client.benchmark_runs if isinstance(each, BenchmarkRunView) else client.scenarios.runs
            show_removed(runs.delete(each.id), output)


async def _fetch(places: Mapping[str, Path]) -> None:
    async with connect_async() as client:
        for id, folder in places.items():
            folder.mkdir(parents=True, exist_ok=True)
            await fetch_logs(client, id, folder)


class _Names:
    """Names of scenarios and benchmarks, each requested once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, str] = {}

    def scenario(self, id: str) -> str:
        """Return the name of a scenario; its id if it is deleted."""
        return self._name(id, self._client.scenarios.retrieve)

    def benchmark(self, id: str) -> str:
        """Return the name of a benchmark; its id if it is deleted. A job over single scenarios has none."""
        return self._name(id, self._client.benchmarks.retrieve)

    def _name(self, id: str, look_up: Callable[[str], Any]) -> str:
        if not id:
            return "(single scenarios)"
        if id not in self._known:
            try:
                self._known[id] = look_up(id).name
            except NotFound:
                self._known[id] = id
        return self._known[id]


def _find_run(client: Client, given: str) -> ScenarioRunView | BenchmarkRunView:
    """Return the run of that id; else the newest of that name."""
    for look_up in (client.scenarios.runs.retrieve, client.benchmark_runs.retrieve):
        try:
            return look_up(given)
        except NotFound:
            continue
    found: list[ScenarioRunView | BenchmarkRunView] = [
        *islice(client.scenarios.runs.list(name=given, limit=1), 1),
        *islice(client.benchmark_runs.list(name=given, limit=1), 1),
    ]
    if not found:
        raise NotFound(f"no run has the id or name {given!r}; `benchyard run list --all` shows all")
    newest = max(found, key=lambda each: each.start_time_ms)
    if isinstance(newest, BenchmarkRunView):
        return client.benchmark_runs.retrieve(newest.id)
    return client.scenarios.runs.retrieve(newest.id)


def _benchmark_run(client: Client, given: str) -> BenchmarkRunView:
    try:
        return client.benchmark_runs.retrieve(given)
    except NotFound:
        for each in client.benchmark_runs.list(name=given, limit=1):
            return each
    raise NotFound(
        f"no benchmark run has the id or name {given!r}; see `benchyard run list --kind benchmark`"
    )


def _state(given: str | None, kind: str | None) -> str | None:
    if given is None:
        return None
    word = _SPELLED.get(given.lower(), given.lower())
    known = {each.value for each in RunState} if kind != "benchmark" else set(_BENCHMARK_RUN_STATES)
    if word not in known:
        raise UsageError(f"{given!r} is not a state of a run; known are {', '.join(sorted(known))}")
    return word


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, False)}


def _scenario_row(view: ScenarioRunView, names: _Names) -> RunRow:
    result = view.scoring_contract_result
    return RunRow(
        id=view.id,
        kind="scenario",
        name=view.name,
        of_id=view.scenario_id,
        of=names.scenario(view.scenario_id),
        state=_word(view.state),
        score=result.score if result else None,
        n_suspect=int(result is not None and result.is_suspect),
        suspicions=result.suspicions if result else [],
        start_time_ms=view.start_time_ms,
        duration_ms=view.duration_ms,
        benchmark_run_id=view.benchmark_run_id,
        job_id=view.metadata.get(JOB_KEY),
    )


def _benchmark_row(view: BenchmarkRunView, names: _Names) -> RunRow:
    return RunRow(
        id=view.id,
        kind="benchmark",
        name=view.name,
        of_id=view.benchmark_id,
        of=names.benchmark(view.benchmark_id),
        state=_word(view.state),
        score=view.score,
        n_suspect=view.n_suspect,
        start_time_ms=view.start_time_ms,
        duration_ms=view.duration_ms,
        job_id=view.metadata.get(JOB_KEY),
    )


def _scenario_lines(
    details: RunDetails, names: _Names, wanted: StepSelection, *, full: bool
) -> Iterator[str]:
    view = details.run
    result = view.scoring_contract_result
    scenario = view.scenario.name if view.scenario else names.scenario(view.scenario_id)
    job_id, trial_id = view.metadata.get(JOB_KEY), view.metadata.get(TRIAL_KEY)
    yield from facts(
        {
            "run": view.id,
            "name": view.name,
            "scenario": f"{scenario} (revision {view.scenario_revision})",
            "benchmark run": view.benchmark_run_id,
            "job": job_id,
            "trial": trial_id,
            "state": _word(view.state),
            "result": _result(view),
            "score": score_text(result.score) if result else None,
            "why": view.failure_reason or (result and (result.answer_failure or result.scorer_note)),
            "suspect": "; ".join(result.suspicions) if result else None,
            "rewards": ", ".join(f"{key} {value:.3g}" for key, value in result.rewards.items())
            if result
            else None,
            **spending(view.usage or {}),
            "isolation": f"{result.isolation} ({result.isolation_reason or 'not said why'})"
            if result
            else None,
            "network": f"scorers {result.network}" if result and result.network else None,
            "meanwhile": "; ".join(conditions_once(result.conditions)) if result else None,
            "devbox": view.devbox_id,
            "started": when(view.start_time_ms),
            "took": duration(view.duration_ms),
            "rescoring": view.rescoring_failure,
            "final state": _final_state(view),
            "files": ", ".join(each.name for each in view.traces),
            "metadata": pairs(view.metadata),
        }
    ).splitlines()
    if not full and not wanted.is_excerpt:
        yield from trajectory_lines(details.trajectory or "there is none", traces_of(view), wanted)
        return
    yield from details.lines("agent" if trial_id else "command", wanted, full=full)
    yield ""
    yield "next"
    yield f"  benchyard run logs {view.id}"
    if trial_id:
        yield f"  benchyard trial show {clean(trial_id)}"
    elif view.state not in ENDED_RUNS:
        yield f"  benchyard devbox shell {view.devbox_id}"
        yield f"  benchyard run cancel {view.id}"


def _benchmark_lines(
    view: BenchmarkRunView, children: Sequence[ScenarioRunView], names: _Names
) -> Iterator[str]:
    pending = view.pending_scenarios or []
    job_id = view.metadata.get(JOB_KEY)
    yield from facts(
        {
            "run": view.id,
            "name": view.name,
            "benchmark": f"{names.benchmark(view.benchmark_id)} (revision {view.benchmark_revision})",
            "job": job_id,
            "state": _word(view.state),
            "score": None if view.score is None else score_text(view.score),
            "scenario runs": len(children) if len(children) < _MOST_CHILDREN else f"over {_MOST_CHILDREN}",
            "not begun": f"{len(pending)}: {', '.join(map(names.scenario, pending[:_MOST_NAMED]))}"
            + (", ..." if len(pending) > _MOST_NAMED else "")
            if pending
            else None,
            "started": when(view.start_time_ms),
            "took": duration(view.duration_ms),
            "metadata": pairs(view.metadata),
        }
    ).splitlines()
    if children:
        rows = [[clean(cell) for cell in _child(each, names)] for each in children]
        titles = ["SCENARIO", "STATE", "RESULT", "SCORE", "DURATION", "ID", "WHY"]
        yield ""
        yield from table_lines(titles, rows, Narrow(["SCENARIO"], ["DURATION", "STATE", "WHY"]))
    yield ""
    yield "next"
    yield f"  benchyard run logs {view.id}"
    if job_id:
        yield f"  benchyard job summary {clean(job_id)} -e"
    elif view.state == "running":
        yield f"  benchyard run cancel {view.id}"
    if children:
        worst = min(children, key=_child_score)
        yield f"  benchyard run show {worst.id}"


def _child(view: ScenarioRunView, names: _Names) -> list[object]:
    result = view.scoring_contract_result
    why = view.failure_reason or (result.answer_failure or result.scorer_note if result else None)
    return [
        names.scenario(view.scenario_id),
        _word(view.state),
        _result(view) or "",
        score_text(result.score if result else None),
        duration(view.duration_ms),
        view.id,
        (why or "")[:300],
    ]


def _child_score(view: ScenarioRunView) -> float:
    return view.scoring_contract_result.score if view.scoring_contract_result else -1.0


def _result(view: ScenarioRunView) -> str | None:
    """Return the outcome in a word; None while a score may still come."""
    result = view.scoring_contract_result
    if result is None:
        return "unscored" if view.state in ENDED_RUNS else None
    if any(each.state == "error" for each in result.scoring_function_results):
        return "unscored"
    word = "passed" if result.score >= NEARLY_PASSED else "not passed"
    return f"{word}, suspect" if result.is_suspect else word


def _final_state(view: ScenarioRunView) -> str | None:
    if view.final_state is not None:
        return f"kept ({size(view.final_state.size_bytes)}): it can be scored again"
    return view.final_state_gone


def _word(state: str) -> str:
    """Return a state in the spelling of the command line."""
    return "cancelled" if state == "canceled" else str(state)
