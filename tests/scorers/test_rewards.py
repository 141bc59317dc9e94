"""Reward files, as hostile tests leave them."""

import json

import pytest

from benchyard.errors import ScorerFailed
from benchyard.models.runs import ScorerResult
from benchyard.scorers import harbor


def test_names_that_no_text_may_hold_are_made_into_some() -> None:
    found = harbor.parse_rewards(json.dumps({"reward": 1, "\ud800": 0.5}).encode(), None)
    assert found == {"reward": 1.0, "?": 0.5}
    with pytest.raises(ScorerFailed) as caught:
        harbor.main_reward(harbor.parse_rewards(json.dumps({"a\udfff": 1, "b": 0}).encode(), None))
    result = ScorerResult(
        scoring_function_name="verifier",
        weight=1.0,
        duration_ms=1,
        score=0.0,
        state="error",
        output=caught.value.message,
        reason=caught.value.message,
    )
    # A run whose result could not be stored would be scored for ever.
    assert "a?, b" in result.model_dump_json()


@pytest.mark.parametrize("content", [b"[1]", b"{", b'{"a": true}', b'{"a": 1e999}', b"[" * 60_000])
def test_invalid_rewards_are_refused(content: bytes) -> None:
    with pytest.raises(ScorerFailed, match=r"reward\.json"):
        harbor.parse_rewards(content, b"1")
