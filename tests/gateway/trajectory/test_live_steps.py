"""Steps of an agent at work: each once, in order, and at a cost that does not grow with its conversation."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from benchyard.errors import NotFound, UsageError
from benchyard.gateway import protocol
from benchyard.gateway.dialects import catalog
from benchyard.gateway.records.reader import CallPosition, NewCalls, open_for_reading, read_calls
from benchyard.gateway.records.storage import CallEnd, CallStart
from benchyard.gateway.records.writer import CallSubject, Recorder
from benchyard.gateway.trajectory.builder import TrajectoryOwner, trajectory_of
from benchyard.gateway.trajectory.live_steps import LiveCursor, LiveEvent, live_events
from tests.gateway.trajectory.scripts import PROMPT, Anthropic, Chat, Gemini, Responses, Said

FOREVER_MS = 2**53
PATHS = {"anthropic": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}
Exchange = tuple[Any, Any]


async def record(
    folder: Path, dialect: str, exchanges: list[Exchange], ends: list[int] | None = None
) -> Path:
    """A record of these requests and answers; calls end in their order, or in another."""
    spoken = catalog.dialect_named(dialect)
    assert spoken is not None
    subject = CallSubject("trial", None, spoken, None)
    path = PATHS.get(dialect, "/v1beta/models/m:generateContent")
    recorder = Recorder(folder)
    recorder.open()
    for number, (request, _) in enumerate(exchanges, start=1):
        start = CallStart(number, dialect, "p", path, 1000 * number)
        recorder.begin(subject, start, json.dumps(request).encode(), None)
    for number in ends or range(1, len(exchanges) + 1):
        answer = json.dumps(exchanges[number - 1][1]).encode()
        status = 200 if exchanges[number - 1][1] else 500
        end = 100_000 + (ends or sorted(range(1, 1000))).index(number)
        await recorder.end(
            subject, CallEnd(number, status, end, None, answer, None, "application/json", 0, 0, None)
        )
    await recorder.finish("trial")
    await recorder.close()
    return protocol.record_file(folder, "trial")


def worked(script: Any, rounds: int) -> list[Exchange]:
    """What an agent asks and is answered that calls a tool in each round."""
    found: list[Exchange] = []
    script.user(PROMPT)
    for number in range(rounds):
        said = Said(f"I do {number}.", [(f"call_{number}", "Bash", {"command": f"step {number}"})])
        found.append((script.request(), script.answer(said)))
        script.results((f"call_{number}", "Bash", f"result {number}"))
    found.append((script.request(), script.answer(Said("Done."))))
    return found


def told(events: list[LiveEvent]) -> list[tuple[str, Any]]:
    """Kind and words of each event."""
    found = []
    for event in events:
        value = event.value
        words = (
            value["step"]["message"]
            if value["kind"] == "step"
            else value.get("content", value.get("message"))
        )
        found.append((value["kind"], words))
    return found


SCRIPTS = (Anthropic, Chat, Responses, Gemini)


@pytest.mark.parametrize("script", SCRIPTS)
def test_live_steps_are_those_of_the_trajectory(tmp_path: Path, script: Any) -> None:
    agent = script()
    file = asyncio.run(record(tmp_path, agent.dialect, worked(agent, 4)))
    events = list(live_events(file, LiveCursor(), FOREVER_MS))
    steps = [event.value["step"] for event in events if event.value["kind"] == "step"]
    made = trajectory_of(read_calls(file), TrajectoryOwner("agent", prompt=PROMPT))["steps"]
    results = [step.pop("observation")["results"][0]["content"] for step in made if "observation" in step]
    assert steps == made
    assert [step["step_id"] for step in steps] == [
        event.value.get("number") for event in events if "step" in event.value
    ]
    assert [words for kind, words in told(events) if kind == "observation"] == results
    assert results == [f"result {number}" for number in range(4)]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_stream_goes_on_after_any_event(tmp_path: Path, script: Any) -> None:
    agent = script()
    file = asyncio.run(record(tmp_path, agent.dialect, worked(agent, 3)))
    every = list(live_events(file, LiveCursor(), FOREVER_MS))
    for place, event in enumerate(every, start=1):
        cursor = LiveCursor.of(str(event.cursor))
        assert list(live_events(file, cursor, FOREVER_MS)) == every[place:]


def test_a_call_is_read_without_the_conversation_before_it(tmp_path: Path) -> None:
    exchanges = worked(Chat(), 60)
    file = asyncio.run(record(tmp_path, "chat", exchanges))
    with open_for_reading(file) as connection:
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        place = CallPosition(100_000 + 58, 59)
        (_, new) = NewCalls(connection).after(CallPosition(100_000 + 57, 58), FOREVER_MS, 2)
        assert new.call.number == place.number + 1
        assert new.only_adds
        assert [each["role"] for each in new.call.request["messages"]] == ["assistant", "tool"]
    assert len([each for each in statements if "links" in each]) < 10


def test_agents_at_work_side_by_side_are_reported_in_the_order_of_their_ends(tmp_path: Path) -> None:
    first, second = Chat(), Chat()
    first.user("the first task")
    second.user("the second task")
    exchanges = [
        (script.request(), script.answer(Said(f"I {name}.")))
        for script, name in ((first, "a"), (second, "b"))
    ]
    file = asyncio.run(record(tmp_path, "chat", exchanges, ends=[2, 1]))
    events = list(live_events(file, LiveCursor(), FOREVER_MS))
    words = [words for _, words in told(events)]
    assert [each for each in words if "task" in each or each.startswith("I ")] == [
        "the second task",
        "I b.",
        "the first task",
        "I a.",
    ]
    late = list(live_events(file, LiveCursor(), 100_001))
    assert late == events[: len(late)]
    assert told(late)[-1] == ("step", "I b.")


def test_failed_calls_are_reported_and_repeated_ones_add_nothing(tmp_path: Path) -> None:
    script = Anthropic()
    script.user(PROMPT)
    request = script.request()
    exchanges = [(request, None), (request, script.answer(Said("Here I am.")))]
    file = asyncio.run(record(tmp_path, "anthropic", exchanges))
    found = told(list(live_events(file, LiveCursor(), FOREVER_MS)))
    assert found[1:] == [
        ("step", PROMPT),
        ("failure", "a call of a model failed: HTTP 500: null"),
        ("step", "Here I am."),
    ]


@pytest.mark.parametrize(
    "text", ["x", "1-2-3", "-1-0-0-0", "1-2-3-4-5", "9" * 50, "\u0661-\u0661-\u0661-\u0661"]
)
def test_odd_cursors_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no place in a stream"):
        LiveCursor.of(text)


def test_cursors_from_elsewhere_end_the_stream_early(tmp_path: Path) -> None:
    file = asyncio.run(record(tmp_path, "chat", worked(Chat(), 1)))
    assert list(live_events(file, LiveCursor(10**14, 10**8, 5, 5), FOREVER_MS)) == []
    assert told(list(live_events(file, LiveCursor(skip=10**8), FOREVER_MS)))[-1] == ("step", "Done.")
    with pytest.raises(NotFound):
        list(live_events(tmp_path / "none.db", LiveCursor(), FOREVER_MS))
