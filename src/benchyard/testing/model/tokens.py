"""Tokens that are made up, always alike: pieces of four letters, with ids and probabilities of their own."""

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from benchyard.testing.model.asked import fields, items, text_of, word

LETTERS = 4
_VOCABULARY = 100_000


def count(text: str) -> int:
    """How many tokens a text is."""
    return -(-len(text) // LETTERS)


def pieces(text: str) -> list[str]:
    """The tokens of a text."""
    return [text[start : start + LETTERS] for start in range(0, len(text), LETTERS)]


def identity(token: str) -> int:
    """The number of a token."""
    return zlib.crc32(token.encode(errors="replace")) % _VOCABULARY


def identities(texts: Iterable[str]) -> list[int]:
    """The numbers of the tokens of several texts, one after the other."""
    return [identity(token) for text in texts for token in pieces(text)]


def logprob(token: str) -> float:
    """How likely the model says that a token was: between -1 and 0."""
    return -(identity(token) % 1000) / 1000


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
