"""Conditions that choose scenarios: `name=fix-*`, `level!=easy`, `name~=^fix or tag=short`.

A text has alternatives, joined by ` or `. All texts must hold; but texts of a single condition with `=` and
the same key are alternatives of each other. The value of `=` and `!=` may have `*`, `?` and `[...]`; that of
`~=` and `!~` is a regular expression. A server evaluates all this in a worker: it may never terminate.
"""

import difflib
import fnmatch
import functools
import json
import marshal
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol, TypeVar

from benchyard.errors import UsageError

TAG_KEYS = ("tag", "tags", "keywords")
"""Keys that mean the same: each is a usual name for the labels of scenarios."""

_OPERATORS = ("!=", "!~", "~=", "=")
_OR = " or "
_MOST_COMPARED = 2000
_MOST_TOLD = 10
_LONGEST = 100
_WILD = "*?[]^$"

Matches = Callable[[str, str], bool]
"""Test whether a regular expression matches somewhere in a text."""


class Selectable(Protocol):
    """A scenario or another item that conditions can choose."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def metadata(self) -> Mapping[str, str] | None: ...


L = TypeVar("L", bound=Selectable)


@dataclass(frozen=True)
class Condition:
    """A comparison of one key with a value."""

    key: str
    operator: str
    value: str

    @property
    def is_pattern(self) -> bool:
        """Tell whether its value is a regular expression."""
        return "~" in self.operator

    @property
    def text(self) -> str:
        """Return the condition as users write it."""
        return f"{self.key}{self.operator}{self.value}"

    def holds(self, item: Selectable, matches: Matches) -> bool:
        """Tell whether it holds for an item; an item without the label equals and matches no value."""
        values = values_of(item, self.key)
        if self.is_pattern:
            is_match = any(matches(self.value, value) for value in values)
        else:
            is_match = any(value == self.value or _is_like(value, self.value) for value in values)
        return is_match is not self.operator.startswith("!")


def parse_condition(text: str) -> list[Condition]:
    """Return the alternatives of a text; raises UsageError that shows the syntax of a condition."""
    conditions: list[Condition] = []
    for part in text.split(_OR):
        condition = _condition(part)
        if condition is not None:
            conditions.append(condition)
        elif conditions:
            # This ` or ` is a part of the value.
            last = conditions.pop()
            conditions.append(Condition(last.key, last.operator, f"{last.value}{_OR}{part}"))
        else:
            raise UsageError(
                f"{text[:200]!r} is not a condition: write key=value, key!=value, key~=regex or key!~regex, "
                "with ` or ` between alternatives"
            )
    return conditions


def condition_groups(texts: Sequence[str]) -> list[list[Condition]]:
    """Return the groups of conditions; of each group, one condition must hold."""
    groups: list[list[Condition]] = []
    same: dict[str, list[Condition]] = {}
    for text in texts:
        alternatives = parse_condition(text)
        first = alternatives[0]
        if len(alternatives) > 1 or first.operator != "=":
            groups.append(alternatives)
        elif first.key in same:
            same[first.key].append(first)
        else:
            same[first.key] = [first]
            groups.append(same[first.key])
    return groups


def choose(
    items: Sequence[L],
    wanted: Sequence[Sequence[Condition]],
    include: Collection[str] = (),
    exclude: Collection[str] = (),
    matches: Matches = lambda pattern, text: re.search(pattern, text) is not None,
) -> list[L]:
    """Return the items for which each group has a condition that holds, with names that match the globs."""
    return [
        item
        for item in items
        if all(any(one.holds(item, matches) for one in group) for group in wanted)
        and (not include or _fits(item, include))
        and not _fits(item, exclude)
    ]


def near_misses(
    items: Sequence[Selectable],
    wanted: Sequence[Sequence[Condition]],
    include: Collection[str],
    exclude: Collection[str],
    matches: Matches,
) -> str:
    """Explain why nothing was chosen, and name the closest values there are."""
    for group in wanted:
        if not choose(items, [group], matches=matches):
            text = _OR.join(one.text for one in group)
            return f"no scenario fits the filter {text[:300]}{_close(items, group[0])}"
    for glob in include:
        if not any(_fits(item, [glob]) for item in items):
            return f"no scenario has a name that fits --include {glob[:200]}{_close_names(items, glob)}"
    text = " and ".join(_OR.join(one.text for one in group) for group in wanted)
    parts = [f"the filter {text[:300]}"] if text else []
    parts += ["--include"] if include else []
    parts += ["--exclude"] if exclude else []
    return f"no scenario is left by {', '.join(parts)} together; each of them alone leaves some"


def values_of(item: Selectable, key: str) -> list[str]:
    """Return an item's values for a key; for a name also its last part, for a list label each element."""
    if key == "name":
        return list(dict.fromkeys([item.name, item.name.rpartition("/")[2]]))
    if key == "id":
        return [item.id]
    metadata = item.metadata or {}
    keys = TAG_KEYS if key in TAG_KEYS else (key,)
    values = [metadata[each] for each in keys if each in metadata]
    return list(dict.fromkeys(part for value in values for part in [value, *_parts(value)]))


