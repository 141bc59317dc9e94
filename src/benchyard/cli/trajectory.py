"""A trajectory as text for people: what was said, which tools were called, and what came of it."""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from benchyard.cli.render import clean, clean_lines, shorter
from benchyard.client.client import Client
from benchyard.engine.runs.atif import MOST_VALUES, check_atif
from benchyard.errors import BenchyardError, TooLarge, UsageError
from benchyard.models.job_plans import counted
from benchyard.models.runs import Trace
from benchyard.workers.json_values import ValueCount

MOST_BYTES = 64 * 1024**2
FIRST_STEPS = 2
LAST_STEPS = 3
"""What is shown of a long trajectory unless more is asked for."""
EXCERPT_LINES = 6
"""Of each text in such an excerpt."""
_PIECE_BYTES = 1024**2
_LONGEST_ARGUMENT = 500
_LONGEST_WORD = 200
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{0,9})")


@dataclass(frozen=True)
class Wanted:
    """Which steps are to be shown, and whether their texts are shown whole."""

    first: int = 1
    last: int | None = None
    from_end: int | None = None
    """Only so many, counted from the end."""
    is_excerpt: bool = False
    """The first and the last few, and only the beginning of each text."""


def step_range(context: click.Context, option: click.Parameter, text: str | None) -> Wanted | None:
    """What `--steps` says: `A-B`, `A-`, or a number of steps counted from the end."""
    if text is None:
        return None
    if found := _RANGE.fullmatch(text.strip()):
        first, last = int(found[1]), int(found[2]) if found[2] else None
        if first >= 1 and (last is None or last >= first):
            return Wanted(first, last)
    elif text.isascii() and text.isdigit() and int(text) >= 1:
        return Wanted(from_end=int(text))
    raise click.BadParameter(
        f"{text!r} is neither a range such as 3-10 or 12-, nor a number of last steps",
        ctx=context,
        param=option,
    )


def fetched(client: Client, run_id: str, trace: Trace) -> dict[str, Any] | str:
    """The trajectory of a run; a sentence that says why not, where it cannot be read."""
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


def lines_of(trajectory: Mapping[str, Any], wanted: Wanted) -> Iterator[str]:
    """The steps that are wanted, and between them how many are left out."""
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


def size_of(trajectory: Mapping[str, Any]) -> str:
    """How many steps there are, whose, and how many calls of tools."""
    steps = [each for each in trajectory.get("steps", []) if isinstance(each, dict)]
    calls = sum(len(_dicts(each.get("tool_calls"))) for each in steps)
    return f"{counted(len(steps), 'step')}, {counted(calls, 'tool call')}"


def _chosen(count: int, wanted: Wanted) -> Sequence[int]:
    if wanted.is_excerpt and count > FIRST_STEPS + LAST_STEPS:
        return [*range(FIRST_STEPS), *range(count - LAST_STEPS, count)]
    if wanted.from_end is not None:
        return range(max(0, count - wanted.from_end), count)
    return range(wanted.first - 1, min(count, wanted.last if wanted.last is not None else count))


def _left_out(first: int, last: int) -> str:
    what = f"step {first} is" if first == last else f"steps {first} to {last} are"
    return f"  ... {what} not shown: --steps {first}-{last}"


def _step(number: int, step: Mapping[str, Any], wanted: Wanted) -> Iterator[str]:
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


def _text(prefix: str, text: str, wanted: Wanted, hang: int | None = None) -> Iterator[str]:
    """A text, its first line behind the prefix; of an excerpt only its beginning."""
    lines = clean_lines(text.lstrip("\n"), _LONGEST_ARGUMENT if wanted.is_excerpt else 10**9)
    most = EXCERPT_LINES if wanted.is_excerpt else len(lines)
    indent = " " * (len(prefix) if hang is None else hang)
    for at, line in enumerate(lines[:most] or ([""] if prefix.strip() else [])):
        yield f"{indent if at else prefix}{line}".rstrip()
    if len(lines) > most:
        yield f"{indent}... {len(lines) - most} more lines"


def _arguments(arguments: object) -> str:
    """What a tool was called with: the value alone where there is one, else each under its name."""
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
    """The text of a message, which may be in parts; images and recordings are named."""
    if isinstance(content, str):
        return content
    texts = []
    for part in _dicts(content):
        source = part.get("source")
        place = source.get("path") if isinstance(source, dict) else None
        texts.append(str(part["text"]) if part.get("text") is not None else f"[{part.get('type')} {place}]")
    return "\n".join(texts)


def _dicts(values: object) -> list[dict[str, Any]]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
