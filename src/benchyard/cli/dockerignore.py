"""What a `.dockerignore` leaves out of a build context, by docker's own rules."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from benchyard.errors import UsageError

FILE = ".dockerignore"


@dataclass(frozen=True)
class _Rule:
    pattern: re.Pattern[str]
    leaves_out: bool


class Ignored:
    """The rules of one file: the last one that matches a path, or a folder above it, decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = [rule for line in lines if (rule := _rule(line))]

    def leaves_out(self, path: str) -> bool:
        """Whether a path, as the context spells it with `/`, is left out."""
        above = [str(each) for each in PurePosixPath(path).parents if str(each) != "."]
        left_out = False
        for rule in self._rules:
            if rule.leaves_out != left_out and any(rule.pattern.fullmatch(each) for each in (path, *above)):
                left_out = rule.leaves_out
        return left_out

    @property
    def may_bring_back(self) -> bool:
        """Whether something below a folder that is left out can be in the context all the same."""
        return any(not rule.leaves_out for rule in self._rules)


def _rule(line: str) -> _Rule | None:
    # A comment is one only at the very beginning of its line.
    if line.startswith("#"):
        return None
    text = line.strip()
    brings_back = text.startswith("!")
    text = _clean(text.removeprefix("!").strip())
    if not text:
        return None
    return _Rule(_pattern(text), not brings_back)


def _clean(text: str) -> str:
    """The pattern without leading slashes, `.` and what `..` takes back."""
    kept: list[str] = []
    for part in text.split("/"):
        if part == ".." and kept:
            kept.pop()
        elif part not in ("", ".", ".."):
            kept.append(part)
    return "/".join(kept)


def _pattern(text: str) -> re.Pattern[str]:
    """`*`, `?` and `[...]` stay inside one name; `**` stands for any number of folders, also none."""
    found, index = "", 0
    while index < len(text):
        piece, index = _piece(text, index)
        found += piece
    try:
        return re.compile(found, re.DOTALL)
    except re.error as error:
        raise UsageError(f"{FILE}: {text!r} is not a pattern: {error}") from error


def _piece(text: str, index: int) -> tuple[str, int]:
    """The expression for what stands at an index, and the index after it."""
    letter = text[index]
    if text.startswith("**", index):
        index += 3 if text.startswith("/", index + 2) else 2
        return (".*" if index >= len(text) else "(?:.*/)?"), index
    if letter == "*":
        return "[^/]*", index + 1
    if letter == "?":
        return "[^/]", index + 1
    if letter == "\\" and index + 1 < len(text):
        return re.escape(text[index + 1]), index + 2
    if letter == "[" and (end := _class_end(text, index)) is not None:
        return _class(text[index + 1 : end]), end + 1
    return re.escape(letter), index + 1


def _class_end(text: str, index: int) -> int | None:
    start = index + 2 if text[index + 1 : index + 2] == "^" else index + 1
    # A bracket right at the beginning is one of the letters.
    end = text.find("]", start + 1)
    return end if end > 0 else None


def _class(inner: str) -> str:
    negated = inner.startswith("^")
    letters = re.sub(r"([\[\]&~|^])", r"\\\1", inner.removeprefix("^"))
    return f"[^/{letters}]" if negated else f"(?!/)[{letters}]"
