"""OpenAI Chat Completions: `/v1/chat/completions`, with vLLM's additions."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.values import fields
from benchyard.gateway.dialects.values import text as word
from benchyard.scripted_model import replies
from benchyard.scripted_model.replies import ScriptedReply, ScriptedToolCall, text_parts
from benchyard.scripted_model.requests import ConversationMessage, ModelRequest, OfferedTool, items, text_of
from benchyard.scripted_model.wires import base
from benchyard.scripted_model.wires.base import ModelWire, ReportedUsage, data_event

_DONE = b"data: [DONE]\n\n"


class ChatWire(ModelWire):
    """Wire with a single choice. Log-probabilities and ids of tokens are sent on request."""

    name = "chat"

    def read(self, path: str, body: Mapping[str, Any], size: int) -> ModelRequest:
        schema = fields(fields(body.get("response_format")).get("json_schema"))
        return ModelRequest(
            model=word(body.get("model")),
            streams=body.get("stream") is True,
            turns=tuple(_turns(body)),
            tools=tuple(_tools(body)),
            body=body,
            # Counted by its texts: a gateway's additions to a request change no token of the prompt.
            input_tokens=sum(map(replies.count_tokens, replies.chat_prompt(body))),
            session=word(body.get("prompt_cache_key")),
            schema=fields(schema["schema"]) if "schema" in schema else None,
        )

    def whole(self, request: ModelRequest, reply: ScriptedReply) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        if reply.calls:
            message["tool_calls"] = [_call(call) for call in reply.calls]
        said = [text for _, text in _deltas(reply)]
        return {
            **_head(request, reply, "chat.completion"),
            **_prompt_ids(request),
            "choices": [
                {"index": 0, "message": message, "finish_reason": _finish(reply), **_tokens(request, said)}
            ],
            "usage": _usage(reply.usage),
        }

    def events(self, request: ModelRequest, reply: ScriptedReply) -> Iterator[bytes]:
        head = _head(request, reply, "chat.completion.chunk")
        first = {"role": "assistant", "content": ""}
        begun = {"index": 0, "delta": first, "finish_reason": None}
        yield data_event({**head, **_prompt_ids(request), "choices": [begun]})
        for delta, text in _deltas(reply):
            choice = {"index": 0, "delta": delta, "finish_reason": None, **_tokens(request, [text])}
            yield data_event({**head, "choices": [choice]})
        ended = {"index": 0, "delta": {}, "finish_reason": _finish(reply)}
        yield data_event({**head, "choices": [ended]})
        if _tells_usage(request):
            yield data_event({**head, "choices": [], "usage": _usage(reply.usage)})
        yield _DONE

    def error(self, status: int, message: str) -> Any:
        return base.openai_error(status, message)

    def reported_usage(self, request: ModelRequest, reply: ScriptedReply) -> ReportedUsage:
        return ReportedUsage(reply.usage if _tells_usage(request) else None, followers=1)


def _tells_usage(request: ModelRequest) -> bool:
    return not request.streams or fields(request.body.get("stream_options")).get("include_usage") is True


def _turns(body: Mapping[str, Any]) -> Iterator[ConversationMessage]:
    for message in items(body.get("messages")):
        text = text_of(message.get("content"))
        match message.get("role"):
            case "assistant":
                calls = items(message.get("tool_calls"))
                yield ConversationMessage("assistant", text, tuple(word(call.get("id")) for call in calls))
            case "tool" | "function":
                yield ConversationMessage("tool", text, (word(message.get("tool_call_id")),))
            case "user":
                yield ConversationMessage("user", text)


def _tools(body: Mapping[str, Any]) -> Iterator[OfferedTool]:
    for tool in items(body.get("tools")):
        function = fields(tool.get("function"))
        if name := word(function.get("name")):
            yield OfferedTool(name, fields(function.get("parameters")))


def _head(request: ModelRequest, reply: ScriptedReply, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{reply.number:08d}",
        "object": kind,
        "created": int(time.time()),
        "model": request.model,
    }


def _finish(reply: ScriptedReply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _call(call: ScriptedToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.written}
    return {"id": call.id, "type": "function", "function": function}


def _deltas(reply: ScriptedReply) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the pieces of a stream, each with the text that the model wrote for it."""
    for part in text_parts(reply.reasoning):
        yield {"reasoning_content": part}, part
    for part in text_parts(reply.text):
        yield {"content": part}, part
    for index, call in enumerate(reply.calls):
        text = replies.call_text(call.name, call.written)
        begun = {**_call(call), "function": {"name": call.name, "arguments": ""}}
        yield {"tool_calls": [{"index": index, **begun}]}, text
        for part in text_parts(call.written):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}, ""


def _prompt_ids(request: ModelRequest) -> dict[str, Any]:
    if request.body.get("return_token_ids") is not True:
        return {}
    return {"prompt_token_ids": replies.token_ids(replies.chat_prompt(request.body))}


def _tokens(request: ModelRequest, said: list[str]) -> dict[str, Any]:
    """Return the tokens of a text, as far as the request asks for them."""
    fields: dict[str, Any] = {}
    if request.body.get("logprobs") is True:
        fields["logprobs"] = {
            "content": [_logprob(request, token) for text in said for token in replies.split_tokens(text)]
        }
    if request.body.get("return_token_ids") is True:
        fields["token_ids"] = replies.token_ids(said)
    return fields


def _logprob(request: ModelRequest, token: str) -> dict[str, Any]:
    fields = {
        "token": token,
        "logprob": replies.token_logprob(token),
        "bytes": list(token.encode(errors="replace")),
    }
    return {**fields, "top_logprobs": [fields] if request.body.get("top_logprobs") else []}


def _usage(usage: TokenUsage) -> dict[str, Any]:
    cache = {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens}
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": cache,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
