"""What people give on the command line: NAME=VALUE, LOCAL:REMOTE, and values a model has to accept."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from pydantic import ValidationError

from benchyard.errors import UsageError

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])i?)?B?", re.I)
_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([hdw])", re.I)
_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0}
_MOST_DAYS = 36500
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@contextmanager
def checked_input() -> Iterator[None]:
    """Say in one line what a request cannot be made of."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{name}: {first['msg']}" if name else first["msg"]) from error


def name_values(given: Sequence[str], option: str) -> dict[str, str]:
    """`["A=1", "B=2"]` as a mapping."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} must look like NAME=VALUE", param_hint=option)
        found[name] = value
    return found


def local_remote(given: Iterable[str], option: str) -> list[tuple[Path, str]]:
    """`["notes.txt:/tmp/notes.txt"]` as pairs; the local file must be there."""
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
    """A time span in days, as people write it: 90d, 12h, 8w."""
    found = _AGE.fullmatch(text.strip())
    days = float(found[1]) * _DAYS[found[2].lower()] if found else 0.0
    if not 0 < days <= _MOST_DAYS:
        raise click.BadParameter(f"{text!r} is no age: write 90d, 12h or 8w")
    return days


def size_in_bytes(text: str) -> int:
    """A number of bytes, as people write it: 20GiB, 500M, 1000."""
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise click.BadParameter(f"{text!r} is no size: write 20GiB, 500M or a number of bytes")
    return int(float(found[1]) * 1024 ** _UNITS[(found[2] or "").upper()])
