"""Clients of the four dialects, as small as they can be: what they send, and what they read."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from benchyard.gateway.calls import TokenUsage

DIALECTS = ("anthropic", "responses", "chat", "gemini")
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
PATHS = {
    "anthropic": "/anthropic/v1/messages",
    "responses": "/openai/v1/responses",
    "chat": "/openai/v1/chat/completions",
    "gemini": "/google/v1beta/models/gemini-m:",
}
KEY_HEADERS = {
    "anthropic": ("x-api-key", ""),
    "responses": ("authorization", "Bearer "),
    "chat": ("authorization", "Bearer "),
    "gemini": ("x-goog-api-key", ""),
}


@dataclass
class Said:
    """What an answer says, in words that all dialects share."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    usage: TokenUsage | None = None


def model_of(dialect: str) -> str:
    return "gemini-m" if dialect == "gemini" else "m"


def path(dialect: str, *, streams: bool = False) -> str:
    verb = "streamGenerateContent?alt=sse" if streams else "generateContent"
    return PATHS[dialect] + (verb if dialect == "gemini" else "")


def body(
    dialect: str, prompt: str, *, results: int = 0, streams: bool = False, tools: bool = True
) -> dict[str, Any]:
    """A request in a conversation in which so many tools have given their results."""
    made: dict[str, Any] = {"model": "m"} if dialect != "gemini" else {}
    if tools:
        made["tools"] = _tools(dialect)
    if streams and dialect != "gemini":
        made["stream"] = True
    if streams and dialect == "chat":
        made["stream_options"] = {"include_usage": True}
    said = [_user(dialect, prompt)]
    for number in range(results):
        said += _round(dialect, f"old_{number}")
    made[{"responses": "input", "gemini": "contents"}.get(dialect, "messages")] = said
    return made


def _tools(dialect: str) -> Any:
    match dialect:
        case "anthropic":
            return [{"name": "Bash", "input_schema": SCHEMA}]
        case "responses":
            return [{"type": "function", "name": "shell", "parameters": SCHEMA}]
        case "chat":
            return [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}]
        case _:
            return [{"functionDeclarations": [{"name": "run_shell_command", "parametersJsonSchema": SCHEMA}]}]


def _user(dialect: str, text: str) -> dict[str, Any]:
    if dialect == "gemini":
        return {"role": "user", "parts": [{"text": text}]}
    return {"role": "user", "content": text}


def _round(dialect: str, call: str) -> list[dict[str, Any]]:
    """A call of a tool, and its result."""
    match dialect:
        case "anthropic":
            use = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": "ls"}}
            result = {"type": "tool_result", "tool_use_id": call, "content": "ok"}
            return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        case "responses":
            made = {"type": "function_call", "call_id": call, "name": "shell", "arguments": "{}"}
            return [made, {"type": "function_call_output", "call_id": call, "output": "ok"}]
        case "chat":
            function = {"name": "bash", "arguments": "{}"}
            calls = [{"id": call, "type": "function", "function": function}]
            spoken = {"role": "assistant", "content": None, "tool_calls": calls}
            return [spoken, {"role": "tool", "tool_call_id": call, "content": "ok"}]
        case _:
            calling = {"functionCall": {"name": "run_shell_command", "args": {}}}
            answered = {"functionResponse": {"name": "run_shell_command", "response": {}}}
            return [{"role": "model", "parts": [calling]}, {"role": "user", "parts": [answered]}]


def ask(url: str, dialect: str, prompt: str, **options: Any) -> httpx.Response:
    """Send a request and read all of its answer."""
    streams = bool(options.get("streams"))
    sent = body(dialect, prompt, **options)
    return httpx.post(url + path(dialect, streams=streams), json=sent, timeout=60, trust_env=False)


def events(text: str) -> Iterator[Any]:
    """The JSON of each event of a stream; its name, where it has one, is that of its type."""
    for block in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        assert set(lines) <= {"event", "data"}
        if lines["data"] != "[DONE]":
            event = json.loads(lines["data"])
            assert lines.get("event") in (None, event.get("type"))
            yield event


def said(dialect: str, answer: Any) -> Said:
    """What a whole answer says."""
    found = Said()
    {"anthropic": _anthropic, "responses": _responses, "chat": _chat, "gemini": _gemini}[dialect](
        answer, found
    )
    return found


def _anthropic(answer: Any, found: Said) -> None:
    for block in answer["content"]:
        found.reasoning += block.get("thinking", "")
        found.text += block.get("text", "")
        if block["type"] == "tool_use":
            found.calls.append((block["name"], block["input"]))
    told = answer["usage"]
    read, written = told["cache_read_input_tokens"], told["cache_creation_input_tokens"]
    thought = told.get("output_tokens_details", {}).get("thinking_tokens", 0)
    found.usage = TokenUsage(
        told["input_tokens"] + read + written, told["output_tokens"], read, written, thought
    )


def _responses(answer: Any, found: Said) -> None:
    for item in answer["output"]:
        found.reasoning += "".join(part["text"] for part in item.get("summary", ()))
        found.text += "".join(part["text"] for part in item.get("content", ()))
        if item["type"] == "function_call":
            found.calls.append((item["name"], json.loads(item["arguments"])))
        if item["type"] == "custom_tool_call":
            found.calls.append((item["name"], item["input"]))
    told = answer["usage"]
    inner, outer = told["input_tokens_details"], told["output_tokens_details"]
    found.usage = TokenUsage(
        told["input_tokens"],
        told["output_tokens"],
        inner["cached_tokens"],
        inner["cache_write_tokens"],
        outer["reasoning_tokens"],
    )


def _chat(answer: Any, found: Said) -> None:
    message = answer["choices"][0]["message"]
    found.text, found.reasoning = message["content"] or "", message.get("reasoning_content", "")
    for call in message.get("tool_calls", ()):
        found.calls.append((call["function"]["name"], json.loads(call["function"]["arguments"])))
    told = answer["usage"]
    inner, outer = told["prompt_tokens_details"], told["completion_tokens_details"]
    found.usage = TokenUsage(
        told["prompt_tokens"],
        told["completion_tokens"],
        inner["cached_tokens"],
        inner["cache_write_tokens"],
        outer["reasoning_tokens"],
    )


def _gemini(answer: Any, found: Said) -> None:
    for part in answer["candidates"][0]["content"]["parts"]:
        if part.get("thought"):
            found.reasoning += part["text"]
        elif "text" in part:
            found.text += part["text"]
        else:
            found.calls.append((part["functionCall"]["name"], part["functionCall"]["args"]))
    if told := answer.get("usageMetadata"):
        thought = told.get("thoughtsTokenCount", 0)
        made = told["candidatesTokenCount"] + thought
        cached = told.get("cachedContentTokenCount", 0)
        found.usage = TokenUsage(told["promptTokenCount"], made, cached, 0, thought)
