"""Answers of a judge, as foreign as what it was asked about: bounded, and with quotes looked up. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from benchyard.engine.judge.instructions import (
    LEAST_QUOTE,
    MOST_CITATIONS,
    MOST_EXPLANATION,
    MOST_QUOTE,
)
from benchyard.errors import UsageError
from benchyard.gateway.dialects.values import parse_json
from benchyard.models.base import Model, WireInt
from benchyard.models.reports.judgements import FAILURE_CATEGORIES, Citation

MOST_REPLY = 64 * 1024
"""Longest answer that is parsed, in characters."""
_UNPRINTED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of a text."""
_ESCAPED = {"\\n": "\n", "\\t": "\t", "\\r": "\r", '\\"': '"', "\\\\": "\\"}
_ESCAPE = re.compile(r"\\[ntr\"\\]")


class _GivenCitation(Model):
    step: WireInt
    quote: str


class _GivenReply(Model):
    category: str
    critical_step: WireInt | None = None
    explanation: str
    citations: list[_GivenCitation]


@dataclass(frozen=True)
class JudgeReply:
    """A valid answer, with those of its citations that were found."""

    category: str
    critical_step: int | None
    explanation: str
    citations: tuple[Citation, ...]
    n_false: int
    """Number of citations that were dropped."""


def read_judge_reply(text: str, shown: Mapping[str, Sequence[str]], last_step: int) -> JudgeReply:
    """Return an answer whose citations were looked up in the texts that were shown of each step.

    Raises UsageError with a sentence of ours for an answer that is not valid: nothing of the answer is in it.
    """
    given = _parsed(text)
    if given.category not in FAILURE_CATEGORIES:
        raise UsageError("category is none of those that are listed")
    if given.critical_step is not None and not 1 <= given.critical_step <= last_step:
        there = f"a number from 1 to {last_step}, or null" if last_step else "null: there are no steps"
        raise UsageError(f"critical_step must be {there}")
    explanation = _cleaned(given.explanation)[:MOST_EXPLANATION].strip()
    if not explanation:
        raise UsageError("explanation is empty")
    found: dict[tuple[int, str], Citation] = {}
    n_false = max(0, len(given.citations) - MOST_CITATIONS)
    for each in given.citations[:MOST_CITATIONS]:
        if is_found(each.quote, shown.get(str(each.step), ())):
            quote = " ".join(_cleaned(each.quote).split())
            found.setdefault((each.step, quote), Citation(step=each.step, quote=quote))
        else:
            n_false += 1
    return JudgeReply(given.category, given.critical_step, explanation, tuple(found.values()), n_false)


def is_found(quote: str, texts: Sequence[str]) -> bool:
    """Tell whether a quote stands in one of the texts, word for word; line breaks and spaces count alike."""
    if len(quote) > MOST_QUOTE:
        return False
    for form in (quote, _ESCAPE.sub(lambda found: _ESCAPED[found[0]], quote)):
        wanted = " ".join(form.split())
        if len(wanted) >= LEAST_QUOTE and any(wanted in " ".join(text.split()) for text in texts):
            return True
    return False


def _parsed(text: str) -> _GivenReply:
    if len(text) > MOST_REPLY:
        raise UsageError("it is too long")
    # Some models put it in a fence, or words around it.
    begin, end = text.find("{"), text.rfind("}")
    if begin < 0 or end < begin:
        raise UsageError("it has no JSON object")
    try:
        value = parse_json(text[begin : end + 1])
    except ValueError as error:
        raise UsageError("it is not one JSON object") from error
    try:
        return _GivenReply.model_validate(value)
    except ValidationError as error:
        place = (
            ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"][:1]) or "the object"
        )
        known = place if place in _GivenReply.model_fields else "the object"
        raise UsageError(f"{known} is missing or of another type than asked for") from error


def _cleaned(text: str) -> str:
    """Return a text that can be stored and printed."""
    return _UNPRINTED.sub(" ", text).encode(errors="replace").decode()
