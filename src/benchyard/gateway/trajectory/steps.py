"""Steps of an ATIF trajectory, made from a conversation."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchyard.gateway.calls import Call
from benchyard.gateway.dialects.entries import (
    ConversationEntry,
    Piece,
    ToolResult,
    ToolUse,
    clean_text,
    iso_time,
    message_content,
    text_from_value,
)
from benchyard.gateway.dialects.values import fields, items
from benchyard.gateway.trajectory.conversations import Conversation, ConversationCall, NewEntry


@dataclass
class AgentStep:
    """A step of the agent, with the tool calls that have no result yet."""

    step: dict[str, Any]
    pending: dict[str, str] = field(default_factory=dict)
    """Id of a call -> name of its tool, in their order."""
    results: list[dict[str, Any]] = field(default_factory=list)


class StepBuilder:
    """Builder of the steps of a conversation, call by call."""

    def __init__(self, conversation: Conversation) -> None:
        self.used: dict[tuple[int, int], tuple[AgentStep, str]] = {}
        """Number of a call and place in its answer -> the tool call there: its step, and its id."""
        self._steps: list[dict[str, Any]] = []
        self._acted: list[AgentStep] = []
        self._waiting: dict[str, list[tuple[AgentStep, str]]] = {}
        """Id on the wire -> the calls that wait for its result, in order: step, and id in the step."""
        self._said: set[str] = set()
        self._told: set[str] = set()
        self._answered: set[str] = set()
        self._expects_echo = False
        for turn in conversation.turns:
            self._turn(turn, [] if self._steps else conversation.first.system)

    def finish(self, trailing: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return all steps; results missing from the requests are taken from `trailing`, by id or by name."""
        for acted in self._acted:
            for id, name in list(acted.pending.items()):
                result = trailing.get(id, trailing.get(name))
                if result is not None:
                    self._attach(acted, id, (result,))
            if acted.results:
                acted.step["observation"] = {"results": acted.results}
        return [{"step_id": number, **step} for number, step in enumerate(self._steps, start=1)]

    def refer(self, call: int, place: int, reference: dict[str, Any]) -> bool:
        """Link the result of a tool call to another trajectory; return False if there is no such call."""
        if (call, place) not in self.used:
            return False
        acted, id = self.used[call, place]
        known = next((result for result in acted.results if result.get("source_call_id") == id), None)
        if known is None:
            known = {"source_call_id": id}
            acted.results.append(known)
        known.setdefault("subagent_trajectory_ref", []).append(reference)
        return True

    def _turn(self, turn: ConversationCall, system: list[ConversationEntry]) -> None:
        time = iso_time(turn.call.started_ms)
        for entry in system:
            self._message(entry, time)
        for fresh in turn.fresh:
            self._take(fresh, turn.call, time)
        step = {"source": "agent", "timestamp": iso_time(turn.call.ended_ms), **_of_call(turn)}
        self._act(step, turn.answer, turn.call.number)
        self._expects_echo = True

    def _take(self, fresh: NewEntry, call: Call, time: str | None) -> None:
        entry = fresh.entry
        if entry.who == "agent":
            if not self._is_echo(fresh):
                self._act({"source": "agent", "timestamp": time, "is_copied_context": True}, entry, None)
            return
        self._expects_echo = self._expects_echo and fresh.may_be_old
        for result in entry.results:
            self._observe(result, call, is_new=not fresh.may_be_old)
        if entry.who != "tool" and not (fresh.may_be_old and _key(entry) in self._told):
            self._message(entry, time)

    def _message(self, entry: ConversationEntry, time: str | None) -> None:
        self._told.add(_key(entry))
        step = {"source": entry.who, "timestamp": time, "message": message_content(entry.pieces)}
        self._steps.append(_without_none(step))

    def _is_echo(self, fresh: NewEntry) -> bool:
        """Tell whether an entry only repeats an earlier one of the agent."""
        if self._expects_echo and not fresh.may_be_old:
            return True
        uses = fresh.entry.uses
        if uses and all(use.id and f"id {use.id}" in self._said for use in uses):
            return True
        # Some agents give their own ids to calls that had none.
        return all(trace in self._said for trace in _traces(fresh.entry))

    def _act(self, step: dict[str, Any], entry: ConversationEntry, number: int | None) -> None:
        self._said.update(_traces(entry), (f"id {use.id}" for use in entry.uses if use.id))
        fields = {
            "message": message_content(entry.pieces),
            "reasoning_content": clean_text(entry.reasoning) or None,
        }
        acted = AgentStep(_without_none({**step, **fields}))
        self._steps.append(acted.step)
        self._acted.append(acted)
        calls = [self._call(acted, use, place, number) for place, use in enumerate(entry.uses)]
        if calls:
            acted.step["tool_calls"] = calls
        for result in entry.results:
            self._resolve(result)

    def _call(self, acted: AgentStep, use: ToolUse, place: int, number: int | None) -> dict[str, Any]:
        """Return a tool call; a missing id, or one that another call of the step has, is replaced."""
        id = clean_text(use.id)
        if not id or id in acted.pending:
            id = f"call-{number if number is not None else f'copied-{len(self._steps)}'}-{place + 1}"
        acted.pending[id] = clean_text(use.name)
        self._waiting.setdefault(clean_text(use.id), []).append((acted, id))
        if number is not None:
            self.used[number, place] = (acted, id)
        return {"tool_call_id": id, "function_name": clean_text(use.name), "arguments": use.arguments}

    def _observe(self, result: ToolResult, call: Call, *, is_new: bool) -> None:
        """Attach a result to its call; a result without a call stays with the agent's last step."""
        if self._resolve(result):
            return
        is_known = result.id in self._answered if result.id else not is_new
        if (call.dialect == "gemini" or not result.id) and is_new and self._resolve_by_name(result):
            return
        if is_known:
            return
        self._answered.add(result.id)
        if not self._acted:
            self._message(ConversationEntry("user", result.pieces), iso_time(call.started_ms))
            return
        named = {"call_id": clean_text(result.id)} if result.id else {}
        extra = {**named, **({"is_error": True} if result.is_error else {})}
        self._acted[-1].results.append(
            _without_none({"content": message_content(result.pieces), "extra": extra or None})
        )

    def _resolve(self, result: ToolResult) -> bool:
        waiting = self._waiting.get(clean_text(result.id), []) if result.id else []
        if not waiting:
            return False
        self._answered.add(result.id)
        acted, id = waiting.pop(0)
        self._attach(acted, id, result.pieces, is_error=result.is_error)
        return True

    def _resolve_by_name(self, result: ToolResult) -> bool:
        """Attach a result to the first waiting call, preferably of its name, in the last step with one."""
        last = next((acted for acted in reversed(self._acted) if acted.pending), None)
        if last is None:
            return False
        named = (id for id, name in last.pending.items() if name == clean_text(result.name))
        id = next(named, None) or next(iter(last.pending))
        self._answered.add(result.id)
        self._attach(last, id, result.pieces, is_error=result.is_error)
        return True

    def _attach(
        self, acted: AgentStep, id: str, pieces: tuple[Piece, ...], *, is_error: bool = False
    ) -> None:
        acted.pending.pop(id, None)
        result: dict[str, Any] = {"source_call_id": id, "content": message_content(pieces)}
        known = next((each for each in acted.results if each.get("source_call_id") == id), None)
        if known is None:
            acted.results.append(result)
        else:
            known.update(result)
            result = known
        if is_error:
            result["extra"] = {"is_error": True}


