"""Logprobs and token ids are asked for on the agent's behalf, kept, and not shown to it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from benchyard.gateway.proxy.logprobs import EventStripper, request_with_logprobs
from benchyard.testing.loop_probe import loop_probe
from tests.gateway.station import TOKEN, Replied, Station, live, streamed

PATH = "/openai/v1/chat/completions"
LOGPROBS = {"content": [{"token": "hi", "logprob": -0.25}]}
REQUEST = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]}


def completion(**extra: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    whole = {"id": "c", "object": "chat.completion", "model": "gpt-4o", "choices": [{**choice, **extra}]}
    return {**whole, "usage": usage}


def chunk(**choice: Any) -> dict[str, Any]:
    head = {"id": "c", "object": "chat.completion.chunk", "model": "gpt-4o"}
    return {**head, "choices": [{"index": 0, **choice}]}


async def asked(station: Station, **extra: Any) -> Replied:
    return await station.ask(PATH, json.dumps({**REQUEST, **extra}).encode())


@live
async def test_they_are_asked_for_kept_and_stripped(tmp_path: Path) -> None:
    full = {**completion(logprobs=LOGPROBS, token_ids=[7]), "prompt_token_ids": [1, 2, 3]}

    async def answer(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        return web.json_response(full)

    async with Station(tmp_path / "gateway") as station:
        station.behind.answer = answer
        await station.grant(logprobs=True)
        reply = await asked(station)
        added = {"logprobs": True, "return_token_ids": True}
        assert json.loads(station.behind.seen[0].body) == {**REQUEST, **added}
        assert reply.json == completion(logprobs=None)
        (call,) = await station.calls()
        assert (call.request, call.response) == (REQUEST, full)
        assert call.usage is not None


@live
async def test_of_a_stream_they_are_stripped_event_by_event(tmp_path: Path) -> None:
    told = [
        {**chunk(delta={"content": "hi"}, logprobs=LOGPROBS, token_ids=[7]), "prompt_token_ids": [1]},
        chunk(delta={}, finish_reason="stop"),
        {**chunk(), "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}},
    ]
    stream = b": hello\n\n" + b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in told)
    stream += b"data: [DONE]\n\n"

    async def answer(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        return await streamed(request, [stream[start : start + 7] for start in range(0, len(stream), 7)])

    async with Station(tmp_path / "gateway") as station:
        station.behind.answer = answer
        await station.grant(logprobs=True)
        reply = await asked(station, stream=True)
        stripped = json.dumps(chunk(delta={"content": "hi"}, logprobs=None)).encode()
        assert reply.body == stream.replace(json.dumps(told[0]).encode(), stripped)
        (call,) = await station.calls()
        (choice,) = call.response["choices"]
        assert (choice["logprobs"], choice["token_ids"]) == (LOGPROBS, [7])


@live
async def test_fields_that_the_agent_asked_for_are_kept(tmp_path: Path) -> None:
    async def answer(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        return web.json_response(completion(logprobs=LOGPROBS, token_ids=[7]))

    async with Station(tmp_path / "gateway") as station:
        station.behind.answer = answer
        await station.grant(logprobs=True)
        assert (await asked(station, logprobs=True)).json == completion(logprobs=LOGPROBS)
        sent = json.dumps({**REQUEST, "logprobs": False, "return_token_ids": True}).encode()
        assert (await station.ask(PATH, sent)).json == completion(logprobs=LOGPROBS, token_ids=[7])
        assert station.behind.seen[1].body == sent


@live
async def test_other_dialects_and_other_grants_pass_unchanged(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant(logprobs=True)
        await station.ask("/anthropic/v1/messages", b'{ "model":  "m" }')
        await station.grant(id="plain", token=f"{TOKEN}-plain")
        await station.ask(PATH, b'{ "model":  "m" }', {"x-api-key": f"{TOKEN}-plain"})
        assert [seen.body for seen in station.behind.seen] == [b'{ "model":  "m" }'] * 2


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_other_events_pass_unchanged(size: int) -> None:
    stream = b'event: x\r\ndata: {"choices": 5}\r\n\r\ndata: nonsense\n\ndata: {"a": [\n: c\n\ndata: end'
    stripping = EventStripper(frozenset({"logprobs", "return_token_ids"}))
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert b"".join([*map(stripping.feed, pieces), stripping.end()]) == stream


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize(
    ("messages", "is_asked"),
    [
        (b"[" + b"{}," * (8 * 1024**2) + b"{}]", False),
        (b"[" + b"1," * (8 * 1024**2) + b"1]", False),
        (b"[" * (8 * 1024**2), False),
        (b'["' + b"\\u0041" * (3 * 1024**2) + b'"]', True),
    ],
    ids=["objects", "numbers", "depth", "letters"],
)
@live
async def test_no_request_is_felt_while_they_are_asked_for(
    tmp_path: Path, messages: bytes, is_asked: bool
) -> None:
    sent = b'{"model": "m", "messages": ' + messages + b" } "
    async with Station(tmp_path / "gateway") as station:
        await station.grant(logprobs=True)
        await asked(station)
        with loop_probe() as probe:
            await station.ask(PATH, sent)
        assert [each for each in probe.slow if "logprobs" in each or "_pass" in each] == []
        begun = time.thread_time()
        passed, added = request_with_logprobs(sent)
        assert time.thread_time() - begun < 0.5
        assert station.behind.seen[1].body == passed
        assert bool(added) == is_asked
        if is_asked:
            assert passed == sent.rstrip()[:-1] + b', "logprobs": true, "return_token_ids": true}'
