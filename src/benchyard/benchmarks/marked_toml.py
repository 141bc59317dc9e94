"""TOML that a person wrote: read with the line of every key, so that a mistake can be pointed at."""

import re
import tomllib
from functools import partial
from pathlib import Path

from benchyard.benchmarks.marked import Marked, Place
from benchyard.errors import UsageError

_LINE = re.compile(r"at line (\d+)")
_TABLE = re.compile(r"^\s*\[(\[)?\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(
    r"^\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'))*)\s*="
)
_LONG = ('"""', "'''")


def read(path: Path, text: str) -> Marked:
    """The TOML of a file; raises UsageError with the line where it is none."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        line = _LINE.search(str(error))
        raise UsageError(f"{path}{f':{line[1]}' if line else ''}: this is no TOML: {error}") from error
    return Marked(path, data, partial(_line, _lines(text)))


def _line(lines: dict[Place, int], place: Place) -> int:
    """Of the longest beginning of a place that has a line of its own."""
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return lines[place[:length]]
    return 1


def _lines(text: str) -> dict[Place, int]:
    """The line of every table and every key that begins one."""
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if inside is not None:
            inside = None if inside in line else inside
            continue
        if header := _TABLE.match(line):
            table = _table(_words(header[2]), counts, is_list=bool(header[1]))
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, *_words(key[1])), number)
            inside = next((each for each in _LONG if line.count(each) % 2), None)
    return found


def _table(words: tuple[str, ...], counts: dict[Place, int], *, is_list: bool) -> Place:
    """The place of a table: with the number of the newest entry after the name of each list of tables."""
    place: Place = ()
    for index, word in enumerate(words):
        place = (*place, word)
        if is_list and index == len(words) - 1:
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place = (*place, counts[place])
    return place


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in text.split("."))
