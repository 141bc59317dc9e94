"""YAML that a person wrote: read with the line of every value, so that a mistake can be pointed at."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from benchyard.errors import UsageError

M = TypeVar("M", bound=BaseModel)
Place = tuple[int | str, ...]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"
_SHOWN_PROBLEMS = 5
_DEEPEST = 100


class Written(BaseModel):
    """A part of a file: what it does not know is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


@dataclass(frozen=True)
class Marked:
    """What a file says, and where it says it."""

    path: Path
    data: Any
    node: yaml.Node

    def line(self, place: Place) -> int:
        """The line of a value, or of the nearest thing around it that is there."""
        node, mark = self.node, self.node.start_mark
        for part in place:
            if (found := _inside(node, part)) is not None:
                mark, node = found
        return int(mark.line) + 1

    def refuse(self, place: Place, why: str) -> UsageError:
        """The error that says what is wrong, and on which line."""
        return UsageError(f"{self.path}:{self.line(place)}: {why}", line=self.line(place))


def read(path: Path, text: str) -> Marked:
    """The YAML of a file; raises UsageError with the line where it is none."""
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
        raise UsageError(f"{path}{line}: {said or 'this is no YAML'}") from error
    except (yaml.YAMLError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        # The last three are what the library makes of tags and dates that do not fit what they stand before.
        raise UsageError(f"{path}: this is no YAML: {' '.join(str(error).split())[:300]}") from error
    return Marked(path, data, node)


def checked(marked: Marked, model: type[M]) -> M:
    """What a file says as a model; raises UsageError with the line of each mistake."""
    if not isinstance(marked.data, dict):
        raise marked.refuse((), "a list of `key: value` is expected here")
    try:
        return model.model_validate(marked.data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        shown = [_told(marked, model, problem) for problem in problems[:_SHOWN_PROBLEMS]]
        left = len(problems) - len(shown)
        more = [f"... and {left} more"] if left > 0 else []
        first = marked.line(tuple(problems[0]["loc"]))
        raise UsageError("\n".join([*shown, *more]), line=first) from error


def strays(model: type[BaseModel], data: Any, place: Place = ()) -> Iterator[tuple[Place, list[str]]]:
    """Keys that a model of the wire would ignore, wherever they are in it, with those it knows."""
    if not isinstance(data, Mapping):
        return
    for key, value in data.items():
        field = model.model_fields.get(key)
        if field is None:
            yield (*place, str(key)), list(model.model_fields)
            continue
        for inner in _models(field.annotation):
            yield from strays(inner, value, (*place, key))


def unknown(key: str, known: list[str]) -> str:
    """What to say of a key nobody knows."""
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    meant = f"did you mean `{near[0]}`?" if near else f"known are: {', '.join(sorted(known))}"
    return f"unknown key `{key[:100]}`; {meant}"


def _check_shape(path: Path, text: str) -> None:
    """Refuse what a reader that calls itself would not survive, and aliases, which make much of little."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        assert event.start_mark is not None
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise UsageError(f"{path}:{line}: aliases (`*name`) are not taken here; write it out", line=line)
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
    """Refuse keys that are there twice, or are more than a word."""
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
    """What is in a node under a key or a number, and where a person would look for it."""
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark, node.value[part]
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == part:
                return key.start_mark, value
    return None


def _told(marked: Marked, model: type[BaseModel], problem: ErrorDetails) -> str:
    place = tuple(problem["loc"])
    where = f"{marked.path}:{marked.line(place)}"
    outer = ".".join(str(part) for part in _written(marked.node, place[:-1]))
    shown = ".".join(str(part) for part in _written(marked.node, place))
    if problem["type"] == "extra_forbidden":
        known = [name for each in _around(model, place[:-1]) for name in each.model_fields]
        return f"{where}: {outer + ': ' if outer else ''}{unknown(str(place[-1]), sorted(set(known)))}"
    if problem["type"] == "missing":
        return f"{where}: {outer + '.' if outer else ''}{place[-1]}: this is missing"
    hint = " (put it in quotes)" if problem["type"] == "string_type" else ""
    return f"{where}: {shown + ': ' if shown else ''}{problem['msg'].removeprefix('Value error, ')}{hint}"


def _written(node: yaml.Node, place: Place) -> Iterator[int | str]:
    """The parts of a place that the file itself has: tags of unions are ours alone."""
    for part in place:
        inner = _inside(node, part)
        if inner is not None:
            _, node = inner
            yield part


def _around(model: type[BaseModel], place: Place) -> list[type[BaseModel]]:
    """The models that may stand at a place."""
    found = [model]
    for part in place:
        if isinstance(part, int):
            continue
        fields = [each.model_fields[part].annotation for each in found if part in each.model_fields]
        if fields:
            found = [inner for annotation in fields for inner in _models(annotation)]
        else:
            # The tag of a union: the one model that it stands for.
            found = [each for each in found if _tag(each) == part] or found
    return found


def _tag(model: type[BaseModel]) -> object:
    field = model.model_fields.get("type")
    return next(iter(get_args(field.annotation)), None) if field else None


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for inner in get_args(annotation) for found in _models(inner)]
