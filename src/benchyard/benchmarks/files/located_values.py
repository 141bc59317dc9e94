"""YAML, TOML and JSON with the line of every value, so that errors can name it."""

import bisect
import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from benchyard.errors import UsageError

M = TypeVar("M", bound=BaseModel)
KeyPath = tuple[int | str, ...]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"
_SHOWN_PROBLEMS = 5
_DEEPEST = 100


class FilePart(BaseModel):
    """A part of a file; unknown keys are mistakes."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


@dataclass(frozen=True)
class LocatedData:
    """Content of a file, with the line of each value."""

    path: Path
    data: Any
    node: yaml.Node

    def line(self, place: KeyPath) -> int:
        """Return the line of a value, or of the nearest part around it that exists."""
        node, mark = self.node, self.node.start_mark
        for part in place:
            if (found := _inside(node, part)) is not None:
                mark, node = found
        return int(mark.line) + 1

    def refuse(self, place: KeyPath, why: str) -> UsageError:
        """Return the error for a mistake, with its line."""
        return UsageError(f"{self.path}:{self.line(place)}: {why}", line=self.line(place))


def read_yaml(path: Path, text: str) -> LocatedData:
    """Return the YAML of a file; raises UsageError with the line if it is invalid."""
    try:
        _check_shape(path, text)
        loader = _LOADER(text)
        try:
            node = _composed(path, loader)
            data = loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise UsageError(f"{path}{line}: {said or 'this is not valid YAML'}") from error
    except (yaml.YAMLError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        # For tags and dates that do not fit their values the library raises the last three.
        raise UsageError(f"{path}: this is not valid YAML: {' '.join(str(error).split())[:300]}") from error
    return LocatedData(path, data, node)


def validate(marked: LocatedData, model: type[M]) -> M:
    """Return the content of a file as a model; raises UsageError with the line of each mistake."""
    if not isinstance(marked.data, dict):
        raise marked.refuse((), "a list of `key: value` is expected here")
    try:
        return model.model_validate(marked.data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        shown = [_describe_problem(marked, model, problem) for problem in problems[:_SHOWN_PROBLEMS]]
        left = len(problems) - len(shown)
        more = [f"... and {left} more"] if left > 0 else []
        first = marked.line(tuple(problems[0]["loc"]))
        raise UsageError("\n".join([*shown, *more]), line=first) from error


def stray_keys(model: type[BaseModel], data: Any, place: KeyPath = ()) -> Iterator[tuple[KeyPath, list[str]]]:
    """Yield keys that a wire model would ignore, at any depth, with the keys it knows there."""
    if not isinstance(data, Mapping):
        return
    for key, value in data.items():
        field = model.model_fields.get(key)
        if field is None:
            yield (*place, str(key)), list(model.model_fields)
            continue
        parts = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, part in parts:
            here = (*place, key) if index is None else (*place, key, index)
            for inner in _models(field.annotation):
                yield from stray_keys(inner, part, here)


def unknown_key(key: str, known: list[str]) -> str:
    """Return the message for an unknown key."""
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    meant = f"did you mean `{near[0]}`?" if near else f"known are: {', '.join(sorted(known))}"
    return f"unknown key `{key[:100]}`; {meant}"


def _check_shape(path: Path, text: str) -> None:
    """Raise UsageError for nesting too deep for recursive readers, and for aliases, which repeat content."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        assert event.start_mark is not None
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise UsageError(
                f"{path}:{line}: aliases (`*name`) are not supported here; write the value out", line=line
            )
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise UsageError(f"{path}:{line}: it is nested too deeply", line=line)


def _composed(path: Path, loader: Any) -> yaml.Node:
    node = loader.get_single_node()
    if node is None:
        raise UsageError(f"{path}:1: the file is empty")
    _check(path, node)
    composed: yaml.Node = node
    return composed


def _check(path: Path, node: yaml.Node) -> None:
    """Raise UsageError for keys that are repeated, or are more than a word."""
    if isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check(path, value)
    if isinstance(node, yaml.MappingNode):
        keys = set()
        for key, value in node.value:
            if key.tag == _MERGE or not isinstance(key, yaml.ScalarNode):
                raise _at(path, key, "a key must be a plain word")
            if key.value in keys:
                raise _at(path, key, f"`{key.value[:100]}` is here twice")
            keys.add(key.value)
            _check(path, value)


def _at(path: Path, node: yaml.Node, why: str) -> UsageError:
    return UsageError(f"{path}:{node.start_mark.line + 1}: {why}", line=node.start_mark.line + 1)


def _inside(node: yaml.Node, part: int | str) -> tuple[yaml.Mark, yaml.Node] | None:
    """Return the part of a node under a key or a number, and the place where people would look for it."""
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark, node.value[part]
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == part:
                return key.start_mark, value
    return None


