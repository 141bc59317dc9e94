"""Conversations as agents have them, in each dialect: requests that grow, and their answers."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchyard.gateway.calls import Call, TokenUsage

SYSTEM = "You are an agent."
PROMPT = "Make hello.txt."


class Said(NamedTuple):
    """What a model answers: a text, thoughts, and calls of tools as (id, name, arguments)."""

    text: str = ""
    calls: Sequence[tuple[str, str, dict[str, Any]]] = ()
    thought: str = ""


def call(number: int, dialect: str, request: Any, response: Any, **more: Any) -> Call:
    """A call that was answered well."""
    paths = {"anthropic": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}
    known: dict[str, Any] = {
        "provider": "p",
        "path": paths.get(dialect, "/v1beta/models/m:generateContent"),
        "model": "m",
        "status": 200,
        "started_ms": 1_000_000 + number * 1000,
        "ended_ms": 1_000_500 + number * 1000,
        "usage": TokenUsage(100 * number, 10 * number, 5 * number),
        "cost_usd": 0.25 * number,
    }
    return Call(number=number, dialect=dialect, request=request, response=response, **{**known, **more})


class Anthropic:
    """Anthropic's Messages; the mark for the cache is on the last message only, as claude-code has it."""

    dialect = "anthropic"

    def __init__(self, system: str = SYSTEM, tools: Sequence[str] = ("Bash", "Task")) -> None:
        self.system, self.messages = system, list[dict[str, Any]]()
        self.tools = [
            {"name": name, "description": "d", "input_schema": {"type": "object"}} for name in tools
        ]

    def user(self, *texts: str) -> None:
        self.messages.append({"role": "user", "content": [{"type": "text", "text": text} for text in texts]})

    def results(self, *results: tuple[str, str, str], note: str = "") -> None:
        blocks: list[dict[str, Any]] = [
            {"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": text}]}
            for id, _name, text in results
        ]
        more = [{"type": "text", "text": note}] if note else []
        self.messages.append({"role": "user", "content": [*blocks, *more]})

    def request(self) -> Any:
        messages: list[Any] = json.loads(json.dumps(self.messages))
        messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        system = [{"type": "text", "text": self.system}]
        tools = {"tools": self.tools} if self.tools else {}
        return {"model": "m", "system": system, "messages": messages, "stream": True, **tools}

    def answer(self, said: Said) -> Any:
        blocks: list[dict[str, Any]] = []
        if said.thought:
            blocks.append({"type": "thinking", "thinking": said.thought, "signature": "s"})
        if said.text:
            blocks.append({"type": "text", "text": said.text})
        for id, name, arguments in said.calls:
            blocks.append({"type": "tool_use", "id": id, "name": name, "input": arguments})
        self.messages.append({"role": "assistant", "content": blocks})
        return {"id": "msg", "type": "message", "role": "assistant", "content": blocks}


class Chat:
    """OpenAI's Chat Completions."""

    dialect = "chat"

    def __init__(self, system: str = SYSTEM, tools: Sequence[str] = ("bash",)) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
        self.tools = [
            {"type": "function", "function": {"name": name, "description": "d", "parameters": {}}}
            for name in tools
        ]

    def user(self, *texts: str) -> None:
        for text in texts:
            self.messages.append({"role": "user", "content": text})

    def results(self, *results: tuple[str, str, str], note: str = "") -> None:
        for id, _name, text in results:
            self.messages.append({"role": "tool", "tool_call_id": id, "content": text})
        self.user(*([note] if note else []))

    def request(self) -> Any:
        tools = {"tools": self.tools} if self.tools else {}
        return {"model": "m", "messages": json.loads(json.dumps(self.messages)), **tools}

    def answer(self, said: Said) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
        if said.thought:
            message["reasoning_content"] = said.thought
        if said.calls:
            message["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                for id, name, arguments in said.calls
            ]
        self.messages.append({key: value for key, value in message.items() if key != "reasoning_content"})
        return {"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}


class Responses:
    """OpenAI's Responses, as codex speaks it; in code mode the tools are an item."""

    dialect = "responses"

    def __init__(
        self, system: str = SYSTEM, tools: Sequence[str] = ("exec_command",), code: bool = False
    ) -> None:
        self.system, self.code, self.input = system, code, list[dict[str, Any]]()
        self.tools = [{"type": "function", "name": name, "parameters": {}} for name in tools]
        if code:
            inner = [{"type": "custom", "name": name, "format": {"type": "text"}} for name in tools]
            group = {"type": "namespace", "name": "functions", "tools": inner}
            self.input.append({"type": "additional_tools", "tools": [group]})

    def user(self, *texts: str) -> None:
        for text in texts:
            content = [{"type": "input_text", "text": text}]
            self.input.append({"type": "message", "role": "user", "content": content})

    def results(self, *results: tuple[str, str, str], note: str = "") -> None:
        kind = "custom_tool_call_output" if self.code else "function_call_output"
        for id, _name, text in results:
            self.input.append({"type": kind, "call_id": id, "output": text})
        self.user(*([note] if note else []))

    def request(self) -> Any:
        known = {"model": "m", "instructions": self.system, "input": json.loads(json.dumps(self.input))}
        return {**known, "reasoning": {"effort": "high"}, **({} if self.code else {"tools": self.tools})}

    def answer(self, said: Said) -> Any:
        output: list[dict[str, Any]] = []
        if said.thought:
            output.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": said.thought}]})
        if said.text:
            content = [{"type": "output_text", "text": said.text}]
            output.append({"type": "message", "role": "assistant", "content": content})
        for id, name, arguments in said.calls:
            if self.code:
                item = {"type": "custom_tool_call", "call_id": id, "name": name, "input": arguments["input"]}
            else:
                written = json.dumps(arguments)
                item = {"type": "function_call", "call_id": id, "name": name, "arguments": written}
            output.append(item)
        self.input += output
        return {"object": "response", "status": "completed", "output": output}


class Gemini:
    """Google's Gemini; calls have no ids."""

    dialect = "gemini"

    def __init__(self, system: str = SYSTEM, tools: Sequence[str] = ("run_shell_command",)) -> None:
        self.system, self.contents = system, list[dict[str, Any]]()
        self.tools = [{"functionDeclarations": [{"name": name, "parameters": {}} for name in tools]}]

    def user(self, *texts: str) -> None:
        self.contents.append({"role": "user", "parts": [{"text": text} for text in texts]})

    def results(self, *results: tuple[str, str, str], note: str = "") -> None:
        parts: list[dict[str, Any]] = [
            {"functionResponse": {"name": name, "response": {"output": text}}} for _id, name, text in results
        ]
        self.contents.append({"role": "user", "parts": [*parts, *([{"text": note}] if note else [])]})

    def request(self) -> Any:
        system = {"parts": [{"text": self.system}]}
        return {
            "systemInstruction": system,
            "contents": json.loads(json.dumps(self.contents)),
            "tools": self.tools,
        }

    def answer(self, said: Said) -> Any:
        parts: list[dict[str, Any]] = []
        if said.thought:
            parts.append({"text": said.thought, "thought": True})
        if said.text:
            parts.append({"text": said.text})
        for _id, name, arguments in said.calls:
            parts.append({"functionCall": {"name": name, "args": arguments}})
        content = {"role": "model", "parts": parts}
        self.contents.append(content)
        return {"candidates": [{"content": content, "finishReason": "STOP"}]}


Script = Anthropic | Chat | Responses | Gemini


def next_call(script: Script, number: int, said: Said, **more: Any) -> Call:
    """The next call of a conversation."""
    request = script.request()
    return call(number, script.dialect, request, script.answer(said), **more)
