"""Questions in four dialects, and the texts of their answers."""

import json
from typing import Any

import pytest

from benchyard.engine.judge.dialect_requests import (
    ModelQuestion,
    SaidText,
    dialect_of_provider,
    request_in_dialect,
    text_in_dialect,
)
from benchyard.gateway.dialects.catalog import dialect_of_path

QUESTION = ModelQuestion(
    model="some/model 1",
    system="Judge.",
    messages=[SaidText("user", "one \ud800"), SaidText("model", "two"), SaidText("user", "three")],
    schema={"type": "object"},
    most_tokens=100,
)
ANSWERS: dict[str, Any] = {
    "anthropic": {"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "said"}]},
    "responses": {
        "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "said"}], "role": "assistant"}
        ]
    },
    "chat": {"choices": [{"message": {"role": "assistant", "content": "said", "reasoning_content": "hm"}}]},
    "gemini": {"candidates": [{"content": {"parts": [{"text": "hm", "thought": True}, {"text": "said"}]}}]},
}


@pytest.mark.parametrize(
    ("provider", "dialect"),
    [("anthropic", "anthropic"), ("openai", "responses"), ("google", "gemini"), ("my-own", "chat")],
)
def test_a_question_is_a_call_of_the_providers_dialect(provider: str, dialect: str) -> None:
    assert dialect_of_provider(provider) == dialect
    request = request_in_dialect(dialect, QUESTION)
    known = dialect_of_path(request.path)
    assert known is not None
    assert known.name == dialect
    body = json.loads(request.body)
    assert not known.streams(request.path, body)
    texts = request.body.decode()
    assert [word for word in ("Judge.", "one", "two", "three") if word not in texts] == []


@pytest.mark.parametrize("dialect", sorted(ANSWERS))
def test_the_text_of_an_answer_is_without_reasoning(dialect: str) -> None:
    assert text_in_dialect(dialect, ANSWERS[dialect]) == "said"


@pytest.mark.parametrize("dialect", sorted(ANSWERS))
@pytest.mark.parametrize("response", [None, [], {}, "text", {"content": 5, "choices": "x", "output": [1]}])
def test_anything_else_is_an_empty_text(dialect: str, response: Any) -> None:
    assert text_in_dialect(dialect, response) == ""
