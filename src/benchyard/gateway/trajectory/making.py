"""A trajectory in ATIF, made of the calls of one agent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchyard.gateway.calls import Call, Usage
from benchyard.gateway.totals import cost_of, usage_of
from benchyard.gateway.trajectory.entries import Entry
from benchyard.gateway.trajectory.histories import History
from benchyard.gateway.trajectory.plain import clean, content, plain
from benchyard.gateway.trajectory.roles import Roles, roles_of
from benchyard.gateway.trajectory.steps import Steps
from benchyard.gateway.trajectory.threads import Conversation, Threads, Turn, opening_of, sorted_calls
from benchyard.models.trajectories import ATIF, Trajectory

MOST_SIDE_CALLS = 1000
_MOST_SAID = 2000
"""Characters of what was said at the side."""
_LAST = 16
"""Of the calls that were not answered, and of what their requests end with."""
_NOTHING = "no call of a model was answered"


@dataclass(frozen=True)
class About:
    """Whose trajectory it is."""

    name: str
    version: str = "unknown"
    model: str | None = None
    session_id: str | None = None
    prompt: str | None = None
    """What the agent was told to do: its conversation is the main one."""
    extra: Mapping[str, Any] = field(default_factory=dict)


def trajectory_of(
    calls: Iterable[Call], about: About, trailing: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The trajectory that these calls come to, checked against ATIF.

    `trailing` has results of tools that no request carried any more: id of the call, or where there is none
    the name of the tool, and what it answered. Those of a request that nobody answered are found here.
    """
    given = list(calls)
    threads = sorted_calls(given)
    late = {**_unanswered(threads), **(trailing or {})}
    made = _Making(threads, roles_of(threads, about.prompt), about, late).root()
    made["final_metrics"] = _totals(given, len(made["steps"]))
    made["extra"] = {**plain(dict(about.extra)), **made.get("extra", {}), **_counts(given, threads)}
    Trajectory.model_validate(made)
    return made


class _Making:
    """The trajectories of all conversations, the main one's with the others in it."""

    def __init__(self, threads: Threads, roles: Roles, about: About, trailing: Mapping[str, str]) -> None:
        self._threads, self._roles, self._about, self._trailing = threads, roles, about, trailing
        self._base = clean(about.session_id or "trajectory")

    def root(self) -> dict[str, Any]:
        main = self._roles.main
        made = self._of(main) if main is not None else self._empty()
        side = [each for conversation in self._roles.side for each in map(_at_the_side, conversation.turns)]
        if side:
            made["extra"] = {"side_calls": side[:MOST_SIDE_CALLS]}
        return made

    def _of(self, conversation: Conversation) -> dict[str, Any]:
        steps = Steps(conversation)
        inner = self._roles.inside.get(conversation.number, [])
        embedded = []
        for each in inner:
            id = f"{self._base}.{each.number + 1}"
            if each.origin is not None and each.origin.conversation == conversation.number:
                steps.refer(each.origin.call, each.origin.place, {"trajectory_id": id})
            made = {**self._of(each), "trajectory_id": id}
            made["final_metrics"] = _totals(each.calls, len(made["steps"]))
            embedded.append(made)
        first = conversation.turns[0].call
        tools = conversation.first.reader.tools(first.request)
        made = self._around(first.model, tools, steps.finish(self._trailing))
        return {**made, "subagent_trajectories": embedded} if embedded else made

    def _empty(self) -> dict[str, Any]:
        """What is there to tell if no call was answered: what the agent was told."""
        entries = [Entry("user", (self._about.prompt,))] if self._about.prompt else []
        if self._threads.failed:
            history = History(self._threads.failed[0])
            entries = [*history.system, *opening_of(history)] or entries
        told = [each for each in entries if each.who != "tool"] or [Entry("system", (_NOTHING,))]
        steps = [{"source": each.who, "message": content(each.pieces)} for each in told]
        numbered = [{"step_id": number, **step} for number, step in enumerate(steps, start=1)]
        return self._around(None, [], numbered)

    def _around(
        self, model: str | None, tools: list[dict[str, Any]], steps: list[dict[str, Any]]
    ) -> dict[str, Any]:
        about = self._about
        named = model or about.model
        agent: dict[str, Any] = {"name": clean(about.name), "version": clean(about.version)}
        agent.update({"model_name": clean(named)} if named else {})
        agent.update({"tool_definitions": tools} if tools else {})
        made = {"schema_version": ATIF, "trajectory_id": self._base, "agent": agent, "steps": steps}
        return made if about.session_id is None else {**made, "session_id": clean(about.session_id)}


def _unanswered(threads: Threads) -> dict[str, str]:
    """What tools had answered in the last requests that came to nothing."""
    found = {}
    for call in threads.failed[-_LAST:]:
        history = History(call)
        for _, entry in history.since(max(0, len(history) - _LAST)):
            for result in entry.results:
                told = Entry("tool", result.pieces).text
                # Of this dialect, ids are the agent's own where it has any.
                names = (result.id, result.name) if call.dialect == "gemini" else (result.id,)
                found.update({name: told for name in names if name})
    return found


def _at_the_side(turn: Turn) -> dict[str, Any]:
    call = turn.call
    used = call.usage or Usage()
    return {
        "call": call.number,
        "model_name": clean(call.model or ""),
        "message": clean(turn.answer.text[:_MOST_SAID]),
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "cost_usd": call.cost_usd,
    }


def _totals(calls: list[Call], steps: int) -> dict[str, Any]:
    """What calls used in all; the price is known only if that of each is."""
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


def _counts(calls: list[Call], threads: Threads) -> dict[str, Any]:
    failed = sorted(threads.failed, key=lambda call: call.number)
    counts: dict[str, Any] = {
        "calls": len(calls),
        "failed_calls": len(failed),
        "retried_calls": sum(len(each.retried) for each in threads.conversations),
    }
    errors = [call for call in sorted(calls, key=lambda call: call.number) if call.error is not None]
    if errors:
        counts["last_error"] = clean((errors[-1].error or "")[:_MOST_SAID])
    elif failed:
        counts["last_error"] = f"status {failed[-1].status}"
    return counts
