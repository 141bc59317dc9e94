"""Output of commands: text for people, through a pager if it is long, or JSON or YAML."""

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, BinaryIO, TypeVar

import click
from pydantic import BaseModel
from rich.cells import cell_len

from benchyard.cli.notices import say
from benchyard.cli.table import LEAST_SENTENCE, Narrow, Table, terminal_width, wrap_words
from benchyard.client.plain_text import clean
from benchyard.models.job_plans import count_text
from benchyard.models.removals import RemovalView

M = TypeVar("M", bound=BaseModel)

_GOES_ON = " \\"
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format: text for people, json or yaml for programs.",
)


def show(view: BaseModel | Mapping[str, Any], output: str, text: str) -> None:
    """Print one item: the given text, or its data."""
    if output == "text":
        click.echo(text)
    else:
        click.echo(_dump(wire(view), output), nl=False)


def show_many(
    views: Iterable[M],
    output: str,
    columns: Mapping[str, Callable[[M], object]],
    *,
    none: str = "none",
    narrow: Narrow | None = None,
) -> None:
    """Print several items: a table with these columns, or a list of their data."""
    found = list(views)
    if output != "text":
        click.echo(_dump([wire(view) for view in found], output), nl=False)
    elif not found:
        click.echo(none, err=True)
    else:
        rows = [[clean(cell(view)) for cell in columns.values()] for view in found]
        print_table(list(columns), rows, narrow)


def print_table(titles: Sequence[str], rows: Iterable[Sequence[str]], narrow: Narrow | None = None) -> None:
    """Print aligned columns, fitted to the width only in a terminal."""
    table = Table(titles, list(rows), narrow or Narrow())
    head, *body = table.lines(terminal_width() if sys.stdout.isatty() else None)
    click.echo("\n".join([head if table.is_blocks else click.style(head, bold=True), *body]))
    left = [column for column, title in enumerate(titles) if title in table.dropped]
    if left and table.narrow.goes_on and len(left) + 1 < len(titles):
        click.echo()
        again = [0, *left]
        print_table(
            [titles[column] for column in again],
            [[row[column] for column in again] for row in table.rows],
            narrow,
        )
    elif left:
        say(f"left out, the terminal is too narrow: {', '.join(table.dropped)}")


def table_lines(
    titles: Sequence[str], rows: Iterable[Sequence[str]], narrow: Narrow | None = None
) -> list[str]:
    """Return the lines of a table that is a part of a longer text."""
    table = Table(titles, list(rows), narrow or Narrow())
    return table.lines(terminal_width() if sys.stdout.isatty() else None)


def facts(pairs: Mapping[str, object]) -> str:
    """Return lines of `name: value`, aligned; omits None and empty values."""
    kept = {name: clean(value) for name, value in pairs.items() if value not in (None, "", [], {})}
    indent = max((len(name) for name in kept), default=0) + 2
    lines = []
    for name, value in kept.items():
        first, *rest = indented(value, indent)
        lines += [f"{name + ':':<{indent}}{first}", *rest]
    return "\n".join(lines)


def indented(text: str, indent: int) -> list[str]:
    """Return lines of whole words for a terminal, indented after the first; one line elsewhere.

    The first line has to be printed at the same indent.
    """
    if not sys.stdout.isatty():
        return [text]
    first, *rest = wrap_words(text, _room(indent))
    return [first, *(" " * indent + line for line in rest)]


def wrap_details(lines: Iterable[str]) -> Iterator[str]:
    """Wrap lines indented by two, which are details of the line above them."""
    for line in lines:
        if line.startswith("  "):
            first, *rest = indented(line[2:], 4)
            yield from (f"  {first}", *rest)
        else:
            yield line


def echo_sentence(text: str) -> None:
    """Print a sentence, wrapped between words in a terminal."""
    click.echo("\n".join(indented(text, 2)))


