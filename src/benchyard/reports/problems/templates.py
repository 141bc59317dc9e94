"""Templates of messages that are equal but for numbers, ids, paths and quotes. Pure."""

import re
from collections.abc import Iterable, Sequence

WILD = "<*>"
MOST_WORDS = 60
MOST_TEMPLATES = 1000
_MOST_CHARACTERS = 2000
_SAME_SHARE = 0.6
_VARYING = (
    re.compile(r"\"[^\"\n]{0,300}\"|'[^'\n]{0,300}'|`[^`\n]{0,300}`"),
    re.compile(r"\bhttps?://\S{1,300}"),
    re.compile(r"(?<![\w.])(?:~|\.{1,2})?/[\w.@+-]{1,200}(?:/[\w.@+-]{0,200}){0,40}"),
    re.compile(r"\b[a-z]{2,5}_[0-9A-Za-z]{8,}\b"),
    re.compile(r"\b(?:0x)?[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,}){0,4}\b"),
    re.compile(r"\b\d+(?:\.\d+)?(?:ms|s|m|h|%|[kKMG]i?B)?\b"),
)


def normal(message: str) -> list[str]:
    """Return the words of a message without its varying parts."""
    text = message[:_MOST_CHARACTERS]
    for pattern in _VARYING:
        text = pattern.sub(WILD, text)
    return text.split()[:MOST_WORDS]


class TemplateTree:
    """Templates of messages: those of equal length and first word are compared word by word."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, str], list[int]] = {}
        self._templates: list[list[str]] = []

    def add(self, message: str) -> int:
        """Return the number of the template that a message fits, which becomes wider if it must."""
        words = normal(message)
        group = self._groups.setdefault((len(words), words[0] if words else ""), [])
        for number in group:
            template = self._templates[number]
            # Gaps on both sides are no likeness.
            said = [(a, b) for a, b in zip(template, words, strict=True) if not (WILD in a and WILD in b)]
            if sum(a == b for a, b in said) >= _SAME_SHARE * len(said):
                self._templates[number] = [
                    a if a == b else WILD for a, b in zip(template, words, strict=True)
                ]
                return number
        if len(self._templates) >= MOST_TEMPLATES:
            # So many different messages are no groups; the rest counts with the last.
            return len(self._templates) - 1
        self._templates.append(words)
        group.append(len(self._templates) - 1)
        return len(self._templates) - 1

    def text(self, number: int) -> str:
        """Return a template as text."""
        return " ".join(self._templates[number])


def templates_of(messages: Iterable[str]) -> Sequence[str]:
    """Return the template of each message, as it is when all have been seen."""
    tree = TemplateTree()
    numbers = [tree.add(message) for message in messages]
    return [tree.text(number) for number in numbers]
