"""`benchyard trial steps`: the steps of a trajectory, one line each, one whole, found, or as they come."""

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click
from rich.cells import cell_len, set_cell_size

from benchyard.cli.connection import connect
from benchyard.cli.options import IntRange
from benchyard.cli.render import output_option, print_paged, show, wire
from benchyard.cli.run.report import one_step
from benchyard.client.client import Client
from benchyard.client.plain_text import clean
from benchyard.errors import UsageError
from benchyard.models.job_plans import count_text
from benchyard.models.trajectories.live_steps import LiveStep
from benchyard.models.trajectories.steps import StepIndexView

MOST_LINES = 1000
"""Number of steps that are listed unless a range is given."""
_WORDS = 160
_TOOL = 10
_HEAD = ["STEP", "SOURCE", "TOOL", "TOKENS", "COST", "FIRST WORDS"]
_WIDTHS = (5, 6, _TOOL, 9, 7)
_RIGHT = (0, 3, 4)
"""Columns that are aligned on the right."""


@click.command()
@click.argument("given", metavar="TRIAL")
@click.option("--from", "first", type=IntRange(min=1), metavar="N", help="Begin with this step.")
@click.option("--to", "last", type=IntRange(min=1), metavar="M", help="End with this step.")
@click.option("--step", "number", type=IntRange(min=1), metavar="N", help="Show this step whole.")
@click.option("--find", "text", metavar="TEXT", help="Only steps that contain this, in any case.")
@click.option("--follow", is_flag=True, help="Show steps as they come, until the agent has ended.")
@click.option("--trace", metavar="NAME", help="Read this trace, and not the first trajectory.")
@output_option
def steps(
    given: str,
    first: int | None,
    last: int | None,
    number: int | None,
    text: str | None,
    follow: bool,
    trace: str | None,
    output: str,
) -> None:
    """List the steps of a trial's trajectory, one line each; TRIAL is the id of a trial or scenario run.

    TOKENS are those of the prompt and those of the answer. A ! marks a step with a tool's error.
    With --follow -o json every line is a value of its own.

    \b
      benchyard trial steps trl_4kY...
      benchyard trial steps trl_4kY... --step 12
      benchyard trial steps trl_4kY... --find "permission denied"
      benchyard trial steps trl_4kY... --follow
    """
    ranged = first is not None or last is not None
    if sum((ranged, number is not None, text is not None, follow)) > 1:
        raise click.UsageError("choose one of --from and --to, --step, --find, --follow")
    with connect() as client:
        if follow:
            if output == "text":
                click.echo(_line(_HEAD))
            for event in client.trajectories.follow(given):
                _tell(event, output)
        elif number is not None:
            _show_one(client, given, number, trace, output)
        elif text is not None:
            _show_found(client, given, text, trace, output)
        else:
            _show_some(client.trajectories.index(given, trace), given, first, last, output)


def _show_some(index: StepIndexView, given: str, first: int | None, last: int | None, output: str) -> None:
    begin = first or 1
    end = min(index.count, last or index.count)
    if end < begin and index.count:
        raise UsageError(
            f"{index.trace} has the steps 1 to {index.count}, and none from {begin} to {last or end}"
        )
    if output != "text":
        told_index = wire(index)
        columns = told_index.pop("columns")
        rows = [
            {"number": at + 1, **{name: values[at] for name, values in columns.items()}}
            for at in range(begin - 1, end)
        ]
        show({**told_index, "steps": rows}, output, "")
        return
    shown = end if last is not None else min(end, begin + MOST_LINES - 1)
    print_paged(_lines(index, given, begin, shown))


