"""Reward files: what the tests of a task leave, as named numbers."""

import json
import math

from benchyard.errors import ScorerFailed

MOST_BYTES = 64 * 1024
MOST_REWARDS = 200
USUAL = "reward"
"""What the number is called where there is one without a name."""
_SHOWN = 80
_LONGEST_NAME = 200


def parse(as_json: bytes | None, as_text: bytes | None) -> dict[str, float]:
    """The rewards of `reward.json`, else of `reward.txt`; raises ScorerFailed for what are none."""
    if as_json is not None:
        return _of_json(as_json)
    if as_text is None:
        raise ScorerFailed("the tests left neither reward.json nor reward.txt in /logs/verifier")
    text = as_text.decode(errors="replace").strip()
    if not text:
        raise ScorerFailed("reward.txt is empty: the tests must write a number from 0 to 1")
    try:
        return {USUAL: _finite(float(text), "reward.txt")}
    except ValueError as error:
        raise ScorerFailed(f"reward.txt is {text[:_SHOWN]!r}, which is no number") from error


def main(rewards: dict[str, float], name: str | None = None) -> float:
    """The one that is the score; raises ScorerFailed where it is missing or outside 0 to 1."""
    wanted = name or (USUAL if USUAL in rewards or len(rewards) != 1 else next(iter(rewards)))
    if wanted not in rewards:
        told = ", ".join(sorted(rewards)) or "none"
        raise ScorerFailed(f"the rewards have no {wanted!r}, which is the score; there are: {told}")
    if not 0 <= rewards[wanted] <= 1:
        raise ScorerFailed(f"the reward {wanted!r} is {rewards[wanted]:g}; a score is from 0 to 1")
    return rewards[wanted]


def _of_json(content: bytes) -> dict[str, float]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ScorerFailed(f"reward.json is no JSON: {error}") from error
    if not isinstance(found, dict) or len(found) > MOST_REWARDS:
        raise ScorerFailed(f"reward.json must be an object of at most {MOST_REWARDS} names and numbers")
    rewards = {}
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ScorerFailed(
                f"reward.json: {name[:_SHOWN]!r} is {str(value)[:_SHOWN]!r}, which is no number"
            )
        rewards[_plain(name)] = _finite(value, "reward.json")
    return rewards


def _plain(name: str) -> str:
    """A name that can be stored: JSON can write halves of characters, which no text may hold."""
    return name[:_LONGEST_NAME].encode(errors="replace").decode()


def _finite(value: float, where: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ScorerFailed(f"{where} has {number}, which is no finite number")
    return number