def command_text(command: str, before: str = "") -> list[str]:
    """Return a command as it can be typed, in a terminal on several lines if it is too long for one."""
    if not sys.stdout.isatty() or cell_len(before + command) <= terminal_width():
        return [before + command]
    lines = [before]
    for word in map(shlex.quote, shlex.split(command)):
        joined = f"{lines[-1]}{' ' if lines[-1].strip() and lines[-1] != before else ''}{word}"
        if cell_len(joined) + len(_GOES_ON) > terminal_width() and lines[-1].strip():
            lines[-1] += _GOES_ON
            lines.append(" " * (len(before) + 2) + word)
        else:
            lines[-1] = joined
    return lines


def _room(indent: int) -> int:
    return max(LEAST_SENTENCE, terminal_width() - indent)


def wire(view: BaseModel | Mapping[str, Any]) -> Any:
    """Return the plain values of a view, as the wire shows them."""
    if isinstance(view, BaseModel):
        return view.model_dump(mode="json", exclude_none=True, by_alias=True)
    return dict(view)


def write_all(target: BinaryIO, data: bytes) -> None:
    """Write all bytes at once: unbuffered writes may be short."""
    left = memoryview(data)
    while left:
        left = left[target.write(left) :]
    target.flush()


def size(count: int | None) -> str:
    """Return a number of bytes for people."""
    if count is None:
        return ""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} {UNITS[unit]}" if unit == 0 else f"{amount:.1f} {UNITS[unit]}"


def when(time_ms: int | None) -> str:
    """Return a time for people, to the second, in UTC."""
    if time_ms is None:
        return ""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def age(time_ms: int | None) -> str:
    """Return the time since then, in the largest unit that is at least 1."""
    if time_ms is None:
        return ""
    seconds = max(0, int(time.time() - time_ms / 1000))
    for length, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def duration(milliseconds: int | None) -> str:
    """Return a duration for people."""
    if milliseconds is None:
        return ""
    if milliseconds < 9_950:
        return f"{milliseconds / 1000:.1f}s"
    minutes, seconds = divmod(max(milliseconds, 10_000) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"


def score_text(score: float | None) -> str:
    """Return a score for people."""
    return "-" if score is None else f"{score:.3f}"


def marked_score(score: float | None, *, is_suspect: bool) -> str:
    """Return a score for people, marked if it may not be earned."""
    return f"{score_text(score)} suspect" if is_suspect else score_text(score)


def pairs(values: Mapping[str, str]) -> str:
    """Return a mapping as `a=1, b=2`."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _dump(value: Any, output: str) -> str:
    if output == "json":
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    # Imported only here: that takes longer than to write most tables.
    yaml = import_module("yaml")
    text: str = yaml.safe_dump(json.loads(json.dumps(value)), sort_keys=False, allow_unicode=True)
    return text


def show_removed(done: RemovalView, output: str) -> None:
    """Print the removed objects."""
    parts = [count_text(done.n_trials, "trial")] if done.kind == "job" else []
    parts += [
        count_text(done.n_scenario_runs, "run"),
        count_text(done.n_objects, "file"),
        size(done.size_bytes),
    ]
    show(done, output, f"{done.id}  deleted: {', '.join(parts)}")


def print_paged(lines: Iterator[str]) -> None:
    """Print lines; output higher than the terminal goes through PAGER, or a pager that click finds."""
    if not sys.stdout.isatty():
        for line in lines:
            click.echo(line)
        return
    height = os.get_terminal_size(sys.stdout.fileno()).lines
    held: list[str] = []
    for line in lines:
        held.append(line)
        if len(held) >= height:
            # Let less leave its output on the screen, unless the user's own settings say otherwise.
            os.environ.setdefault("LESS", "FRX")
            click.echo_via_pager(_whole(held, lines))
            return
    click.echo("\n".join(held))


def _whole(held: list[str], rest: Iterator[str]) -> Iterator[str]:
    yield from (f"{line}\n" for line in held)
    yield from (f"{line}\n" for line in rest)