def _of_call(turn: ConversationCall) -> dict[str, Any]:
    call = turn.call
    return {
        "model_name": clean_text(call.model) if call.model else None,
        "reasoning_effort": turn.effort,
        "metrics": _metrics(call),
        "llm_call_count": 1,
        "extra": {"call": call.number},
    }


def _metrics(call: Call) -> dict[str, Any]:
    used = call.usage
    extra = {"duration_ms": call.ended_ms - call.started_ms}
    if call.first_byte_ms is not None:
        extra["first_byte_after_ms"] = call.first_byte_ms - call.started_ms
    known: dict[str, Any] = {"cost_usd": call.cost_usd, "extra": extra, **_tokens(call.response)}
    if used is not None:
        known.update(prompt_tokens=used.input_tokens, completion_tokens=used.output_tokens)
        known["cached_tokens"] = used.cached_tokens
        parts = {"reasoning_tokens": used.reasoning_tokens, "cache_write_tokens": used.cache_write_tokens}
        extra.update({name: count for name, count in parts.items() if count})
    return _without_none(known)


def _tokens(response: Any) -> dict[str, Any]:
    """Return ids and log-probabilities of the tokens, if an answer has them."""
    choice = fields(next(iter(items(fields(response).get("choices"))), None))
    tokens = items(fields(choice.get("logprobs")).get("content"))
    return {
        "prompt_token_ids": _integers(fields(response).get("prompt_token_ids")),
        "completion_token_ids": _integers(choice.get("token_ids")),
        "logprobs": _floats([fields(token).get("logprob") for token in tokens]) if tokens else None,
    }


def _integers(values: Any) -> list[int] | None:
    good = isinstance(values, list) and all(type(value) is int and abs(value) < 2**63 for value in values)
    return values if good else None


def _floats(values: list[Any]) -> list[float] | None:
    good = all(
        type(value) in (int, float) and abs(value) < 2**63 and math.isfinite(value) for value in values
    )
    return [float(value) for value in values] if good else None


def _traces(entry: ConversationEntry) -> Iterator[str]:
    """Yield the texts and calls by which an agent's entry is recognized."""
    for piece in entry.pieces:
        if isinstance(piece, str) and piece.strip():
            yield f"text {piece.strip()}"
    for use in entry.uses:
        yield f"use {use.name} {text_from_value(use.arguments)}"


def _key(entry: ConversationEntry) -> str:
    return f"{entry.who} {entry.pieces!r}"


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
