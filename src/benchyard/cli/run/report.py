"""A scenario run as text for people: scorers, commands, trajectory, spending and the tamper report."""

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from benchyard.cli.render import duration, indented, size, table_lines, wire
from benchyard.cli.table import Narrow
from benchyard.client.client import Client
from benchyard.client.plain_text import LONGEST_LINE, clean, clean_lines, shorter
from benchyard.engine.trajectories.atif import MOST_VALUES, check_atif
from benchyard.errors import BenchyardError, TooLarge, UsageError
from benchyard.models.job_plans import count_text
from benchyard.models.runs import (
    ChangedFile,
    ContractResult,
    RunExecution,
    RunExecutionListView,
    ScenarioRunView,
    ScorerResult,
    TamperReport,
    Trace,
)
from benchyard.workers.json_texts import ValueCount

MOST_BYTES = 64 * 1024**2
FIRST_STEPS = 2
LAST_STEPS = 3
"""Number of steps at the end of a long trajectory that an excerpt shows."""
EXCERPT_LINES = 6
"""Number of lines of each text in such an excerpt."""
_PIECE_BYTES = 1024**2
_LONGEST_ARGUMENT = 500
_LONGEST_WORD = 200
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{0,9})")


@dataclass(frozen=True)
class StepSelection:
    """Choice of the steps to show, and of the length of their texts."""

    first: int = 1
    last: int | None = None
    from_end: int | None = None
    """Number of steps to show, counted from the end."""
    is_excerpt: bool = False
    """True for the first and last few steps, with only the beginning of each text."""


def step_range(context: click.Context, option: click.Parameter, text: str | None) -> StepSelection | None:
    """Parse `--steps`: `A-B`, `A-`, or a number of steps counted from the end."""
    if text is None:
        return None
    if found := _RANGE.fullmatch(text.strip()):
        first, last = int(found[1]), int(found[2]) if found[2] else None
        if first >= 1 and (last is None or last >= first):
            return StepSelection(first, last)
    elif text.isascii() and text.isdigit() and int(text) >= 1:
        return StepSelection(from_end=int(text))
    raise click.BadParameter(
        f"{text!r} is neither a range such as 3-10 or 12-, nor a number of last steps",
        ctx=context,
        param=option,
    )


def fetch_trajectory(client: Client, run_id: str, trace: Trace) -> dict[str, Any] | str:
    """Return the trajectory of a run; if it cannot be read, a sentence with the reason."""
    left = MOST_BYTES

    def count(size: int) -> None:
        nonlocal left
        left -= size
        if left < 0:
            raise TooLarge(f"it is over {MOST_BYTES} bytes")

    values = ValueCount()
    try:
        with tempfile.TemporaryFile() as file:
            client.scenarios.runs.download_trace(run_id, trace.name, file, count)
            file.seek(0)
            while piece := file.read(_PIECE_BYTES):
                if values.feed(piece) > MOST_VALUES:
                    return f"{trace.name} has more than {MOST_VALUES} values"
            file.seek(0)
            found = json.load(file)
        check_atif(found)
    except UsageError as error:
        return f"{trace.name} is not a trajectory: {error.message}"
    except BenchyardError as error:
        return f"{trace.name} could not be fetched: {error.message}"
    except (ValueError, RecursionError) as error:
        return f"{trace.name} is not JSON: {error}"
    return dict(found)


def step_lines(trajectory: Mapping[str, Any], wanted: StepSelection) -> Iterator[str]:
    """Yield the chosen steps, and between them the numbers of the omitted ones."""
    steps = [each for each in trajectory.get("steps", []) if isinstance(each, dict)]
    chosen = _chosen(len(steps), wanted)
    before = 0
    for index in chosen:
        if index > before:
            yield _left_out(before + 1, index)
        yield from _step(index + 1, steps[index], wanted)
        before = index + 1
    if before < len(steps):
        yield _left_out(before + 1, len(steps))


def one_step(number: int, step: object) -> Iterator[str]:
    """Yield a step of a trajectory, whole."""
    known = step if isinstance(step, dict) else {"message": json.dumps(step, ensure_ascii=False)}
    yield from _step(number, known, StepSelection())


def trajectory_size(trajectory: Mapping[str, Any]) -> str:
    """Return the number of steps and of tool calls."""
    steps = [each for each in trajectory.get("steps", []) if isinstance(each, dict)]
    calls = sum(len(_dicts(step.get("tool_calls"))) for step in steps)
    return f"{count_text(len(steps), 'step')}, {count_text(calls, 'tool call')}"


def _chosen(count: int, wanted: StepSelection) -> Sequence[int]:
    if wanted.is_excerpt and count > FIRST_STEPS + LAST_STEPS:
        return [*range(FIRST_STEPS), *range(count - LAST_STEPS, count)]
    if wanted.from_end is not None:
        return range(max(0, count - wanted.from_end), count)
    return range(wanted.first - 1, min(count, wanted.last if wanted.last is not None else count))


