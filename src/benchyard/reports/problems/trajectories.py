"""Steps of a trajectory, read as the agent's turns with bounded texts. Pure."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from benchyard.gateway.trajectory.stored_steps import StoredObservation, StoredStep, StoredToolCall
from benchyard.reports.problems.commands import changed_paths, command_of, exit_status_in, is_edit
from benchyard.reports.problems.facts import AgentTurn, ToolAction

MOST_TURNS = 20_000
MOST_ACTIONS_OF_TURN = 50
_MOST_TEXT = 4000


def turns_of(steps: Iterable[StoredStep]) -> tuple[AgentTurn, ...]:
    """Return the agent's turns; steps that repeat an earlier context are left out."""
    found: list[AgentTurn] = []
    for step in steps:
        if step.source == "agent" and not step.is_copied:
            found.append(_turn(step))
            if len(found) >= MOST_TURNS:
                break
    return tuple(found)


def cut_middle(text: str, most: int = _MOST_TEXT) -> str:
    """Return the beginning and the end of a text."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}\n...\n{text[-half:]}"


def _turn(step: StoredStep) -> AgentTurn:
    return AgentTurn(
        step=step.number,
        message=cut_middle(step.text),
        actions=tuple(_actions(step)),
        prompt_tokens=step.prompt_tokens,
        end_ms=_time_ms(step.timestamp),
        stop=step.stop_reason,
        is_main=step.trajectory == 0,
    )


def _time_ms(timestamp: str | None) -> int | None:
    if timestamp is None:
        return None
    try:
        found = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    aware = found if found.tzinfo else found.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def _actions(step: StoredStep) -> Iterator[ToolAction]:
    by_call = {each.call_id: each for each in step.observations if each.call_id}
    for place, call in enumerate(step.calls[:MOST_ACTIONS_OF_TURN]):
        result = by_call.get(call.id)
        if result is None and not by_call and place < len(step.observations):
            # Some agents name no calls in their results.
            result = step.observations[place]
        yield _action(call, result, step.number)


def _action(call: StoredToolCall, result: StoredObservation | None, number: int) -> ToolAction:
    arguments: Mapping[str, object] = call.arguments if isinstance(call.arguments, dict) else {}
    text = json.dumps(call.arguments, sort_keys=True, default=str)
    command = command_of(arguments)
    return ToolAction(
        step=number,
        tool=call.name,
        arguments=text[:_MOST_TEXT],
        digest=_digest(f"{call.name} {text}"),
        command=command,
        paths=changed_paths(call.name, arguments, command),
        is_edit=is_edit(call.name, arguments),
        output=None if result is None else cut_middle(result.text),
        output_digest=None if result is None else _digest(result.text),
        exit_status=None if result is None else exit_status_in(result.text),
        is_error=result is not None and result.is_error,
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()
