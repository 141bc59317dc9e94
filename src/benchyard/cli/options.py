"""Options of commands: ranges, NAME=VALUE, LOCAL:REMOTE, sizes and ages, and confirmation."""

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from pydantic import ValidationError

from benchyard.errors import UsageError
from benchyard.models.base import MAX_INT

_NAMES = {
    "timeout_seconds": ("timeout",),
    "keep_alive_time_seconds": ("keep_alive",),
    "ttl_ms": ("ttl",),
    "environment_variables": ("env_vars", "env"),
    "secrets": ("secret",),
    "kwargs": ("agent_kwargs",),
    "filters": ("filter",),
    "where": ("filter",),
    "benchmark_id": ("benchmark",),
    "scenario_ids": ("scenarios",),
    "agent_configs": ("agents",),
}
"""Names of command parameters by the field of the request, where they differ."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])i?)?B?", re.I)
_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([hdw])", re.I)
_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0}
_MOST_DAYS = 36500
_LONGEST_SHOWN = 100
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


class IntRange(click.IntRange):
    """A whole number in a range; refusals are sentences."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        try:
            return int(super().convert(value, param, ctx))  # type: ignore[arg-type]
        except click.BadParameter:
            return self.fail(f"{_shown(value)} is not {_range_words('a whole number', self)}.", param, ctx)

    def _describe_range(self) -> str:
        """Return the range as the help shows it, after the option's own text."""
        return _range_help(self, super()._describe_range())


class FloatRange(click.FloatRange):
    """A number in a range, which excludes `nan` and `inf`; refusals are sentences."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        try:
            found = float(super().convert(value, param, ctx))  # type: ignore[arg-type]
        except click.BadParameter:
            found = math.nan
        if not math.isfinite(found):
            self.fail(f"{_shown(value)} is not {_range_words('a number', self)}.", param, ctx)
        return found


def _range_help(limits: click.IntRange, usual: str) -> str:
    if limits.max is None or limits.max < MAX_INT:
        return usual
    return "" if limits.min is None or limits.min <= -MAX_INT else f"x>={limits.min:g}"


def _shown(value: object) -> str:
    return repr(str(value)[:_LONGEST_SHOWN])


def _range_words(what: str, limits: click.IntRange | click.FloatRange) -> str:
    """Return a text such as `a whole number from 1 to 1000`; omits limits that only keep numbers storable."""
    least = None if limits.min is None or limits.min <= -MAX_INT else f"{limits.min:g}"
    most = None if limits.max is None or limits.max >= MAX_INT else f"{limits.max:.15g}"
    if least is None:
        return f"{what}, {most} at most" if most else what
    if limits.min_open:
        return f"{what} above {least}, {most} at most" if most else f"{what} above {least}"
    return f"{what} from {least} to {most}" if most else f"{what} from {least} on"


@contextmanager
def checked_input() -> Iterator[None]:
    """Turn a model's validation error into one line, with the flag of the wrong value if there is one."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        told = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        name = flag_of(first["loc"]) or ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{name}: {told}" if name else told) from error


def flag_of(place: Sequence[str | int]) -> str | None:
    """Return the flag of this command that sets a field of a request; None if no flag does."""
    context = click.get_current_context(silent=True)
    options = (
        [param for param in context.command.params if isinstance(param, click.Option)] if context else []
    )
    flags = {option.name: option.opts[-1] for option in options}
    parts = [each for each in place if isinstance(each, str)]
    if parts[-1:] == ["name"] and len(parts) > 1:
        # The `name` of a nested part is not the command's `--name`.
        parts = parts[:-1]
    for part in reversed(parts):
        for name in (part, *_NAMES.get(part, ())):
            if name in flags:
                return flags[name]
    return None


def name_values(given: Sequence[str], option: str, like: str = "NAME=VALUE") -> dict[str, str]:
    """Parse `["A=1", "B=2"]` into a mapping."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} must look like {like}", param_hint=option)
        found[name] = value
    return found


def local_remote(given: Iterable[str], option: str) -> list[tuple[Path, str]]:
    """Parse `["notes.txt:/tmp/notes.txt"]` into pairs; the local file must exist."""
    found = []
    for text in given:
        local, colon, remote = text.partition(":")
        if not local or not colon or not remote:
            raise click.BadParameter(f"{text!r} must look like LOCAL:REMOTE", param_hint=option)
        if not Path(local).is_file():
            raise click.BadParameter(f"there is no file {local!r}", param_hint=option)
        found.append((Path(local), remote))
    return found


def age_in_days(text: str) -> float:
    """Parse an age as people write it (90d, 12h, 8w) into days."""
    found = _AGE.fullmatch(text.strip())
    days = float(found[1]) * _DAYS[found[2].lower()] if found else 0.0
    if not 0 < days <= _MOST_DAYS:
        raise click.BadParameter(f"{text!r} is not an age: write 90d, 12h or 8w")
    return days


def size_in_bytes(text: str) -> int:
    """Parse a size as people write it (20GiB, 500M, 1000) into bytes."""
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise click.BadParameter(f"{text!r} is not a size: write 20GiB, 500M or a number of bytes")
    return int(float(found[1]) * 1024 ** _UNITS[(found[2] or "").upper()])


def exact_size(count: int) -> str:
    """Return the text from which `size_in_bytes` makes this number, with the largest unit that fits."""
    unit = max((each for each in _UNITS.values() if count % 1024**each == 0), default=0) if count else 0
    name = next(each for each, power in _UNITS.items() if power == unit)
    return f"{count // 1024**unit}{name}iB" if name else str(count)


yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


def confirm(question: str, *, yes: bool) -> None:
    """Ask in a terminal and end the command unless the answer is yes; elsewhere `--yes` is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to ask in: give --yes")
    if not click.confirm(question, err=True):
        click.echo("nothing was done", err=True)
        raise click.exceptions.Exit(1)