def _describe_problem(marked: LocatedData, model: type[BaseModel], problem: ErrorDetails) -> str:
    place = tuple(problem["loc"])
    where = f"{marked.path}:{marked.line(place)}"
    outer = ".".join(str(part) for part in _written(marked.node, place[:-1]))
    shown = ".".join(str(part) for part in _written(marked.node, place))
    if problem["type"] == "extra_forbidden":
        known = [name for kind in _around(model, place[:-1]) for name in kind.model_fields]
        return f"{where}: {outer + ': ' if outer else ''}{unknown_key(str(place[-1]), sorted(set(known)))}"
    if problem["type"] == "missing":
        return f"{where}: {outer + '.' if outer else ''}{place[-1]}: this is missing"
    hint = " (put it in quotes)" if problem["type"] == "string_type" else ""
    return f"{where}: {shown + ': ' if shown else ''}{problem['msg'].removeprefix('Value error, ')}{hint}"


def _written(node: yaml.Node, place: KeyPath) -> Iterator[int | str]:
    """Yield the parts of a place that are in the file: tags of unions exist only in the models."""
    for part in place:
        inner = _inside(node, part)
        if inner is not None:
            _, node = inner
            yield part


def _around(model: type[BaseModel], place: KeyPath) -> list[type[BaseModel]]:
    """Return the models that may stand at a place."""
    kinds = [model]
    for part in place:
        if isinstance(part, int):
            continue
        fields = [kind.model_fields[part].annotation for kind in kinds if part in kind.model_fields]
        if fields:
            kinds = [inner for annotation in fields for inner in _models(annotation)]
        else:
            # This part is the tag of a union: keep the one model it selects.
            kinds = [kind for kind in kinds if _tag(kind) == part] or kinds
    return kinds


def _tag(model: type[BaseModel]) -> object:
    field = model.model_fields.get("type")
    return next(iter(get_args(field.annotation)), None) if field else None


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models(inner)]


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


def read_toml(path: Path, text: str) -> LocatedData:
    """Return the TOML of a file; raises UsageError with the line if it is invalid."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        match = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = f":{match[1]}" if match else ""
        said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UsageError(f"{path}{line}: this is not valid TOML: {said}") from error
    return LocatedData(path, data, _node(data, _TomlLines(text).all(), (), 1))


def read_json(path: Path, text: str) -> LocatedData:
    """Return the JSON of a file; raises UsageError with the line if it is invalid."""
    data = parse_json(path, text)
    return LocatedData(path, data, _node(data, _JsonLines(text).all(), (), 1))


def parse_json(path: Path, text: str) -> Any:
    """Return the JSON of a file without lines, which is faster; raises UsageError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{path}:{error.lineno}: this is not valid JSON: {error.msg}", line=error.lineno
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path}: this is not valid JSON: it is nested too deeply, or has odd numbers"
        ) from error


def _node(data: object, lines: dict[KeyPath, int], place: KeyPath, line: int) -> yaml.Node:
    """Return the node that YAML would have made of the same data, at the same lines."""
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
    """Lines of the parts of a text that is known to be valid."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._found: dict[KeyPath, int] = {}

    def _note(self, place: KeyPath, at: int) -> None:
        self._found.setdefault(place, bisect.bisect_left(self._ends, at) + 1)


class _TomlLines(_Lines):
    """Lines of tables and keys; anything inside a value has the line of its key."""

    def all(self) -> dict[KeyPath, int]:
        """Place -> line."""
        at = 0
        table: KeyPath = ()
        counts: dict[KeyPath, int] = {}
        while at < len(self._text):
            if blank := _BLANK.match(self._text, at):
                at = blank.end()
            elif self._text[at] == "[":
                at, table = self._header(at, counts)
            else:
                at = self._pair(at, table, counts)
        return self._found

    def _header(self, at: int, counts: dict[KeyPath, int]) -> tuple[int, KeyPath]:
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

    def _pair(self, at: int, table: KeyPath, counts: dict[KeyPath, int]) -> int:
        keys, end = self._keys(at)
        self._note((*self._resolved(table, keys[:-1], at, counts), keys[-1]), at)
        depth, end = 0, end + 1
        while piece := _PIECE.match(self._text, end):
            end = piece.end()
            depth += (piece[0] in "[{") - (piece[0] in "]}")
            if piece[0] == "\n" and depth == 0:
                break
        return max(end, at + 1)

    def _resolved(self, place: KeyPath, keys: list[str], at: int, counts: dict[KeyPath, int]) -> KeyPath:
        """Return a place below tables; for a table that occurs several times, its last one."""
        for key in keys:
            place = (*place, key)
            self._note(place, at)
            if place in counts:
                place = (*place, counts[place] - 1)
        return place

    def _keys(self, at: int) -> tuple[list[str], int]:
        keys: list[str] = []
        while match := _KEY.match(self._text, at):
            keys.append(_unquoted(match))
            at = match.end()
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

    def all(self) -> dict[KeyPath, int]:
        """Place -> line."""
        self._value(0, ())
        return self._found

    def _value(self, at: int, place: KeyPath) -> int:
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

    def _several(self, at: int, place: KeyPath, named: bool) -> int:  # noqa: FBT001
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
        match = _JSON_BLANK.match(self._text, at)
        return match.end() if match else at
