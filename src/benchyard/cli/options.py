"""Option values of the form NAME=VALUE and LOCAL:REMOTE."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import click


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
