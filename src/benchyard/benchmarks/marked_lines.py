"""TOML and JSON that somebody wrote: read with the line of every key, to be checked as YAML is."""

import bisect
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from benchyard.benchmarks.marked import Marked, Place
from benchyard.errors import UsageError

_DEEPEST = 100
_KEY = re.compile(r"""[ \t]*(?:"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)'|([A-Za-z0-9_-]+))[ \t]*""")
_BLANK = re.compile(r"(?:\s++|#[^\n]*+)++")
_PIECE = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'|\#[^\n]*|[\[{]|[\]}]|\n|[^\[\]{}\"'#\n]+",
    re.S,
)
_STRINGS = json.JSONDecoder()
_JSON_BLANK = re.compile(r"[ \t\r\n]*")
_JSON_PLAIN = re.compile(r"[^ \t\r\n,\]}]+")


def toml(path: Path, text: str) -> Marked:
    """The TOML of a file; raises UsageError with the line where it is none."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = f":{found[1]}" if found else ""
        said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UsageError(f"{path}{line}: this is no TOML: {said}") from error
    return Marked(path, data, _node(data, _TomlLines(text).all(), (), 1))


def json_text(path: Path, text: str) -> Marked:
    """The JSON of a file; raises UsageError with the line where it is none."""
    data = json_data(path, text)
    return Marked(path, data, _node(data, _JsonLines(text).all(), (), 1))


def json_data(path: Path, text: str) -> Any:
    """What the JSON of a file says, without its lines, which take longer; raises UsageError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}: this is no JSON: {error.msg}", line=error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: this is no JSON: it is nested too deeply, or has odd numbers") from error


def _node(data: object, lines: dict[Place, int], place: Place, line: int) -> yaml.Node:
    """What YAML would have made of the same data, at the same lines."""
    line = lines.get(place, line)
    mark = yaml.Mark("", 0, line - 1, 0, None, 0)
    if len(place) > _DEEPEST:
        raise UsageError(f"line {line}: it is nested too deeply", line=line)
    if isinstance(data, dict):
        pairs = []
        for key, value in data.items():
            inner = _node(value, lines, (*place, key), line)
            pairs.append((yaml.ScalarNode("tag:yaml.org,2002:str", key, inner.start_mark), inner))
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, mark)
    if isinstance(data, list):
        items = [_node(value, lines, (*place, index), line) for index, value in enumerate(data)]
        return yaml.SequenceNode("tag:yaml.org,2002:seq", items, mark)
    return yaml.ScalarNode("tag:yaml.org,2002:str", str(data)[:100], mark)


class _Lines:
    """Where the parts of a text are; the text is known to be right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = [found.start() for found in re.finditer("\n", text)]
        self._found: dict[Place, int] = {}

    def _note(self, place: Place, at: int) -> None:
        self._found.setdefault(place, bisect.bisect_left(self._ends, at) + 1)


class _TomlLines(_Lines):
    """Lines of tables and keys; what is inside of a value has the line of its key."""

    def all(self) -> dict[Place, int]:
        """Place -> line."""
        at = 0
        table: Place = ()
        counts: dict[Place, int] = {}
        while at < len(self._text):
            if blank := _BLANK.match(self._text, at):
                at = blank.end()
            elif self._text[at] == "[":
                at, table = self._header(at, counts)
            else:
                at = self._pair(at, table, counts)
        return self._found

    def _header(self, at: int, counts: dict[Place, int]) -> tuple[int, Place]:
        several = self._text.startswith("[[", at)
        keys, end = self._keys(at + 1 + several)
        place = self._resolved((), keys[:-1], at, counts)
        place = (*place, keys[-1])
        self._note(place, at)
        if several:
            place = (*place, counts.setdefault(place, 0))
            counts[place[:-1]] += 1
            self._note(place, at)
        elif place in counts:
            place = (*place, counts[place] - 1)
        return end + 1 + several, place

    def _pair(self, at: int, table: Place, counts: dict[Place, int]) -> int:
        keys, end = self._keys(at)
        self._note((*self._resolved(table, keys[:-1], at, counts), keys[-1]), at)
        depth, end = 0, end + 1
        while piece := _PIECE.match(self._text, end):
            end = piece.end()
            depth += (piece[0] in "[{") - (piece[0] in "]}")
            if piece[0] == "\n" and depth == 0:
                break
        return max(end, at + 1)

    def _resolved(self, place: Place, keys: list[str], at: int, counts: dict[Place, int]) -> Place:
        """A place below tables, of which those that are there several times mean the last."""
        for key in keys:
            place = (*place, key)
            self._note(place, at)
            if place in counts:
                place = (*place, counts[place] - 1)
        return place

    def _keys(self, at: int) -> tuple[list[str], int]:
        keys: list[str] = []
        while found := _KEY.match(self._text, at):
            keys.append(_unquoted(found))
            at = found.end()
            if not self._text.startswith(".", at):
                break
            at += 1
        return keys or [""], at


def _unquoted(found: "re.Match[str]") -> str:
    if found[1] is None:
        return found[2] if found[2] is not None else found[3]
    return str(next(iter(tomllib.loads(f'"{found[1]}" = 1'))))


class _JsonLines(_Lines):
    """Lines of every key and every item."""

    def all(self) -> dict[Place, int]:
        """Place -> line."""
        self._value(0, ())
        return self._found

    def _value(self, at: int, place: Place) -> int:
        at = self._blank(at)
        self._note(place, at)
        if len(place) > _DEEPEST:
            raise UsageError("it is nested too deeply")
        first = self._text[at]
        if first == '"':
            return _STRINGS.raw_decode(self._text, at)[1]
        if first in "{[":
            return self._several(at, place, first == "{")
        plain = _JSON_PLAIN.match(self._text, at)
        return plain.end() if plain else at + 1

    def _several(self, at: int, place: Place, named: bool) -> int:  # noqa: FBT001
        at, index = self._blank(at + 1), 0
        while self._text[at] not in "}]":
            part: int | str = index
            if named:
                part, after = _STRINGS.raw_decode(self._text, at)
                self._note((*place, part), at)
                at = self._blank(after) + 1
            at = self._blank(self._value(at, (*place, part)))
            at = self._blank(at + (self._text[at] == ","))
            index += 1
        return at + 1

    def _blank(self, at: int) -> int:
        found = _JSON_BLANK.match(self._text, at)
        return found.end() if found else at
