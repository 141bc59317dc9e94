"""One answer of the model, whatever the dialect it is given in."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchyard.gateway.calls import Usage
from benchyard.testing.model import tokens
from benchyard.testing.model.scripts import StepUsage

_MOST_PARTS = 8


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    code: str | None = None
    """What a tool gets that takes a text instead of arguments."""

    @property
    def written(self) -> str:
        """What the tool gets, as a text."""
        return json.dumps(self.arguments, ensure_ascii=False) if self.code is None else self.code


@dataclass(frozen=True)
class Answer:
    """What the model says."""

    number: int
    """From 1, in the order of answers; its ids come of it."""
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True)
class Said:
    """What an answer consists of, before it is known what that used."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()

    @property
    def output_tokens(self) -> int:
        """How many tokens it is, without the reasoning."""
        calls = (tokens.call_text(call.name, call.written) for call in self.calls)
        return tokens.count(self.text) + sum(map(tokens.count, calls))


def answer(number: int, said: Said, usage: StepUsage, input_tokens: int) -> Answer:
    """An answer, with what it used: as the step says, and counted where that says nothing."""
    cached, cache_written = usage.cached_tokens, usage.cache_write_tokens
    thought = usage.reasoning_tokens
    if thought is None:
        counted = tokens.count(said.reasoning)
        thought = counted if usage.output_tokens is None else min(counted, usage.output_tokens)
    taken = usage.input_tokens
    given = usage.output_tokens
    return Answer(
        number,
        said.text,
        said.reasoning,
        said.calls,
        Usage(
            input_tokens=max(input_tokens, cached + cache_written) if taken is None else taken,
            output_tokens=said.output_tokens + thought if given is None else given,
            cached_tokens=cached,
            cache_write_tokens=cache_written,
            reasoning_tokens=thought,
        ),
    )


def parts(text: str) -> Iterator[str]:
    """A text in a few parts, as a stream gives it; each but the last is whole tokens."""
    size = max(1, -(-tokens.count(text) // _MOST_PARTS)) * tokens.LETTERS
    for start in range(0, len(text), size):
        yield text[start : start + size]
