"""What calls came to."""

from typing import Any

from benchyard.gateway.calls import Call, TokenUsage, cost_of


def call(model: str | None, tokens: int, **more: Any) -> Call:
    known: dict[str, Any] = {
        "number": 1,
        "dialect": "chat",
        "provider": "p",
        "path": "/v1/chat/completions",
        "status": 200,
        "started_ms": 1000,
        "ended_ms": 2000,
        "usage": TokenUsage(tokens, 1),
        "cost_usd": 0.5,
    }
    return Call(model=model, **{**known, **more})


def failed(status: int) -> Call:
    return call("small", 0, status=status, usage=None, cost_usd=None, first_byte_ms=1001)


def test_unknown_price_makes_the_sum_unknown() -> None:
    assert cost_of([call("m", 1), call("m", 1, cost_usd=None)]) is None
    assert cost_of([call("m", 1), call("m", 1, usage=None, cost_usd=None)]) is None
    assert cost_of([call("m", 1), failed(500)]) == 0.5
    assert cost_of([]) == 0
