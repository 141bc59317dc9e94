"""Summaries of recorded calls: status, error, waits and why the model stopped, without the content."""

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from benchyard.gateway.dialects import catalog, model_replies
from benchyard.gateway.dialects.values import fields, items
from benchyard.gateway.records.reader import INTERRUPTED

MOST_CALLS = 50_000
_MOST_ANSWER_BYTES = 1024**2
"""Size of a packed answer up to which it is read for why the model stopped."""
_MOST_BODY_BYTES = 8 * 1024**2
_MOST_ERROR = 500
_COLUMNS = (
    "SELECT number, dialect, status, ended_ms, waited_ms, error, encoding, kind,"
    " CASE WHEN length(answer) <= ? THEN answer END FROM calls ORDER BY number LIMIT ?"
)


@dataclass(frozen=True)
class CallSummary:
    """A call of a model without its content."""

    number: int
    status: int
    """0 if there was no answer."""
    error: str | None
    stop: str | None
    """Reason why the model stopped, in its provider's word; None if it is not known."""
    end_ms: int | None
    waited_ms: int


def call_summaries(content: bytes) -> Iterator[CallSummary]:
    """Yield the calls of a grant's file in order; raises sqlite3.Error for any other file."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(content)
        for row in connection.execute(_COLUMNS, (_MOST_ANSWER_BYTES, MOST_CALLS)):
            number, dialect, status, ended_ms, waited_ms, error, encoding, kind, answer = row
            response = _response(str(dialect), status or 0, kind, encoding, answer)
            problem = error or _refusal(status or 0, response) if ended_ms is not None else INTERRUPTED
            yield CallSummary(
                number=int(number),
                status=status or 0,
                error=problem[:_MOST_ERROR] if isinstance(problem, str) else None,
                stop=_stop(response),
                end_ms=ended_ms,
                waited_ms=waited_ms or 0,
            )


def _response(dialect: str, status: int, kind: str | None, encoding: str | None, answer: object) -> Any:
    known = catalog.dialect_named(dialect)
    if known is None or not isinstance(answer, bytes):
        return None
    try:
        body = zlib.decompressobj().decompress(answer, _MOST_BODY_BYTES)
        content = model_replies.decode_body(body, encoding)
    except (zlib.error, ValueError):
        # The file is foreign, and an answer of another encoding is only left out.
        return None
    return model_replies.read_answer(known, status, kind or "", content).response


def _refusal(status: int, response: Any) -> str | None:
    """Return the provider's message for a refused call."""
    if status < 400:
        return None
    error = fields(response).get("error")
    message = fields(error).get("message") if isinstance(error, dict) else error
    code = fields(error).get("code") or fields(error).get("type")
    return ": ".join(str(each) for each in (code, message) if each) or f"status {status}"


def _stop(response: Any) -> str | None:
    """Return the reason of the stop, wherever the dialect has it."""
    answer = fields(response)
    choice = fields(next(iter(items(answer.get("choices"))), None))
    candidate = fields(next(iter(items(answer.get("candidates"))), None))
    candidates = (
        answer.get("stop_reason"),
        choice.get("finish_reason"),
        candidate.get("finishReason"),
        fields(answer.get("incomplete_details")).get("reason"),
        answer.get("status"),
    )
    return next((each[:100] for each in candidates if isinstance(each, str) and each), None)
