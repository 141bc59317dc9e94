"""One answer of the model, whatever its dialect, and the made-up tokens it consists of."""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchyard.gateway.calls import TokenUsage
from benchyard.scripted_model.requests import fields, items, text_of, word
from benchyard.scripted_model.scripts import StepUsage

LETTERS = 4
_VOCABULARY = 100_000


def count_tokens(text: str) -> int:
    """How many tokens a text is."""
    return -(-len(text) // LETTERS)


def split_tokens(text: str) -> list[str]:
    """The tokens of a text."""
    return [text[start : start + LETTERS] for start in range(0, len(text), LETTERS)]


def token_id(token: str) -> int:
    """The number of a token."""
    return zlib.crc32(token.encode(errors="replace")) % _VOCABULARY


def token_ids(texts: Iterable[str]) -> list[int]:
    """The numbers of the tokens of several texts, one after the other."""
    return [token_id(token) for text in texts for token in split_tokens(text)]


def token_logprob(token: str) -> float:
    """How likely the model says that a token was: between -1 and 0."""
    return -(token_id(token) % 1000) / 1000


def call_text(name: str, arguments: str) -> str:
    """A call of a tool, as the model would have written it."""
    return f"<call>{name} {arguments}</call>"


def chat_prompt(body: Mapping[str, Any]) -> list[str]:
    """The texts that a Chat request comes to, in the order in which a model reads them.

    What the model wrote before stands in them as it wrote it, so that the prompt of one turn and its answer
    are the beginning of the prompt of the next.
    """
    texts = [json.dumps(body["tools"])] if body.get("tools") else []
    for message in items(body.get("messages")):
        texts += [f"<{word(message.get('role'))}>", *_said(message)]
    return [*texts, "<assistant>"]


def _said(message: Mapping[str, Any]) -> list[str]:
    texts = [text_of(message.get("content"))]
    for call in items(message.get("tool_calls")):
        function = fields(call.get("function"))
        texts.append(call_text(word(function.get("name")), word(function.get("arguments"))))
    return texts


_MOST_PARTS = 8


@dataclass(frozen=True)
class ScriptedToolCall:
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
class ScriptedAnswer:
    """What the model says."""

    number: int
    """From 1, in the order of answers; its ids come of it."""
    text: str = ""
    reasoning: str = ""
    calls: tuple[ScriptedToolCall, ...] = ()
    usage: TokenUsage = field(default_factory=TokenUsage)


@dataclass(frozen=True)
class AnswerParts:
    """What an answer consists of, before it is known what that used."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ScriptedToolCall, ...] = ()

    @property
    def output_tokens(self) -> int:
        """How many tokens it is, without the reasoning."""
        calls = (call_text(call.name, call.written) for call in self.calls)
        return count_tokens(self.text) + sum(map(count_tokens, calls))


def make_answer(number: int, said: AnswerParts, usage: StepUsage, input_tokens: int) -> ScriptedAnswer:
    """An answer, with what it used: as the step says, and counted where that says nothing."""
    cached, cache_written = usage.cached_tokens, usage.cache_write_tokens
    thought = usage.reasoning_tokens
    if thought is None:
        counted = count_tokens(said.reasoning)
        thought = counted if usage.output_tokens is None else min(counted, usage.output_tokens)
    taken = usage.input_tokens
    given = usage.output_tokens
    return ScriptedAnswer(
        number,
        said.text,
        said.reasoning,
        said.calls,
        TokenUsage(
            input_tokens=max(input_tokens, cached + cache_written) if taken is None else taken,
            output_tokens=said.output_tokens + thought if given is None else given,
            cached_tokens=cached,
            cache_write_tokens=cache_written,
            reasoning_tokens=thought,
        ),
    )


def text_parts(text: str) -> Iterator[str]:
    """A text in a few parts, as a stream gives it; each but the last is whole tokens."""
    size = max(1, -(-count_tokens(text) // _MOST_PARTS)) * LETTERS
    for start in range(0, len(text), size):
        yield text[start : start + size]
