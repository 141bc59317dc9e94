"""What goes wrong on purpose: once, in every dialect, and then the next answer comes."""

import json
from typing import Any

import httpx
import pytest

from benchyard.gateway.calls import TokenUsage
from benchyard.scripted_model import RunningModel
from tests.scripted_model.asking import DIALECTS, ask, body, events, path, said

PROMPT = "go on"
RATE_LIMITED = {
    "anthropic": ("error", "type", "rate_limit_error"),
    "responses": ("error", "code", "rate_limit_exceeded"),
    "chat": ("error", "code", "rate_limit_exceeded"),
    "gemini": ("error", "status", "RESOURCE_EXHAUSTED"),
}


def scripted(*steps: dict[str, Any]) -> RunningModel:
    return RunningModel({"steps": steps})


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_status_comes_once_and_in_its_dialect(dialect: str) -> None:
    with scripted({"status": 429, "retry_after": 1}, {"shell": "ls"}, {"status": 500, "times": 2}) as model:
        refused = ask(model.url, dialect, PROMPT, streams=True)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        outer, inner, word = RATE_LIMITED[dialect]
        assert refused.json()[outer][inner] == word
        assert said(dialect, ask(model.url, dialect, PROMPT).json()).calls
        # The next stands after the first result of a tool, and happens twice.
        statuses = [ask(model.url, dialect, PROMPT, results=1).status_code for _ in range(3)]
        assert statuses == [500, 500, 200]
        assert [entry.fault for entry in model.ledger.entries] == ["status", None, "status", "status", None]
        assert [entry.usage is None for entry in model.ledger.entries] == [True, False, True, True, False]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_connection_drops_in_the_middle_of_an_answer(dialect: str, streams: bool) -> None:
    with scripted({"drop": True}, {"text": "I am here, with many words. " * 10}) as model:
        sent = body(dialect, PROMPT, streams=streams)
        url = model.url + path(dialect, streams=streams)
        with httpx.stream("POST", url, json=sent, timeout=60) as response:
            assert response.status_code == 200
            pieces: list[bytes] = []
            with pytest.raises(httpx.RemoteProtocolError):
                pieces.extend(response.iter_raw())
        whole = ask(model.url, dialect, PROMPT, streams=streams).content
        assert 0 < len(b"".join(pieces)) < len(whole)
        dropped, answered = model.ledger.entries
        assert (dropped.is_complete, answered.is_complete) == (False, True)


def test_usage_at_the_beginning_of_a_cut_stream_is_in_the_ledger() -> None:
    usage = {"input_tokens": 50, "output_tokens": 20, "cached_tokens": 10}
    with scripted({"drop": True}, {"text": "words " * 50, "usage": usage}) as model:
        with pytest.raises(httpx.RemoteProtocolError):
            ask(model.url, "anthropic", PROMPT, streams=True)
        assert model.ledger.total() == TokenUsage(50, 1, 10)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_goes_over_into_nonsense(dialect: str, streams: bool) -> None:
    with scripted({"garbage": True}, {"text": "sense"}) as model:
        broken = ask(model.url, dialect, PROMPT, streams=streams)
        assert broken.status_code == 200
        if streams:
            with pytest.raises((AssertionError, ValueError, KeyError)):
                list(events(broken.text))
        else:
            with pytest.raises((UnicodeDecodeError, json.JSONDecodeError)):
                json.loads(broken.content)
        assert "sense" in said(dialect, ask(model.url, dialect, PROMPT).json()).text


def test_a_step_that_hangs_says_nothing_and_then_hangs_up() -> None:
    with scripted({"hang": 0.2}, {"text": "back"}) as model:
        with pytest.raises(httpx.RemoteProtocolError):
            ask(model.url, "chat", PROMPT)
        assert said("chat", ask(model.url, "chat", PROMPT).json()).text == "back"
        assert [entry.status for entry in model.ledger.entries] == [0, 200]


def test_the_server_ends_while_something_hangs() -> None:
    with scripted({"hang": 3600}) as model, pytest.raises(httpx.ReadTimeout):
        httpx.post(model.url + path("chat"), json=body("chat", PROMPT), timeout=httpx.Timeout(60, read=0.5))


def test_a_call_that_broke_off_leads_nowhere_though_an_agent_keeps_it() -> None:
    with scripted({"drop": True}, {"shell": "one"}, {"shell": "two"}) as model:
        sent = body("chat", PROMPT)
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(model.url + path("chat"), json=sent, timeout=60)
        for command in ("one", "two"):
            answer = httpx.post(model.url + path("chat"), json=sent, timeout=60).json()
            message = answer["choices"][0]["message"]
            assert said("chat", answer).calls == [("bash", {"command": command})]
            # What an agent makes of the call that it saw the beginning of, and of the one that it ran.
            broken = {**message["tool_calls"][0], "id": "call_00000001"}
            sent["messages"] += [{**message, "tool_calls": [broken, *message["tool_calls"]]}]
            for call in (broken, *message["tool_calls"]):
                sent["messages"] += [{"role": "tool", "tool_call_id": call["id"], "content": "?"}]


def test_each_conversation_has_its_faults() -> None:
    with scripted({"status": 500}, {"text": "well"}) as model:
        one = [ask(model.url, "chat", "the first").status_code for _ in range(2)]
        other = [ask(model.url, "chat", "the second").status_code for _ in range(2)]
        again = [ask(model.url, "chat", "the first").status_code for _ in range(2)]
        assert one == other == again == [500, 200]


def test_conversations_with_the_same_words_are_distinguished_by_the_names_their_clients_give_them() -> None:
    with scripted({"status": 500}, {"text": "well"}) as model:
        statuses = []
        for name in ("a", "b", "a", "b"):
            sent = {**body("responses", PROMPT), "prompt_cache_key": name}
            statuses.append(httpx.post(model.url + path("responses"), json=sent, timeout=60).status_code)
        assert statuses == [500, 500, 200, 200]
