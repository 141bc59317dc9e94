"""What calls used, added up."""

from benchyard.gateway.calls import TokenUsage


def test_usages_add_up_field_by_field() -> None:
    added = TokenUsage(10, 5, 3, 2, 1) + TokenUsage(1, 2, 3, 4, 5)
    assert added == TokenUsage(11, 7, 6, 6, 6)
    assert added.total_tokens == 18
