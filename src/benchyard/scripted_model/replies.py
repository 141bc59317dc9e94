"""A reply of the model, in no dialect yet, and the made-up tokens it consists of."""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.values import fields
from benchyard.gateway.dialects.values import text as word
from benchyard.scripted_model.requests import items, text_of
from benchyard.scripted_model.scripts import StepUsage

LETTERS = 4
_VOCABULARY = 100_000


def count_tokens(text: str) -> int:
    """Return the number of tokens of a text."""
    return -(-len(text) // LETTERS)


def split_tokens(text: str) -> list[str]:
    """Split a text into tokens."""
    return [text[start : start + LETTERS] for start in range(0, len(text), LETTERS)]


def token_id(token: str) -> int:
    """Return the number of a token."""
    return zlib.crc32(token.encode(errors="replace")) % _VOCABULARY


def token_ids(texts: Iterable[str]) -> list[int]:
    """Return the numbers of the tokens of several texts, one after the other."""
    return [token_id(token) for text in texts for token in split_tokens(text)]


def token_logprob(token: str) -> float:
    """Return the made-up log-probability of a token: between -1 and 0."""
    return -(token_id(token) % 1000) / 1000


def call_text(name: str, arguments: str) -> str:
    """Return the text of a tool call, as the model would have written it."""
    return f"<call>{name} {arguments}</call>"


def chat_prompt(body: Mapping[str, Any]) -> list[str]:
    """Return the texts of a Chat request, in the order in which a model reads them.

    The model's earlier messages stand in them as it wrote them, so that the prompt of one turn and its reply
    are the beginning of the prompt of the next.
    """
    texts = [json.dumps(body["tools"])] if body.get("tools") else []
    for message in items(body.get("messages")):
        texts += [f"<{word(message.get('role'))}>", *_message_texts(message)]
    return [*texts, "<assistant>"]


def _message_texts(message: Mapping[str, Any]) -> list[str]:
    texts = [text_of(message.get("content"))]
    for call in items(message.get("tool_calls")):
        function = fields(call.get("function"))
        texts.append(call_text(word(function.get("name")), word(function.get("arguments"))))
    return texts


_MOST_PARTS = 8


@dataclass(frozen=True)
class ScriptedToolCall:
    """A call of a tool."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    code: str | None = None
    """Input of a tool that takes a text instead of arguments."""

    @property
    def written(self) -> str:
        """Return the tool's input, as a text."""
        return json.dumps(self.arguments, ensure_ascii=False) if self.code is None else self.code


@dataclass(frozen=True)
class ScriptedReply:
    """A reply of the model."""

    number: int
    """Counted from 1, in the order of replies; its ids are derived from it."""
    text: str = ""
    reasoning: str = ""
    calls: tuple[ScriptedToolCall, ...] = ()
    usage: TokenUsage = field(default_factory=TokenUsage)


@dataclass(frozen=True)
class ReplyParts:
    """The parts of a reply, before its usage is known."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ScriptedToolCall, ...] = ()

    @property
    def output_tokens(self) -> int:
        """Return the number of its tokens, without the reasoning."""
        calls = (call_text(call.name, call.written) for call in self.calls)
        return count_tokens(self.text) + sum(map(count_tokens, calls))


def make_reply(number: int, said: ReplyParts, usage: StepUsage, input_tokens: int) -> ScriptedReply:
    """Make a reply with its usage: as the step says, and counted where the step does not say."""
    cached, cache_written = usage.cached_tokens, usage.cache_write_tokens
    thought = usage.reasoning_tokens
    if thought is None:
        counted = count_tokens(said.reasoning)
        thought = counted if usage.output_tokens is None else min(counted, usage.output_tokens)
    taken = usage.input_tokens
    given = usage.output_tokens
    return ScriptedReply(
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
    """Split a text into a few parts, as in a stream; each but the last is whole tokens."""
    size = max(1, -(-count_tokens(text) // _MOST_PARTS)) * LETTERS
    for start in range(0, len(text), size):
        yield text[start : start + size]
