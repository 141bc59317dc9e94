"""OpenAI Chat Completions: `/v1/chat/completions`, with what vLLM adds to it."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from benchyard.gateway.calls import Usage
from benchyard.testing.model import tokens
from benchyard.testing.model.answers import Answer, ToolCall, parts
from benchyard.testing.model.asked import Asked, Offered, Turn, fields, items, text_of, word
from benchyard.testing.model.wires import openai
from benchyard.testing.model.wires.base import Told, Wire, data

_DONE = b"data: [DONE]\n\n"


class Chat(Wire):
    """Choices, of which there is one. Log-probabilities and ids of tokens are told to whom asks for them."""

    name = "chat"

    def read(self, path: str, body: Mapping[str, Any], size: int) -> Asked:
        wanted = fields(fields(body.get("response_format")).get("json_schema"))
        return Asked(
            model=word(body.get("model")),
            streams=body.get("stream") is True,
            turns=tuple(_turns(body)),
            tools=tuple(_tools(body)),
            body=body,
            # Counted by its texts: what a gateway adds to a request changes no token of the prompt.
            input_tokens=sum(map(tokens.count, tokens.chat_prompt(body))),
            session=word(body.get("prompt_cache_key")),
            schema=fields(wanted["schema"]) if "schema" in wanted else None,
        )

    def whole(self, asked: Asked, answer: Answer) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
        if answer.reasoning:
            message["reasoning_content"] = answer.reasoning
        if answer.calls:
            message["tool_calls"] = [_call(call) for call in answer.calls]
        said = [text for _, text in _deltas(answer)]
        return {
            **_head(asked, answer, "chat.completion"),
            **_prompt_ids(asked),
            "choices": [
                {"index": 0, "message": message, "finish_reason": _finish(answer), **_tokens(asked, said)}
            ],
            "usage": _usage(answer.usage),
        }

    def events(self, asked: Asked, answer: Answer) -> Iterator[bytes]:
        head = _head(asked, answer, "chat.completion.chunk")
        first = {"role": "assistant", "content": ""}
        begun = {"index": 0, "delta": first, "finish_reason": None}
        yield data({**head, **_prompt_ids(asked), "choices": [begun]})
        for delta, text in _deltas(answer):
            choice = {"index": 0, "delta": delta, "finish_reason": None, **_tokens(asked, [text])}
            yield data({**head, "choices": [choice]})
        ended = {"index": 0, "delta": {}, "finish_reason": _finish(answer)}
        yield data({**head, "choices": [ended]})
        if _tells_usage(asked):
            yield data({**head, "choices": [], "usage": _usage(answer.usage)})
        yield _DONE

    def error(self, status: int, message: str) -> Any:
        return openai.error(status, message)

    def told(self, asked: Asked, answer: Answer) -> Told:
        return Told(answer.usage if _tells_usage(asked) else None, followers=1)


def _tells_usage(asked: Asked) -> bool:
    return not asked.streams or fields(asked.body.get("stream_options")).get("include_usage") is True


def _turns(body: Mapping[str, Any]) -> Iterator[Turn]:
    for message in items(body.get("messages")):
        text = text_of(message.get("content"))
        match message.get("role"):
            case "assistant":
                calls = items(message.get("tool_calls"))
                yield Turn("assistant", text, tuple(word(call.get("id")) for call in calls))
            case "tool" | "function":
                yield Turn("tool", text, (word(message.get("tool_call_id")),))
            case "user":
                yield Turn("user", text)


def _tools(body: Mapping[str, Any]) -> Iterator[Offered]:
    for tool in items(body.get("tools")):
        function = fields(tool.get("function"))
        if name := word(function.get("name")):
            yield Offered(name, fields(function.get("parameters")))


def _head(asked: Asked, answer: Answer, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.number:08d}",
        "object": kind,
        "created": int(time.time()),
        "model": asked.model,
    }


def _finish(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.written}
    return {"id": call.id, "type": "function", "function": function}


def _deltas(answer: Answer) -> Iterator[tuple[dict[str, Any], str]]:
    """What a stream gives, piece by piece, each with the text that the model wrote for it."""
    for part in parts(answer.reasoning):
        yield {"reasoning_content": part}, part
    for part in parts(answer.text):
        yield {"content": part}, part
    for index, call in enumerate(answer.calls):
        text = tokens.call_text(call.name, call.written)
        begun = {**_call(call), "function": {"name": call.name, "arguments": ""}}
        yield {"tool_calls": [{"index": index, **begun}]}, text
        for part in parts(call.written):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}, ""


def _prompt_ids(asked: Asked) -> dict[str, Any]:
    if asked.body.get("return_token_ids") is not True:
        return {}
    return {"prompt_token_ids": tokens.identities(tokens.chat_prompt(asked.body))}


def _tokens(asked: Asked, said: list[str]) -> dict[str, Any]:
    """The tokens of what was said, as far as the request wants to know them."""
    told: dict[str, Any] = {}
    if asked.body.get("logprobs") is True:
        told["logprobs"] = {
            "content": [_logprob(asked, each) for text in said for each in tokens.pieces(text)]
        }
    if asked.body.get("return_token_ids") is True:
        told["token_ids"] = tokens.identities(said)
    return told


def _logprob(asked: Asked, token: str) -> dict[str, Any]:
    told = {"token": token, "logprob": tokens.logprob(token), "bytes": list(token.encode(errors="replace"))}
    return {**told, "top_logprobs": [told] if asked.body.get("top_logprobs") else []}


def _usage(usage: Usage) -> dict[str, Any]:
    cache = {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens}
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": cache,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
