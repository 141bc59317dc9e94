"""Requests to a model without tools, in the dialect of its provider, and the text of its answer. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from benchyard.gateway.dialects.anthropic import AnthropicReader
from benchyard.gateway.dialects.base import ConversationReader
from benchyard.gateway.dialects.chat import ChatReader
from benchyard.gateway.dialects.gemini import GeminiReader
from benchyard.gateway.dialects.responses import ResponsesReader

_DIALECTS = {"anthropic": "anthropic", "openai": "responses", "google": "gemini"}
"""Dialects of the providers; any other upstream speaks Chat Completions."""
_READERS: Mapping[str, ConversationReader] = {
    "anthropic": AnthropicReader(),
    "responses": ResponsesReader(),
    "chat": ChatReader(),
    "gemini": GeminiReader(),
}
_ANTHROPIC_VERSION = "2023-06-01"


@dataclass(frozen=True)
class SaidText:
    """A message of a conversation: of the user, or of the model."""

    who: Literal["user", "model"]
    text: str


@dataclass(frozen=True)
class ModelQuestion:
    """A conversation that a model is asked to go on with."""

    model: str
    system: str
    messages: Sequence[SaidText]
    schema: Mapping[str, Any]
    """Schema of the answer, passed on where all models of the dialect keep to one."""
    most_tokens: int


@dataclass(frozen=True)
class DialectRequest:
    """A request, without the route and the key."""

    path: str
    headers: Mapping[str, str]
    body: bytes


def dialect_of_provider(provider: str) -> str:
    """Return the name of the dialect that a provider is asked in."""
    return _DIALECTS.get(provider, "chat")


def request_in_dialect(dialect: str, question: ModelQuestion) -> DialectRequest:
    """Return a question as a request of that dialect, without streaming."""
    path, headers, body = {
        "anthropic": _anthropic,
        "responses": _responses,
        "gemini": _gemini,
        "chat": _chat,
    }[dialect](question)
    # Escaped: half a surrogate pair cannot be encoded otherwise.
    return DialectRequest(path, headers, json.dumps(body).encode())


def text_in_dialect(dialect: str, response: Any) -> str:
    """Return the text of an answer, without the model's reasoning."""
    return _READERS[dialect].answer(response).text


_Parts = tuple[str, dict[str, str], dict[str, Any]]


def _anthropic(question: ModelQuestion) -> _Parts:
    body = {
        "model": question.model,
        "max_tokens": question.most_tokens,
        "system": question.system,
        "messages": _messages(question),
    }
    return "/v1/messages", {"anthropic-version": _ANTHROPIC_VERSION}, body


def _responses(question: ModelQuestion) -> _Parts:
    form = {"type": "json_schema", "name": "judgement", "strict": True, "schema": dict(question.schema)}
    body = {
        "model": question.model,
        "max_output_tokens": question.most_tokens,
        "instructions": question.system,
        "input": _messages(question),
        "text": {"format": form},
        "store": False,
    }
    return "/v1/responses", {}, body


def _chat(question: ModelQuestion) -> _Parts:
    system = {"role": "system", "content": question.system}
    body = {
        "model": question.model,
        "max_tokens": question.most_tokens,
        "messages": [system, *_messages(question)],
    }
    return "/v1/chat/completions", {}, body


def _gemini(question: ModelQuestion) -> _Parts:
    contents = [{"role": each.who, "parts": [{"text": each.text}]} for each in question.messages]
    body = {
        "systemInstruction": {"parts": [{"text": question.system}]},
        "contents": contents,
        "generationConfig": {
            "maxOutputTokens": question.most_tokens,
            "responseMimeType": "application/json",
        },
    }
    return f"/v1beta/models/{quote(question.model, safe='')}:generateContent", {}, body


def _messages(question: ModelQuestion) -> list[dict[str, str]]:
    roles = {"user": "user", "model": "assistant"}
    return [{"role": roles[each.who], "content": each.text} for each in question.messages]
