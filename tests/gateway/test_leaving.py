"""Agents that do not wait for the end of an answer: what it used is counted all the same."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from benchyard.gateway.calls import TokenUsage
from benchyard.scripted_model import RunningModel
from tests.gateway.station import KEY, TOKEN, Station, events, eventually, live, message, streamed
from tests.scripted_model.asking import DIALECTS, body, path

CHAT: list[dict[str, Any]] = [
    {"choices": [{"index": 0, "delta": {"content": "well"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}},
]
LAST = {
    "anthropic": b"message_stop",
    "responses": b"response.completed",
    "chat": b"[DONE]",
    "gemini": b"STOP",
}


def sent(*told: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps({"model": "gpt-4o", **each}).encode() + b"\n\n" for each in told)


class Held:
    """An upstream that says so much, and the rest only when it is told to."""

    def __init__(self, first: bytes, rest: bytes = b"") -> None:
        self.first = first
        self.rest = rest
        self.go_on = asyncio.Event()
        self.ended = asyncio.Event()

    async def answer(self, request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        response = await streamed(request, [self.first])
        try:
            await self.go_on.wait()
            await response.write(self.rest)
            return response
        finally:
            self.ended.set()


async def begun(
    station: Station, held: Held, where: str = "/anthropic/v1/messages"
) -> aiohttp.ClientResponse:
    """An answer of which the agent has heard the first part."""
    station.behind.answer = held.answer
    request = {"model": "gpt-4o", "stream": True}
    reply = await station.agent.post(station.url(where), json=request, headers={"x-api-key": TOKEN})
    assert await reply.content.readexactly(len(held.first)) == held.first
    return reply


async def over(station: Station) -> None:
    await eventually(lambda: not any(each.open for each in station.ledger.accounts()), "it is over")


@live
async def test_an_agent_that_hangs_up_after_the_last_word_has_heard_all_of_it(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        held = Held(b"".join(events()))
        (await begun(station, held)).close()
        await held.ended.wait()
        await over(station)
        (call,) = await station.calls()
        assert (call.error, call.usage) == (None, TokenUsage(10, 5))
        spent = await station.spent()
        assert (spent.usage, spent.last_error, spent.last_status) == (TokenUsage(10, 5), None, 200)
        assert spent.cost_usd == pytest.approx(10 * 3e-6 + 5 * 15e-6)


@live
async def test_a_token_that_is_revoked_after_the_last_word_costs_no_call(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        reply = await begun(station, Held(b"".join(events())))
        spent = await station.ledger.revoke("trial")
        assert (spent.calls, spent.usage, spent.last_error) == (1, TokenUsage(10, 5), None)
        reply.close()


async def parted(station: Station, reply: aiohttp.ClientResponse) -> None:
    """Until the gateway has noticed that the agent has gone."""
    (account,) = station.ledger.accounts()
    reply.close()
    await eventually(lambda: all(task.cancelling() for task in account.open), "it is noticed")


@pytest.mark.parametrize("is_revoked", [False, True])
@live
async def test_usage_is_recorded_after_the_client_hung_up(tmp_path: Path, is_revoked: bool) -> None:
    """Some hang up when a model says that it is finished; what it used comes after that."""
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        held = Held(sent(*CHAT[:2]), sent(CHAT[2]) + b"data: [DONE]\n\n")
        reply = await begun(station, held, "/openai/v1/chat/completions")
        await parted(station, reply)
        # An agent that has gone is one that has ended, mostly.
        revoking = [station.ledger.revoke("trial")] if is_revoked else []
        ending = asyncio.gather(*revoking)
        held.go_on.set()
        await ending
        await held.ended.wait()
        await over(station)
        (call,) = await station.calls()
        assert (call.error, call.usage) == (None, TokenUsage(10, 5))


@live
async def test_what_is_recorded_after_the_client_hung_up_has_no_key(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        echoed = {"choices": [{"index": 0, "delta": {"content": KEY}, "finish_reason": "stop"}]}
        held = Held(sent(CHAT[0]), sent(echoed) + b"data: [DONE]\n\n")
        reply = await begun(station, held, "/openai/v1/chat/completions")
        await parted(station, reply)
        held.go_on.set()
        await held.ended.wait()
        await over(station)
        (call,) = await station.calls()
        assert "*" * len(KEY) in repr(call.response)
        assert KEY not in repr(call.response)


@live
async def test_a_reply_cut_off_by_leaving_counts_its_reported_usage(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        held = Held(b"".join(events()[:3]))
        (await begun(station, held)).close()
        await held.ended.wait()
        await over(station)
        (call,) = await station.calls()
        assert (call.error, call.usage, call.cost_usd) == (
            "the agent went away before the answer had ended",
            TokenUsage(10, 1),
            None,
        )
        assert (await station.spent()).usage == TokenUsage(10, 1)


@live
async def test_a_body_that_comes_after_its_token_was_ended_is_refused(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant()
        content = json.dumps({"model": "m", "messages": []}).encode()
        reader, writer = await asyncio.open_connection(*station.address)
        head = f"POST /anthropic/v1/messages HTTP/1.1\r\nHost: gateway\r\nx-api-key: {TOKEN}\r\n"
        writer.write(f"{head}Content-Length: {len(content)}\r\nExpect: 100-continue\r\n\r\n".encode())
        # It has been let in, and its body is waited for.
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        assert (await station.ledger.revoke("trial")).calls == 0
        writer.write(content)
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 401 ")
        writer.close()
        assert station.behind.seen == []


@pytest.mark.parametrize("dialect", DIALECTS)
@live
async def test_totals_are_those_of_the_model_though_agents_hang_up_at_the_last_word(
    tmp_path: Path, dialect: str
) -> None:
    steps = [{"text": "many words, one after the other " * 20}]
    with RunningModel({"steps": steps}, chunk_delay=0.001) as model:
        async with Station(tmp_path / "gateway") as station:
            await station.grant(upstreams={"m": station.upstream(base_url=model.url)})
            for number in range(20):
                asked = body(dialect, f"question {number}", streams=True)
                url = station.url(f"/m{path(dialect, streams=True)}")
                async with station.agent.post(url, json=asked, headers={"x-api-key": TOKEN}) as reply:
                    heard = b""
                    while LAST[dialect] not in heard:
                        heard += await reply.content.readany()
                    reply.close()
            spent = await station.ledger.revoke("trial")
            assert (spent.calls, spent.last_error) == (20, None)
            assert spent.usage == model.ledger.total()


@live
async def test_an_answer_in_one_piece_is_whole_though_its_agent_has_gone(tmp_path: Path) -> None:
    whole = json.dumps(message()).encode()
    async with Station(tmp_path / "gateway") as station:
        await station.grant()

        async def answer(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
            response = web.StreamResponse(headers={"content-type": "application/json"})
            await response.prepare(request)
            await response.write(whole)
            await asyncio.Event().wait()
            raise AssertionError

        station.behind.answer = answer
        reply = await station.agent.post(
            station.url("/anthropic/v1/messages"), data=b"{}", headers={"x-api-key": TOKEN}
        )
        assert await reply.content.readexactly(len(whole)) == whole
        reply.close()
        await over(station)
        assert (await station.spent()).usage == TokenUsage(10, 5)