def _left_out(first: int, last: int) -> str:
    what = f"step {first} is" if first == last else f"steps {first} to {last} are"
    return f"  ... {what} not shown: --steps {first}-{last}"


def _step(number: int, step: Mapping[str, Any], wanted: StepSelection) -> Iterator[str]:
    yield _head(number, step)
    yield from _text("  ", _content(step.get("message")), wanted)
    if reasoning := _content(step.get("reasoning_content")):
        yield from _text("  (thinks) ", reasoning, wanted)
    for call in _dicts(step.get("tool_calls")):
        name, arguments = clean(call.get("function_name")), call.get("arguments")
        yield from _text(f"  > {name[:_LONGEST_WORD]}  ", _arguments(arguments), wanted, hang=4)
    observation = step.get("observation")
    for result in _dicts(observation.get("results")) if isinstance(observation, dict) else []:
        yield from _text("  < ", _content(result.get("content")), wanted)


def _head(number: int, step: Mapping[str, Any]) -> str:
    metrics = step.get("metrics")
    metrics = metrics if isinstance(metrics, dict) else {}
    parts = [
        f"step {number}",
        str(step.get("source") or ""),
        str(step.get("model_name") or ""),
        str(step.get("timestamp") or "")[:19].replace("T", " "),
        *(
            f"{amount:,.0f} {word}"
            for key, word in (("prompt_tokens", "tokens in"), ("completion_tokens", "out"))
            if _is_number(amount := metrics.get(key))
        ),
        f"${metrics['cost_usd']:.4f}" if _is_number(metrics.get("cost_usd")) else "",
    ]
    return shorter(clean("  ".join(part for part in parts if part)), _LONGEST_WORD)


def _text(prefix: str, text: str, wanted: StepSelection, hang: int | None = None) -> Iterator[str]:
    """Yield a text, its first line behind the prefix; in an excerpt only its beginning."""
    lines = clean_lines(text.lstrip("\n"), _LONGEST_ARGUMENT if wanted.is_excerpt else 10**9)
    most = EXCERPT_LINES if wanted.is_excerpt else len(lines)
    indent = " " * (len(prefix) if hang is None else hang)
    for at, line in enumerate(lines[:most] or ([""] if prefix.strip() else [])):
        yield f"{indent if at else prefix}{line}".rstrip()
    if len(lines) > most:
        yield f"{indent}... {len(lines) - most} more lines"


def _arguments(arguments: object) -> str:
    """Return the arguments of a tool call: a single value alone, several each with its name."""
    if not isinstance(arguments, dict):
        return "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
    texts = {
        str(name): value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in arguments.items()
    }
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n".join(f"{name}: {value}" for name, value in texts.items())


def _content(content: object) -> str:
    """Return the text of a message, which may have parts; images and recordings are named."""
    if isinstance(content, str):
        return content
    texts = []
    for part in _dicts(content):
        source = part.get("source")
        place = source.get("path") if isinstance(source, dict) else None
        texts.append(str(part["text"]) if part.get("text") is not None else f"[{part.get('type')} {place}]")
    return "\n".join(texts)


def _dicts(values: object) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


SCORER_LINES = 15
COMMAND_LINES = 20
LONGEST_EXCERPT = 240
"""Longest part of an output's line that is shown, unless all is wanted."""
MOST_FILES = 10
EXCERPT = StepSelection(is_excerpt=True)
_MOST_LINES = 1000
_PARTS = {
    "in": ("input_tokens", "total_prompt_tokens"),
    "out": ("output_tokens", "total_completion_tokens"),
    "cached": ("cached_tokens", "total_cached_tokens"),
}
_COST = ("cost_usd", "total_cost_usd")
"""Names of the cost: as the gateway counts it, and as an agent reports it."""


