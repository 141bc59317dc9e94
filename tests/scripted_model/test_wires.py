"""Each dialect says the same, whole and as a stream, in the shapes its clients read."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchyard.gateway.calls import TokenUsage
from benchyard.scripted_model import RunningModel, Script, ScriptStep
from tests.scripted_model.asking import DIALECTS, ask, body, events, model_of, path, said
from tests.scripted_model.folding import folded

PROMPT = "Please look around."
USAGE = {"input_tokens": 900, "cached_tokens": 500, "cache_write_tokens": 100, "output_tokens": 70}
TEXT = "I look at what is there: Ünïcode, 日本語 and 🎉, in more words than one delta holds."
SHELLS = {"anthropic": "Bash", "responses": "shell", "chat": "bash", "gemini": "run_shell_command"}
SCRIPT = {
    "name": "looks",
    "match": "look around",
    "steps": [
        {"text": TEXT, "reasoning": "Where am I?", "shell": "ls -la 'ä b'", "usage": USAGE},
        {"tool": "write_it", "arguments": {"path": "a", "deep": {"n": [1, None]}}},
        {"shell": ["true", "false"]},
    ],
    "final": "That is all.",
}


@pytest.fixture(scope="module")
def model() -> Iterator[RunningModel]:
    with RunningModel(SCRIPT) as running:
        yield running


def spoken(model: RunningModel, dialect: str, *, streams: bool, results: int) -> Any:
    response = ask(model.url, dialect, PROMPT, streams=streams, results=results)
    assert response.status_code == 200
    if streams:
        assert response.headers["content-type"] == "text/event-stream"
        return folded(dialect, list(events(response.text)))
    assert response.headers["content-type"].startswith("application/json")
    return said(dialect, response.json())


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_step_is_text_reasoning_a_call_and_its_cost(
    dialect: str, streams: bool, model: RunningModel
) -> None:
    found = spoken(model, dialect, streams=streams, results=0)
    assert (found.text, found.reasoning) == (TEXT, "Where am I?")
    assert found.calls == [(SHELLS[dialect], {"command": "ls -la 'ä b'"})]
    # Gemini has no word for what is written to a cache.
    written = 0 if dialect == "gemini" else 100
    assert found.usage == TokenUsage(900, 70, 500, written, 3)
    entry = model.ledger.entries[-1]
    assert (entry.usage, entry.model, entry.script) == (found.usage, model_of(dialect), "looks")
    assert entry.streams is streams


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_results_of_tools_lead_on_through_a_script(dialect: str, streams: bool, model: RunningModel) -> None:
    second = spoken(model, dialect, streams=streams, results=1)
    assert second.calls == [("write_it", {"path": "a", "deep": {"n": [1, None]}})]
    assert second.text == ""
    third = spoken(model, dialect, streams=streams, results=2)
    assert [arguments["command"] for _, arguments in third.calls] == ["true", "false"]
    # Two calls side by side give two results.
    for results in (4, 5):
        last = spoken(model, dialect, streams=streams, results=results)
        assert (last.text, last.calls) == ("That is all.", [])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_default_usage_is_the_same_for_the_same_request(dialect: str, model: RunningModel) -> None:
    one, other = (spoken(model, dialect, streams=False, results=1).usage for _ in range(2))
    assert one == other
    assert one.input_tokens > 0
    assert one.output_tokens > 0
    longer = spoken(model, dialect, streams=False, results=2).usage
    assert longer.input_tokens > one.input_tokens


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_text_comes_in_several_parts(dialect: str, model: RunningModel) -> None:
    found = list(events(ask(model.url, dialect, PROMPT, streams=True).text))
    texts = [event for event in found if TEXT[:4] in json.dumps(event, ensure_ascii=False)]
    assert TEXT not in json.dumps(texts[0], ensure_ascii=False)
    assert len(found) > 10


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_beginning_of_a_stream_comes_before_its_end(dialect: str) -> None:
    """The events are an hour apart: whoever gets the first was not kept waiting for the others."""
    with RunningModel({"final": TEXT}, chunk_delay=3600) as model:
        sent = body(dialect, PROMPT, streams=True)
        with httpx.stream("POST", model.url + path(dialect, streams=True), json=sent, timeout=60) as response:
            first = next(response.iter_lines())
        assert first.startswith(("event: ", "data: "))
        (entry,) = model.ledger.entries
        assert (entry.status, entry.is_complete) == (200, False)
        # Only Anthropic says at the beginning what went in.
        assert (entry.usage is not None) == (dialect == "anthropic")


def test_gemini_streams_a_list_where_events_are_not_asked_for(model: RunningModel) -> None:
    url = model.url + path("gemini", streams=True).removesuffix("?alt=sse")
    response = httpx.post(url, json=body("gemini", PROMPT), timeout=60)
    assert response.headers["content-type"] == "application/json"
    assert folded("gemini", response.json()).text == TEXT


def test_chat_says_what_a_stream_used_only_if_asked(model: RunningModel) -> None:
    sent = {**body("chat", PROMPT), "stream": True}
    response = httpx.post(model.url + path("chat"), json=sent, timeout=60)
    assert response.text.endswith("data: [DONE]\n\n")
    assert not any("usage" in event for event in events(response.text))
    assert model.ledger.entries[-1].usage is None


def chat(model: RunningModel, messages: list[Any], **options: Any) -> Any:
    sent = {**body("chat", ""), "messages": messages, "return_token_ids": True, "logprobs": True, **options}
    response = httpx.post(model.url + path("chat"), json=sent, timeout=60)
    return list(events(response.text)) if options.get("stream") else response.json()


def test_chat_sends_tokens_and_their_probabilities_on_request() -> None:
    with RunningModel(
        Script(steps=(ScriptStep(text=TEXT, tool="bash", arguments={"command": "ls"}),))
    ) as model:
        messages = [{"role": "user", "content": PROMPT}]
        whole = chat(model, messages)
        (choice,) = whole["choices"]
        assert len(whole["prompt_token_ids"]) == whole["usage"]["prompt_tokens"]
        assert len(choice["token_ids"]) == whole["usage"]["completion_tokens"]
        told = choice["logprobs"]["content"]
        assert "".join(each["token"] for each in told).startswith(TEXT)
        assert all(-1 <= each["logprob"] <= 0 for each in told)
        stream = chat(model, messages, stream=True)
        choices = [each for event in stream for each in event["choices"]]
        ids = [each.get("token_ids", []) for each in choices]
        assert list(itertools.chain(*ids)) == choice["token_ids"]
        parts = [each["logprobs"]["content"] for each in choices if "logprobs" in each]
        assert list(itertools.chain(*parts)) == told
        assert stream[0]["prompt_token_ids"] == whole["prompt_token_ids"]


def test_a_prompt_and_its_answer_are_the_beginning_of_the_next_prompt() -> None:
    """Training needs this: what the model read and wrote is what it reads again."""
    with RunningModel(
        Script(steps=(ScriptStep(text=TEXT, tool="bash", arguments={"command": "ls"}),))
    ) as model:
        messages = [{"role": "user", "content": PROMPT}]
        first = chat(model, messages)
        spoken = first["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": spoken["tool_calls"][0]["id"], "content": "ok"}
        second = chat(model, [*messages, spoken, result])
        begun = first["prompt_token_ids"] + first["choices"][0]["token_ids"]
        assert second["prompt_token_ids"][: len(begun)] == begun


def test_tokens_are_not_sent_without_a_request(model: RunningModel) -> None:
    response = ask(model.url, "chat", PROMPT)
    assert "token_ids" not in response.text
    assert "logprobs" not in response.text
