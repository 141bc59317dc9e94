"""What holds for every dialect: hostile answers, usage as the price list reads it, refusals."""

from typing import Any, get_args

import pytest
from genai_prices import extract_usage
from hypothesis import given, settings
from hypothesis import strategies as st

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects import catalog
from benchyard.gateway.dialects.base import REFUSAL_STATUS, Dialect, Refusal
from benchyard.models.base import MAX_INT

# fmt: off
WORDS = [
    "type", "index", "delta", "message", "content_block", "content", "partial_json", "text", "thinking",
    "signature", "usage", "error", "choices", "tool_calls", "function", "arguments", "name", "id",
    "logprobs", "token_ids", "refusal", "candidates", "parts", "functionCall", "thought",
    "thoughtSignature", "usageMetadata", "promptTokenCount", "response", "output", "item",
    "output_index", "content_index", "summary", "input_tokens", "output_tokens", "prompt_tokens",
    "completion_tokens", "input_tokens_details", "cached_tokens", "citation", "model", "modelVersion",
]
# fmt: on
# fmt: off
KINDS = [
    "message_start", "content_block_start", "content_block_delta", "message_delta", "error",
    "text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta",
    "response.created", "response.completed", "response.failed", "response.output_item.added",
    "response.output_item.done", "response.output_text.delta", "response.function_call_arguments.delta",
    "response.reasoning_summary_text.delta", "text", "tool_use",
]
# fmt: on
NUMBERS = st.integers() | st.floats() | st.sampled_from([10**400, -1, 0, 1, 2**63])
PLAIN = st.none() | st.booleans() | NUMBERS | st.text(max_size=5) | st.sampled_from(KINDS)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)
EVENTS = st.builds(
    lambda kind, event: {**event, "type": kind},
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=5),
)
COUNTS = st.integers(0, 10**7)
NAMES = ("model", "modelVersion")
EVERY = pytest.mark.parametrize("dialect", catalog.all_dialects(), ids=lambda dialect: dialect.name)


@EVERY
@settings(deadline=None)
@given(events=st.lists(EVENTS | VALUES, max_size=8), path=st.text(max_size=20), body=VALUES)
def test_nothing_that_is_sent_raises(dialect: Dialect, events: list[Any], path: str, body: Any) -> None:
    before = repr(events)
    answer = dialect.whole(events)
    assert repr(events) == before
    for used in (dialect.usage(answer), dialect.usage(body)):
        if used is not None:
            parts = (used.cached_tokens, used.cache_write_tokens, used.reasoning_tokens)
            assert all(0 <= each <= 3 * MAX_INT for each in (used.input_tokens, used.output_tokens, *parts))
    assert dialect.model(path, body) is None or isinstance(dialect.model(path, body), str)
    assert dialect.streams(path, body) in (True, False)


@EVERY
@settings(deadline=None)
@given(events=st.lists(EVENTS | VALUES, max_size=8))
def test_usage_is_known_without_the_content(dialect: Dialect, events: list[Any]) -> None:
    bare, whole = dialect.whole(dialect.bare(events)), dialect.whole(events)
    assert dialect.usage(bare) == dialect.usage(whole)
    if isinstance(bare, dict) and isinstance(whole, dict):
        assert repr([bare.get(key) for key in NAMES]) == repr([whole.get(key) for key in NAMES])


@EVERY
def test_huge_indexes_cost_nothing(dialect: Dialect) -> None:
    huge = 10**18
    answer = dialect.whole(
        [
            {"type": "content_block_delta", "index": huge, "delta": {"type": "text_delta", "text": "a"}},
            {"type": "response.output_text.delta", "output_index": huge, "content_index": huge, "delta": "a"},
            {"choices": [{"index": huge, "delta": {"tool_calls": [{"index": huge, "id": "a"}]}}]},
            {"candidates": [{"index": huge, "content": {"parts": [{"text": "a"}]}}]},
        ]
    )
    assert len(repr(answer)) < 1000


def details(**named: st.SearchStrategy[int]) -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries({}, optional=named)


BODIES = {
    "anthropic": st.fixed_dictionaries(
        {"input_tokens": COUNTS, "output_tokens": COUNTS},
        optional={
            "cache_creation_input_tokens": COUNTS,
            "cache_read_input_tokens": COUNTS,
            "output_tokens_details": details(thinking_tokens=COUNTS),
        },
    ),
    "responses": st.fixed_dictionaries(
        {"input_tokens": COUNTS, "output_tokens": COUNTS},
        optional={
            "input_tokens_details": details(cached_tokens=COUNTS, cache_write_tokens=COUNTS),
            "output_tokens_details": details(reasoning_tokens=COUNTS),
        },
    ),
    "chat": st.fixed_dictionaries(
        {"prompt_tokens": COUNTS, "completion_tokens": COUNTS},
        optional={
            "prompt_tokens_details": details(cached_tokens=COUNTS, cache_write_tokens=COUNTS),
            "completion_tokens_details": details(reasoning_tokens=COUNTS),
        },
    ),
    "gemini": st.fixed_dictionaries(
        {"promptTokenCount": COUNTS, "candidatesTokenCount": COUNTS},
        optional={
            "thoughtsTokenCount": COUNTS,
            "cachedContentTokenCount": COUNTS,
            "toolUsePromptTokenCount": COUNTS,
        },
    ),
}
PRICED = {
    "anthropic": ("anthropic", "default", "usage", {"model": "claude-opus-5-5"}),
    "responses": ("openai", "responses", "usage", {"model": "gpt-5.5"}),
    "chat": ("openai", "chat", "usage", {"model": "gpt-5.5"}),
    "gemini": ("google", "default", "usageMetadata", {"modelVersion": "gemini-2.5-pro"}),
}


@EVERY
@settings(deadline=None)
@given(data=st.data())
def test_usage_is_what_the_price_list_reads(dialect: Dialect, data: st.DataObject) -> None:
    provider, flavor, where, head = PRICED[dialect.name]
    body = {**head, where: data.draw(BODIES[dialect.name])}
    theirs = extract_usage(body, provider_id=provider, api_flavor=flavor).usage
    assert dialect.usage(body) == TokenUsage(
        input_tokens=int(theirs.input_tokens or 0),
        output_tokens=int(theirs.output_tokens or 0),
        cached_tokens=int(theirs.cache_read_tokens or 0),
        cache_write_tokens=int(theirs.cache_write_tokens or 0),
        reasoning_tokens=int(theirs.output_reasoning_tokens or 0),
    )


@EVERY
@pytest.mark.parametrize("kind", get_args(Refusal))
def test_a_refusal_says_why_where_clients_look_for_it(dialect: Dialect, kind: Refusal) -> None:
    body = dialect.refusal(kind, "the budget is used up")
    assert body["error"]["message"] == "the budget is used up"
    if dialect.name == "anthropic":
        assert body["type"] == "error"
        assert body["error"]["type"].endswith(("_error", "too_large"))
    elif dialect.name == "gemini":
        assert (body["error"]["code"], body["error"]["status"].isupper()) == (REFUSAL_STATUS[kind], True)
    else:
        assert set(body["error"]) == {"message", "type", "param", "code"}


@EVERY
def test_a_used_up_budget_is_not_told_as_something_to_try_again(dialect: Dialect) -> None:
    told = repr(dialect.refusal("budget", "no")).lower()
    assert "rate_limit" not in told
    assert "resource_exhausted" not in told
    assert "quota" not in told