def steps_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options `--steps` and `--full` to a command that shows a trajectory."""
    steps = click.option(
        "--steps",
        callback=step_range,
        metavar="A-B|N",
        help="Whole steps of the trajectory: 3-10, 12-, or the last N.",
    )
    full = click.option("--full", is_flag=True, help="All of the trajectory and of every output.")
    return steps(full(command))


def traces_of(run: ScenarioRunView) -> list[Trace]:
    """Return the trajectories among the traces of a run, in their order."""
    return [trace for trace in run.traces if trace.kind == "atif"]


@dataclass(frozen=True)
class RunDetails:
    """A scenario run with its commands and its trajectory."""

    run: ScenarioRunView
    executions: RunExecutionListView
    trajectory: dict[str, Any] | str | None
    """A text is the reason why it could not be read."""

    def data(self, executions: str) -> dict[str, Any]:
        """Return commands, under this name, and trajectory for -o json."""
        return {
            executions: wire(self.executions)["executions"],
            "trajectory": self.trajectory if isinstance(self.trajectory, dict) else None,
        }

    def lines(self, what: str, wanted: StepSelection, *, full: bool) -> Iterator[str]:
        """Yield scorers, commands (each called `what`), trajectory and tamper report."""
        if self.run.scoring_contract_result is not None:
            yield from scorer_lines(self.run.scoring_contract_result, full=full)
        yield from command_lines(self.executions, what, full=full)
        if self.trajectory is not None:
            yield from trajectory_lines(self.trajectory, traces_of(self.run), wanted)
        yield from tamper_lines(self.run.tamper_report, full=full)


def fetch_details(
    client: Client, run: ScenarioRunView, *, full: bool, most_commands: int, of_agent: bool
) -> RunDetails:
    """Fetch the last commands of a run, of its agent or all, and its first trajectory."""
    lines = _MOST_LINES if full else COMMAND_LINES
    executions = client.scenarios.runs.executions(run.id, lines=lines, limit=most_commands, of_agent=of_agent)
    traces = traces_of(run)
    return RunDetails(run, executions, fetch_trajectory(client, run.id, traces[0]) if traces else None)


def scorer_lines(result: ContractResult, *, full: bool) -> Iterator[str]:
    """Yield each scorer with its weight and score, and then the output of each."""
    rows = [
        [
            clean(function_result.scoring_function_name),
            f"{function_result.weight:g}",
            f"{function_result.score:.3f}" + (" suspect" if function_result.suspect else ""),
            "it broke" if function_result.state == "error" else "",
            duration(function_result.duration_ms),
            clean(function_result.reason or function_result.suspect),
        ]
        for function_result in result.scoring_function_results
    ]
    titles = ["SCORER", "WEIGHT", "SCORE", "STATE", "TOOK", "WHY"]
    kept = [at for at, title in enumerate(titles) if at < 3 or any(row[at] for row in rows)]
    yield ""
    yield from table_lines(
        [titles[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
        Narrow(["SCORER"], ["TOOK", "STATE"]),
    )
    for function_result in result.scoring_function_results:
        yield from _scorer(function_result, full=full)


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
    """Yield the end of each command's output."""
    if not found.executions:
        return
    if found.total_count > len(found.executions):
        yield f"\nthe last {len(found.executions)} of {found.total_count} commands"
    for execution in found.executions:
        yield from _command(execution, what, full=full)


def _command(execution: RunExecution, what: str, *, full: bool) -> Iterator[str]:
    name = what if what != "command" else f"command {clean(execution.execution_id)}"
    ended = "still runs" if execution.status != "completed" else f"exit status {execution.exit_status}"
    length = execution.end_time_ms - execution.start_time_ms if execution.end_time_ms else None
    told = ", ".join(part for part in (ended, duration(length), clean(execution.hint)) if part)
    yield ""
    if not execution.stdout_bytes and not execution.stderr_bytes:
        yield from indented(f"{name}: {told}; it printed nothing", 2)
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
    trajectory: Mapping[str, Any] | str, traces: Sequence[Trace], wanted: StepSelection
) -> Iterator[str]:
    """Yield a trajectory, or the reason that there is none to show."""
    yield ""
    if isinstance(trajectory, str):
        yield f"trajectory: {clean(trajectory)}"
        return
    more = "" if len(traces) == 1 else f"; also kept: {', '.join(clean(each.name) for each in traces[1:])}"
    yield f"trajectory ({trajectory_size(trajectory)}{more})"
    yield from step_lines(trajectory, wanted)
    if wanted.is_excerpt:
        yield "  (texts are cut short; --steps N, --steps A-B and --full show them whole)"


def spending(usage: Mapping[str, float]) -> dict[str, str]:
    """Return tokens and cost, for the head of a report."""
    if not usage:
        return {}
    amounts = {word: _first_value(usage, names) for word, names in _PARTS.items()}
    told = ", ".join(f"{amount:,.0f} {word}" for word, amount in amounts.items() if amount)
    calls, cost = usage.get("model_calls"), _first_value(usage, _COST)
    unknown = "not known: there is no price for the model" if calls else ""
    return {
        "tokens": told + (f" in {calls:,.0f} calls" if told and calls else ""),
        "cost": unknown if cost is None else f"${cost:.4f}",
    }


def _first_value(usage: Mapping[str, float], names: Sequence[str]) -> float | None:
    return next((usage[name] for name in names if name in usage), None)


def tamper_lines(report: TamperReport | None, *, full: bool) -> Iterator[str]:
    """Yield the changes made beside the work, as far as they are worth a line."""
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
    """Return the longest part of a line to show: agents print JSON in lines of many thousand characters."""
    return LONGEST_LINE if full else LONGEST_EXCERPT


def _ending(title: str, lines: Sequence[str], most: int, *, full: bool) -> Iterator[str]:
    """Yield a title, and below it the last of some lines."""
    shown = lines if full else lines[-most:]
    yield f"{title}:"
    if len(shown) < len(lines):
        yield f"  ... {len(lines) - len(shown)} lines before; --full shows them"
    yield from (f"  {line}".rstrip() for line in shown)
