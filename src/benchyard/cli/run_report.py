"""A scenario run as text for people: scorers, commands, trajectory, spending and the tamper report."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from benchyard.cli.render import LONGEST_LINE, clean, clean_lines, duration, hanging, size, table_lines
from benchyard.cli.table import Narrow
from benchyard.cli.trajectory import Wanted, lines_of, size_of, step_range
from benchyard.models.runs import (
    ContractResult,
    RunExecution,
    RunExecutionListView,
    ScenarioRunView,
    ScorerResult,
    Trace,
)
from benchyard.models.tampering import ChangedFile, TamperReport

SCORER_LINES = 15
COMMAND_LINES = 20
LONGEST_EXCERPT = 240
"""What is shown of an output unless all is asked for."""
MOST_FILES = 10
EXCERPT = Wanted(is_excerpt=True)
_MOST_LINES = 1000
_PARTS = {
    "in": ("input_tokens", "total_prompt_tokens"),
    "out": ("output_tokens", "total_completion_tokens"),
    "cached": ("cached_tokens", "total_cached_tokens"),
}
_COST = ("cost_usd", "total_cost_usd")
"""As the gateway counts, and as an agent tells by itself."""


def steps_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--steps` and `--full`, for commands that show a trajectory."""
    steps = click.option(
        "--steps",
        callback=step_range,
        metavar="A-B|N",
        help="Whole steps of the trajectory: 3-10, 12-, or the last N.",
    )
    full = click.option("--full", is_flag=True, help="All of the trajectory and of every output.")
    return steps(full(command))


def traces_of(run: ScenarioRunView) -> list[Trace]:
    """The trajectories among the traces of a run, the first first."""
    return [each for each in run.traces if each.kind == "atif"]


def lines_wanted(*, full: bool) -> int:
    """How many lines of each command to ask the server for."""
    return _MOST_LINES if full else COMMAND_LINES