def _lines(index: StepIndexView, given: str, begin: int, end: int) -> Iterator[str]:
    names = [
        each.agent or each.trajectory_id or f"sub-agent {at}" for at, each in enumerate(index.trajectories)
    ]
    inside = "" if len(names) < 2 else f", in {len(names)} trajectories"
    yield f"{clean(index.trace)}: {count_text(index.count, 'step')}{inside}"
    yield _line(_HEAD)
    trajectory = 0
    for at in range(begin - 1, end):
        if index.columns.trajectory[at] != trajectory:
            trajectory = index.columns.trajectory[at]
            yield _fitting(f"-- sub-agent {clean(names[trajectory])}")
        columns = index.columns
        tokens = _tokens(columns.prompt_tokens[at], columns.completion_tokens[at])
        mark = "! " if columns.is_error[at] else ""
        cells = [
            str(at + 1),
            columns.source[at],
            ",".join(columns.tools[at]),
            tokens,
            _cost(columns.cost_usd[at]),
        ]
        yield _line([*cells, mark + columns.text[at]])
    if end < index.count:
        yield f"... {index.count - end} more: benchyard trial steps {given} --from {end + 1}"
    if index.problem is not None:
        yield f"there may be more steps: {clean(index.problem)}"


def _show_one(client: Client, given: str, number: int, trace: str | None, output: str) -> None:
    step = client.trajectories.step(given, number, trace)
    if output == "text":
        print_paged(one_step(number, step))
    else:
        show({"number": number, "step": step}, output, "")


def _show_found(client: Client, given: str, text: str, trace: str | None, output: str) -> None:
    found = client.trajectories.find(given, text, trace=trace)
    if output != "text":
        show(found, output, "")
        return
    click.echo(f"{count_text(found.total, 'step')} with {clean(text)!r}")
    for each in found.found:
        words = " ".join(clean(each.text).split())
        click.echo(_fitting(f"{each.number:>5}  {_cut(clean(each.field), 30)}: {words}"))
    if found.total > len(found.found):
        click.echo(f"... {found.total - len(found.found)} more steps contain it; look for something longer")


def _tell(event: LiveStep, output: str) -> None:
    """Print an event of an agent that works."""
    if output != "text":
        click.echo(json.dumps(wire(event), ensure_ascii=False))
    elif event.kind == "step" and isinstance(event.step, dict):
        click.echo(_live_line(event.number or 0, event.step))
    elif event.kind == "observation":
        mark = "! " if event.is_error else ""
        click.echo(_fitting(f"{'':>5}  {'result':<6}  {mark}{_words(event.content)}"))
    else:
        click.echo(_fitting(f"-- {clean(event.message or 'a step that cannot be shown')}"))
    sys.stdout.flush()


def _live_line(number: int, step: dict[str, Any]) -> str:
    metrics = step.get("metrics") or {}
    calls = step.get("tool_calls") or []
    tokens = _tokens(metrics.get("prompt_tokens"), metrics.get("completion_tokens"))
    words = _words(step.get("message")) or _words([call.get("arguments") for call in calls])
    tools = ",".join(str(call.get("function_name")) for call in calls)
    cost = _cost(metrics.get("cost_usd"))
    return _line([str(number), str(step.get("source")), tools, tokens, cost, words])


def _words(content: Any) -> str:
    """Return the beginning of a message or of arguments."""
    if isinstance(content, dict):
        content = content.get("text") if "text" in content else list(content.values())
    if isinstance(content, list):
        return " ".join(word for each in content[:5] if (word := _words(each)))[:_WORDS]
    return " ".join(str(content or "")[: 2 * _WORDS].split())[:_WORDS]


def _tokens(prompt: int | None, completion: int | None) -> str:
    if prompt is None and completion is None:
        return ""
    return f"{_count(prompt)}+{_count(completion)}"


def _count(number: int | None) -> str:
    if number is None:
        return "?"
    if number < 10_000:
        return str(number)
    return f"{number / 1000:.0f}k" if number < 10**6 else f"{number / 10**6:.1f}M"


def _cost(cost: float | None) -> str:
    if cost is None:
        return ""
    return f"${cost:.4f}" if cost < 10 else f"${cost:.2f}"


def _line(cells: Sequence[str]) -> str:
    """Return a line of the list, which fits the terminal."""
    parts = []
    for place, (cell, width) in enumerate(zip(cells, _WIDTHS, strict=False)):
        told = _cut(clean(cell), width)
        space = " " * (width - cell_len(told))
        parts.append(space + told if place in _RIGHT else told + space)
    return _fitting("  ".join([*parts, clean(cells[-1])]).rstrip())


def _fitting(line: str) -> str:
    """Return a line cut to the width of a terminal; elsewhere it stays whole."""
    return _cut(line, shutil.get_terminal_size().columns) if sys.stdout.isatty() else line


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"
