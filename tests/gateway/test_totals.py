"""What calls came to, model by model."""

from typing import Any

from benchyard.gateway.calls import Call, TokenUsage, cost_of, totals_by_model


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


def test_each_model_has_its_totals_and_the_largest_comes_first() -> None:
    waits = [call("large", 100, first_byte_ms=1000 + wait, rate_limited_ms=wait) for wait in (10, 20, 400)]
    large, small = totals_by_model([call("small", 5), failed(429), *waits, failed(0)])
    assert (large.model, large.calls, large.failed, large.cost_usd) == ("large", 3, 0, 1.5)
    assert (large.usage, large.first_byte_p50_ms, large.rate_limited_ms) == (TokenUsage(300, 3), 20, 430)
    assert (small.calls, small.failed, small.cost_usd, small.first_byte_p50_ms) == (3, 2, 0.5, None)


def test_unknown_price_makes_the_sum_unknown() -> None:
    assert cost_of([call("m", 1), call("m", 1, cost_usd=None)]) is None
    assert cost_of([call("m", 1), call("m", 1, usage=None, cost_usd=None)]) is None
    assert cost_of([call("m", 1), failed(500)]) == 0.5
    assert cost_of([]) == 0


def test_no_calls_have_no_totals() -> None:
    assert totals_by_model([]) == []