def scorer_lines(result: ContractResult, *, full: bool) -> Iterator[str]:
    """Each scorer with its weight and score, and then what each said."""
    rows = [
        [
            clean(each.scoring_function_name),
            f"{each.weight:g}",
            f"{each.score:.3f}" + (" suspect" if each.suspect else ""),
            "it broke" if each.state == "error" else "",
            duration(each.duration_ms),
            clean(each.reason or each.suspect),
        ]
        for each in result.scoring_function_results
    ]
    titles = ["SCORER", "WEIGHT", "SCORE", "STATE", "TOOK", "WHY"]
    kept = [at for at, title in enumerate(titles) if at < 3 or any(row[at] for row in rows)]
    yield ""
    yield from table_lines(
        [titles[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
        Narrow(["SCORER"], ["TOOK", "STATE"]),
    )
    for each in result.scoring_function_results:
        yield from _scorer(each, full=full)


def _scorer(result: ScorerResult, *, full: bool) -> Iterator[str]:
    lines = clean_lines(result.output, _longest(full=full))
    if lines:
        yield ""
        yield from _ending(
            f"scorer {clean(result.scoring_function_name)} said", lines, SCORER_LINES, full=full
        )
    for name, value in list(result.facts.items())[: None if full else MOST_FILES]:
        yield f"  {clean(name)}: {clean(value)[:500]}"


def command_lines(found: RunExecutionListView, what: str, *, full: bool) -> Iterator[str]:
    """The end of what each of the commands printed."""
    if not found.executions:
        return
    if found.total_count > len(found.executions):
        yield f"\nthe last {len(found.executions)} of {found.total_count} commands"
    for each in found.executions:
        yield from _command(each, what, full=full)


def _command(execution: RunExecution, what: str, *, full: bool) -> Iterator[str]:
    name = what if what != "command" else f"command {clean(execution.execution_id)}"
    ended = "still runs" if execution.status != "completed" else f"exit status {execution.exit_status}"
    length = execution.end_time_ms - execution.start_time_ms if execution.end_time_ms else None
    told = ", ".join(part for part in (ended, duration(length), clean(execution.hint)) if part)
    yield ""
    if not execution.stdout_bytes and not execution.stderr_bytes:
        yield from hanging(f"{name}: {told}; it printed nothing", 2)
        return
    for stream, text, amount in (
        ("stdout", execution.stdout, execution.stdout_bytes),
        ("stderr", execution.stderr, execution.stderr_bytes),
    ):
        if amount:
            is_cut = len(text.encode()) < amount
            head = f"{name}, {'the end of ' if is_cut else ''}{stream} ({size(amount)}; {told})"
            yield from _ending(head, clean_lines(text, _longest(full=full)), COMMAND_LINES, full=full)


def trajectory_lines(
    trajectory: Mapping[str, Any] | str, traces: Sequence[Trace], wanted: Wanted
) -> Iterator[str]:
    """A trajectory, or why there is none to be shown."""
    yield ""
    if isinstance(trajectory, str):
        yield f"trajectory: {clean(trajectory)}"
        return
    more = "" if len(traces) == 1 else f"; also kept: {', '.join(clean(each.name) for each in traces[1:])}"
    yield f"trajectory ({size_of(trajectory)}{more})"
    yield from lines_of(trajectory, wanted)
    if wanted.is_excerpt:
        yield "  (texts are cut short; --steps N, --steps A-B and --full show them whole)"


def spending(usage: Mapping[str, float]) -> dict[str, str]:
    """Tokens and cost, for the head of a report."""
    if not usage:
        return {}
    amounts = {word: _known(usage, names) for word, names in _PARTS.items()}
    told = ", ".join(f"{amount:,.0f} {word}" for word, amount in amounts.items() if amount)
    calls, cost = usage.get("model_calls"), _known(usage, _COST)
    unknown = "not known: there is no price for the model" if calls else ""
    return {
        "tokens": told + (f" in {calls:,.0f} calls" if told and calls else ""),
        "cost": unknown if cost is None else f"${cost:.4f}",
    }


def _known(usage: Mapping[str, float], names: Sequence[str]) -> float | None:
    return next((usage[name] for name in names if name in usage), None)


def tamper_lines(report: TamperReport | None, *, full: bool) -> Iterator[str]:
    """What was done beside the work, as far as there is something to be told."""
    if report is None:
        return
    found = [line for line in _tampering(report, full=full) if line]
    yield ""
    yield "tamper report" if found else "tamper report: nothing was changed outside of the work"
    yield from (f"  {line}" for line in found)


def _tampering(report: TamperReport, *, full: bool) -> Iterator[str]:
    outside = report.changed_outside
    if outside is None:
        yield "what was changed outside of the work is not known"
    elif outside:
        opened = report.opened_outside_total
        read = "" if opened is None else f", {opened} of them opened by scorers"
        yield f"changed outside of the work: {report.changed_outside_total or len(outside)}{read}"
        yield from _files(outside, full=full)
    if report.special_inside:
        total = report.special_inside_total or len(report.special_inside)
        yield f"links, devices and setuid files in the work: {total}"
        yield from _files(report.special_inside, full=full)
    if report.processes:
        yield f"processes that still ran: {report.processes_total or len(report.processes)}"
        shown = report.processes if full else report.processes[:MOST_FILES]
        yield from (f"  {each.pid} ({clean(each.user)}) {clean(each.command)[:200]}" for each in shown)
    for what, lines in (
        ("changed while it was scored", report.changed_while_scored),
        ("not taken over from the answer", report.refused),
        ("not known whether scorers opened it", report.unwatched_outside),
        ("not known", report.unknown),
        ("note", report.notes),
    ):
        for line in lines if full else lines[:MOST_FILES]:
            yield f"{what}: {clean(line)[:500]}"
        if not full and len(lines) > MOST_FILES:
            yield f"... and {len(lines) - MOST_FILES} more; --full shows them"


def _files(files: Sequence[ChangedFile], *, full: bool) -> Iterator[str]:
    for each in files if full else files[:MOST_FILES]:
        yield f"  {each.kind} {clean(each.path)}{' (opened by scorers)' if each.opened else ''}"
    if not full and len(files) > MOST_FILES:
        yield f"  ... and {len(files) - MOST_FILES} more; --full shows them"


def _longest(*, full: bool) -> int:
    """How much is shown of a line: agents print JSON in lines of many thousand characters."""
    return LONGEST_LINE if full else LONGEST_EXCERPT


def _ending(title: str, lines: Sequence[str], most: int, *, full: bool) -> Iterator[str]:
    """A title, and below it the last of some lines."""
    shown = lines if full else lines[-most:]
    yield f"{title}:"
    if len(shown) < len(lines):
        yield f"  ... {len(lines) - len(shown)} lines before; --full shows them"
    yield from (f"  {line}".rstrip() for line in shown)
