"""Builder of an ATIF trajectory from the calls of one agent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchyard.gateway.calls import Call, TokenUsage, cost_of, usage_of
from benchyard.gateway.dialects.entries import ConversationEntry, clean_text, message_content, plain_json
from benchyard.gateway.trajectory.atif import ATIF, Trajectory
from benchyard.gateway.trajectory.conversations import (
    Conversation,
    ConversationCall,
    Conversations,
    History,
    opening_of,
    sort_calls,
)
from benchyard.gateway.trajectory.steps import StepBuilder

MOST_NESTED = 8
"""Deepest nesting of sub-agents; a deeper one is placed below the main conversation."""


@dataclass
class Roles:
    """Every conversation, sorted by its role."""

    main: Conversation | None
    side: list[Conversation] = field(default_factory=list)
    """Conversations that only chose a name or a model; the agent's work is not in them."""
    inside: dict[int, list[Conversation]] = field(default_factory=dict)
    """Number of a conversation -> the conversations that it started."""


def roles_of(threads: Conversations, prompt: str | None) -> Roles:
    """Determine the role of each conversation."""
    main = max(threads.conversations, key=lambda turn: _weight(turn, prompt), default=None)
    if main is None:
        return Roles(None)
    roles = Roles(main)
    others = [conversation for conversation in threads.conversations if conversation is not main]
    roles.side = [each for each in others if _is_side(each, main)]
    apart = {conversation.number for conversation in roles.side}
    depths = {main.number: 0}
    for other in others:
        if other.number not in apart:
            parent = _parent(other, main, depths)
            depths[other.number] = depths[parent] + 1
            roles.inside.setdefault(parent, []).append(other)
    return roles


def _weight(conversation: Conversation, prompt: str | None) -> tuple[bool | int, ...]:
    """Return the sort key of a conversation: the main one has the prompt and tools; the first wins a tie."""
    has_tools = bool(conversation.first.names)
    uses_them = has_tools and any(turn.answer.uses for turn in conversation.turns)
    words = (prompt or "").strip()
    has_prompt = bool(words) and any(words in entry.text for entry in conversation.opening)
    turns = 0 if has_tools else len(conversation.turns)
    return (
        conversation.origin is None,
        has_tools and has_prompt,
        uses_them,
        has_tools,
        has_prompt,
        turns,
        -conversation.number,
    )


def _is_side(conversation: Conversation, main: Conversation) -> bool:
    if conversation.origin is not None or not main.first.names:
        return False
    said_once = len(conversation.turns) == 1 and not conversation.turns[0].answer.uses
    return not conversation.first.names or (said_once and conversation.first.system != main.first.system)


def _parent(conversation: Conversation, main: Conversation, depths: dict[int, int]) -> int:
    origin = conversation.origin.conversation if conversation.origin is not None else main.number
    return origin if depths.get(origin, MOST_NESTED) < MOST_NESTED else main.number


MOST_SIDE_CALLS = 1000
_MOST_SAID = 2000
"""Most characters of a message in a side call."""
_LAST = 16
"""Number of unanswered calls that are searched, and of items at the end of their requests."""
_NOTHING = "no call of a model was answered"


@dataclass(frozen=True)
class TrajectoryOwner:
    """Description of a trajectory's agent."""

    name: str
    version: str = "unknown"
    model: str | None = None
    session_id: str | None = None
    prompt: str | None = None
    """The task that the agent was given; the main conversation contains it."""
    extra: Mapping[str, Any] = field(default_factory=dict)


