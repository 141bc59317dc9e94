"""Steps of stored trajectories of any writer, as plain values; standard library alone.

Trajectories are foreign: any field may be missing or of another type. Unreadable fields are left empty, and
nothing here raises.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchyard.gateway.trajectory.documents import TrajectoryDocument

_STOP_KEYS = ("stop_reason", "finish_reason")
_MOST_TEXT = 1024**2
"""Most characters of any one text that is read out of a step."""
_MOST_ITEMS = 10_000


@dataclass(frozen=True)
class StoredToolCall:
    """A call of a tool."""

    name: str
    arguments: Any
    """A dictionary as a rule."""
    id: str


@dataclass(frozen=True)
class StoredObservation:
    """The result of a tool call, or of another event."""

    text: str
    call_id: str
    """Id of the tool call; empty if it names none."""
    is_error: bool


@dataclass(frozen=True)
class StoredStep:
    """A step of a trajectory."""

    number: int
    """Number among all steps of the document, from 1; in ours those of sub-agents follow the main ones."""
    trajectory: int
    """0 for the main trajectory, else the sub-agent's."""
    source: str
    """`system`, `user` or `agent`; a foreign trajectory may have other words, or none."""
    text: str
    reasoning: str
    calls: tuple[StoredToolCall, ...]
    observations: tuple[StoredObservation, ...]
    model: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    timestamp: str | None
    stop_reason: str | None
    is_copied: bool
    """True if it repeats an earlier step as context."""

    @property
    def has_error(self) -> bool:
        """Tell whether a result of the step is marked as an error."""
        return any(observation.is_error for observation in self.observations)


def stored_step(value: Any, number: int, trajectory: int = 0) -> StoredStep:
    """Return a step of a document as plain values."""
    step = _fields(value)
    metrics, extra = _fields(step.get("metrics")), _fields(step.get("extra"))
    found = [extra.get(key) or step.get(key) for key in _STOP_KEYS]
    return StoredStep(
        number=number,
        trajectory=trajectory,
        source=_text(step.get("source")),
        text=text_of(step.get("message")),
        reasoning=text_of(step.get("reasoning_content")),
        calls=tuple(_calls(step.get("tool_calls"))),
        observations=tuple(_observations(step.get("observation"))),
        model=_text(step.get("model_name")) or None,
        prompt_tokens=_count(metrics.get("prompt_tokens")),
        completion_tokens=_count(metrics.get("completion_tokens")),
        cost_usd=_number(metrics.get("cost_usd")),
        timestamp=_text(step.get("timestamp"))[:64] or None,
        stop_reason=next((_text(each) for each in found if _text(each)), None),
        is_copied=step.get("is_copied_context") is True,
    )


def steps_of(document: TrajectoryDocument) -> Iterator[StoredStep]:
    """Yield the steps of a document in order; `document.problem` has the reason of a break afterwards."""
    for number, (trajectory, value) in enumerate(document.steps(), start=1):
        yield stored_step(value, number, trajectory)


def text_of(content: Any) -> str:
    """Return the text of a message: itself, or its parts of text and the names of the others."""
    if isinstance(content, str):
        return content[:_MOST_TEXT]
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return "" if content is None else json.dumps(content)[:_MOST_TEXT]
    parts = (each if isinstance(each, str) else _part(_fields(each)) for each in content[:_MOST_ITEMS])
    return "\n".join(part for part in parts if part)[:_MOST_TEXT]


def _part(part: Mapping[str, Any]) -> str:
    if isinstance(part.get("text"), str):
        return str(part["text"])
    kind = _text(part.get("type"))
    return f"[{kind[:40]}]" if kind else ""


def _calls(value: Any) -> Iterator[StoredToolCall]:
    for item in _items(value):
        call = _fields(item)
        name = _text(call.get("function_name")) or _text(call.get("name"))
        yield StoredToolCall(name[:200], call.get("arguments"), _text(call.get("tool_call_id")))


def _observations(value: Any) -> Iterator[StoredObservation]:
    results = _items(_fields(value).get("results")) if isinstance(value, dict) else _items(value)
    for each in results:
        result = _fields(each) or {"content": each}
        extra = _fields(result.get("extra"))
        is_error = any(part.get(key) is True for part in (extra, result) for key in ("is_error", "error"))
        call_id = _text(result.get("source_call_id")) or _text(extra.get("call_id"))
        yield StoredObservation(text_of(result.get("content")), call_id, is_error)


def _fields(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return value[:_MOST_ITEMS] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value[:_MOST_TEXT] if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return value if is_count else None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if is_number else None