@dataclass(frozen=True)
class Item:
    """An item as a worker sees it."""

    id: str
    name: str
    metadata: Mapping[str, str]


def question(
    items: Iterable[Selectable],
    wanted: Sequence[Sequence[Condition]],
    include: Sequence[str],
    exclude: Sequence[str],
) -> bytes:
    """Return the input of `answer`; labels that no condition mentions come without their values."""
    keys = {one.key for group in wanted for one in group}
    keys |= set(TAG_KEYS) if keys & set(TAG_KEYS) else set()
    texts = []
    for item in items:
        labels = {key: value if key in keys else "" for key, value in (item.metadata or {}).items()}
        texts.append((item.id, item.name, labels))
    groups = [[(one.key, one.operator, one.value) for one in group] for group in wanted]
    return marshal.dumps((texts, groups, list(include), list(exclude)))


def answer(content: BinaryIO) -> dict[str, object]:
    """Return as `chosen` the positions of the chosen items, or as `problem` why none is; for workers."""
    told, groups, include, exclude = marshal.load(content)  # noqa: S302  (the server's own)
    items = [Item(*item) for item in told]
    wanted = [[Condition(*one) for one in group] for group in groups]
    patterns: dict[str, re.Pattern[str]] = {}
    for one in (one for group in wanted for one in group if one.is_pattern):
        try:
            patterns[one.value] = re.compile(one.value)
        except (re.error, OverflowError, RecursionError) as error:
            return {"problem": f"{one.value[:200]!r} is not a valid regular expression: {error}"}

    def matches(pattern: str, text: str) -> bool:
        return patterns[pattern].search(text) is not None

    fitting = {id(item) for item in choose(items, wanted, include, exclude, matches)}
    if not fitting and items:
        return {"problem": near_misses(items, wanted, include, exclude, matches)}
    return {"chosen": [place for place, each in enumerate(items) if id(each) in fitting]}


def _condition(text: str) -> Condition | None:
    places = [(text.find(each), -len(each), each) for each in _OPERATORS if each in text]
    if not places:
        return None
    at, _, operator = min(places)
    key, value = text[:at].strip(), text[at + len(operator) :]
    return Condition(key, operator, value) if key else None


def _parts(value: str) -> list[str]:
    """Return the elements of a label that is a list: in JSON, or separated by commas."""
    if value.startswith("["):
        try:
            listed = json.loads(value)
        except (ValueError, RecursionError):
            return []
        return [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
    return [part.strip() for part in value.split(",")] if "," in value else []


def _fits(item: Selectable, globs: Iterable[str]) -> bool:
    names = values_of(item, "name")
    return any(_is_like(name, glob) for glob in globs for name in names)


def _is_like(text: str, glob: str) -> bool:
    return _pattern_of(glob).match(text) is not None


@functools.lru_cache(maxsize=1024)
def _pattern_of(glob: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(glob))


def _close(items: Sequence[Selectable], condition: Condition) -> str:
    """Name the values closest to those that a condition asks for."""
    if condition.key == "name":
        return _close_names(items, condition.value)
    if condition.key == "id":
        return ""
    values = list(dict.fromkeys(value for item in items for value in values_of(item, condition.key)))
    if values:
        listed = ", ".join(value[:_LONGEST] for value in values[:_MOST_TOLD])
        more = f" and {len(values) - _MOST_TOLD} more" if len(values) > _MOST_TOLD else ""
        return f"; {condition.key[:_LONGEST]} is {listed}{more}"
    keys = list(dict.fromkeys(key for item in items for key in item.metadata or {}))
    close = difflib.get_close_matches(condition.key[:_LONGEST], keys[:_MOST_COMPARED], n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    listed = ", ".join(key[:_LONGEST] for key in keys[:_MOST_TOLD])
    return f"; they have no such label{f', but {listed}' if listed else ''}"


def _close_names(items: Sequence[Selectable], given: str) -> str:
    plain = "".join(char for char in given[:_LONGEST] if char not in _WILD)
    names: dict[str, str] = {}
    for each in items[:_MOST_COMPARED]:
        for value in values_of(each, "name"):
            names.setdefault(value[:_LONGEST], each.name[:_LONGEST])
    close = difflib.get_close_matches(plain, list(names), n=3, cutoff=0.5)
    near = list(dict.fromkeys(names[item] for item in close))
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    listed = ", ".join(item.name[:_LONGEST] for item in items[:3])
    return f"; there are {len(items)}, such as {listed}" if items else ""