def trajectory_of(
    calls: Iterable[Call], about: TrajectoryOwner, trailing: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Build the trajectory of these calls, checked against ATIF.

    `trailing` has tool results that no request carried: id of the call, or else the name of the tool, and the
    result. Results in requests without an answer are found here.
    """
    known_calls = list(calls)
    threads = sort_calls(known_calls)
    late = {**_pending_results(threads), **(trailing or {})}
    builder = _TrajectoryBuilder(threads, roles_of(threads, about.prompt), about, late).root()
    builder["final_metrics"] = _totals(known_calls, len(builder["steps"]))
    builder["extra"] = {
        **plain_json(dict(about.extra)),
        **builder.get("extra", {}),
        **_counts(known_calls, threads),
    }
    Trajectory.model_validate(builder)
    return builder


class _TrajectoryBuilder:
    """Builder of the trajectories of all conversations, embedded in the main one's."""

    def __init__(
        self, threads: Conversations, roles: Roles, about: TrajectoryOwner, trailing: Mapping[str, str]
    ) -> None:
        self._threads, self._roles, self._about, self._trailing = threads, roles, about, trailing
        self._base = clean_text(about.session_id or "trajectory")

    def root(self) -> dict[str, Any]:
        main = self._roles.main
        document = self._of(main) if main is not None else self._empty()
        side = [turn for conversation in self._roles.side for turn in map(_at_the_side, conversation.turns)]
        if side:
            document["extra"] = {"side_calls": side[:MOST_SIDE_CALLS]}
        return document

    def _of(self, conversation: Conversation) -> dict[str, Any]:
        steps = StepBuilder(conversation)
        inner = self._roles.inside.get(conversation.number, [])
        embedded = []
        for each in inner:
            id = f"{self._base}.{each.number + 1}"
            if each.origin is not None and each.origin.conversation == conversation.number:
                steps.refer(each.origin.call, each.origin.place, {"trajectory_id": id})
            document = {**self._of(each), "trajectory_id": id}
            document["final_metrics"] = _totals(each.calls, len(document["steps"]))
            embedded.append(document)
        first = conversation.turns[0].call
        tools = conversation.first.reader.tools(first.request)
        document = self._around(first.model, tools, steps.finish(self._trailing))
        return {**document, "subagent_trajectories": embedded} if embedded else document

    def _empty(self) -> dict[str, Any]:
        """Return a trajectory for calls without any answer: it holds only the agent's task."""
        entries = [ConversationEntry("user", (self._about.prompt,))] if self._about.prompt else []
        if self._threads.failed:
            history = History(self._threads.failed[0])
            entries = [*history.system, *opening_of(history)] or entries
        entries_told = [entry for entry in entries if entry.who != "tool"] or [
            ConversationEntry("system", (_NOTHING,))
        ]
        steps = [{"source": entry.who, "message": message_content(entry.pieces)} for entry in entries_told]
        numbered = [{"step_id": number, **step} for number, step in enumerate(steps, start=1)]
        return self._around(None, [], numbered)

    def _around(
        self, model: str | None, tools: list[dict[str, Any]], steps: list[dict[str, Any]]
    ) -> dict[str, Any]:
        about = self._about
        named = model or about.model
        agent: dict[str, Any] = {"name": clean_text(about.name), "version": clean_text(about.version)}
        agent.update({"model_name": clean_text(named)} if named else {})
        agent.update({"tool_definitions": tools} if tools else {})
        document = {"schema_version": ATIF, "trajectory_id": self._base, "agent": agent, "steps": steps}
        return (
            document if about.session_id is None else {**document, "session_id": clean_text(about.session_id)}
        )


def _pending_results(threads: Conversations) -> dict[str, str]:
    """Return the tool results in the last requests that were not answered."""
    results = {}
    for call in threads.failed[-_LAST:]:
        history = History(call)
        for _, entry in history.since(max(0, len(history) - _LAST)):
            for result in entry.results:
                text = ConversationEntry("tool", result.pieces).text
                # In this dialect, ids of calls are the agent's own, if there are any.
                names = (result.id, result.name) if call.dialect == "gemini" else (result.id,)
                results.update({name: text for name in names if name})
    return results


def _at_the_side(turn: ConversationCall) -> dict[str, Any]:
    call = turn.call
    used = call.usage or TokenUsage()
    return {
        "call": call.number,
        "model_name": clean_text(call.model or ""),
        "message": clean_text(turn.answer.text[:_MOST_SAID]),
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "cost_usd": call.cost_usd,
    }


def _totals(calls: list[Call], steps: int) -> dict[str, Any]:
    """Return the total usage of calls; the cost is known only if that of each call is."""
    used = usage_of(calls)
    totals: dict[str, Any] = {
        "total_prompt_tokens": used.input_tokens,
        "total_completion_tokens": used.output_tokens,
        "total_cached_tokens": used.cached_tokens,
        "total_steps": steps,
        "extra": {"reasoning_tokens": used.reasoning_tokens, "cache_write_tokens": used.cache_write_tokens},
    }
    cost = cost_of(calls)
    if cost is not None:
        totals["total_cost_usd"] = cost
    return totals


def _counts(calls: list[Call], threads: Conversations) -> dict[str, Any]:
    failed = sorted(threads.failed, key=lambda call: call.number)
    counts: dict[str, Any] = {
        "calls": len(calls),
        "failed_calls": len(failed),
        "retried_calls": sum(len(conversation.retried) for conversation in threads.conversations),
    }
    errors = [call for call in sorted(calls, key=lambda call: call.number) if call.error is not None]
    if errors:
        counts["last_error"] = clean_text((errors[-1].error or "")[:_MOST_SAID])
    elif failed:
        counts["last_error"] = f"status {failed[-1].status}"
    return counts
