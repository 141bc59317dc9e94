"""Histories that agents change on the way: nothing is lost, and nothing is told twice."""

from typing import Any

import pytest

from benchyard.gateway.calls import Call
from benchyard.gateway.trajectory.builder import TrajectoryOwner, trajectory_of
from tests.gateway.trajectory.scripts import (
    PROMPT,
    Anthropic,
    Chat,
    Gemini,
    Responses,
    Said,
    Script,
    next_call,
)

ABOUT = TrajectoryOwner("an-agent", session_id="run-1", prompt=PROMPT)
SCRIPTS: list[type[Script]] = [Anthropic, Chat, Responses, Gemini]
EVERY = pytest.mark.parametrize("kind", SCRIPTS)
SUMMARY = "The file was looked for and is not there yet; it has to be made."


def rounds(script: Script, first: int, last: int) -> list[Call]:
    calls = []
    for number in range(first, last + 1):
        calls.append(
            next_call(script, number, Said(f"Say {number}", [(f"id-{number}", "run", {"n": number})]))
        )
        script.results((f"id-{number}", "run", f"result {number}"))
    return calls


def told(made: dict[str, Any]) -> list[str]:
    return [f"{step['source']}: {step['message']}" for step in made["steps"] if step["source"] != "system"]


def answers(made: dict[str, Any]) -> list[list[str]]:
    return [
        [each["content"] for each in step.get("observation", {"results": []})["results"]]
        for step in made["steps"]
        if step.get("tool_calls")
    ]


@EVERY
def test_a_history_that_is_replaced_by_its_summary_goes_on(kind: type[Script]) -> None:
    before = kind()
    before.user(PROMPT)
    calls = rounds(before, 1, 3)
    before.user("Summarise all of it.")
    calls.append(next_call(before, 4, Said(f"<summary>\n{SUMMARY}\n</summary>")))
    after = kind()
    after.user(f"This goes on from an earlier conversation.\n{SUMMARY}")
    calls += rounds(after, 5, 6)
    calls.append(next_call(after, 7, Said("Done.")))
    made = trajectory_of(calls, ABOUT)
    assert "subagent_trajectories" not in made
    assert told(made) == [
        f"user: {PROMPT}",
        "agent: Say 1",
        "agent: Say 2",
        "agent: Say 3",
        "user: Summarise all of it.",
        f"agent: <summary>\n{SUMMARY}\n</summary>",
        f"user: This goes on from an earlier conversation.\n{SUMMARY}",
        "agent: Say 5",
        "agent: Say 6",
        "agent: Done.",
    ]
    assert answers(made) == [[f"result {number}"] for number in (1, 2, 3, 5, 6)]


@EVERY
def test_a_summary_by_a_call_of_its_own_leads_back_to_the_conversation(kind: type[Script]) -> None:
    before, other, after = kind(), kind("You summarise.", []), kind()
    before.user(PROMPT)
    calls = rounds(before, 1, 2)
    other.tools = []
    other.user("Summarise: ...")
    calls.append(next_call(other, 3, Said(SUMMARY)))
    after.user(SUMMARY)
    after.answer(Said("Got it. Thanks for the context!"))
    after.user("Go on.")
    calls += rounds(after, 4, 5)
    made = trajectory_of(calls, ABOUT)
    assert [each["call"] for each in made["extra"]["side_calls"]] == [3]
    copied = [step for step in made["steps"] if step.get("is_copied_context")]
    assert [step["message"] for step in copied] == ["Got it. Thanks for the context!"]
    assert "llm_call_count" not in copied[0]
    assert "metrics" not in copied[0]
    assert [step["extra"]["call"] for step in made["steps"] if "extra" in step] == [1, 2, 4, 5]


@EVERY
def test_old_results_that_are_cleared_change_nothing(kind: type[Script]) -> None:
    script = kind()
    script.user(PROMPT)
    calls = rounds(script, 1, 5)
    expected = told(trajectory_of([*calls, *rounds(script, 6, 7)], ABOUT))
    script = kind()
    script.user(PROMPT)
    calls = rounds(script, 1, 5)
    _clear(script, "result 2")
    calls += rounds(script, 6, 7)
    made = trajectory_of(calls, ABOUT)
    assert told(made) == expected
    assert answers(made) == [*([f"result {number}"] for number in range(1, 7)), []]


def _clear(script: Script, old: str) -> None:
    """Put a note where an old result was, as some agents do to save tokens."""
    if isinstance(script, Anthropic | Chat):
        script.messages = _replaced(script.messages, old)
    elif isinstance(script, Responses):
        script.input = _replaced(script.input, old)
    else:
        script.contents = _replaced(script.contents, old)


def _replaced(value: Any, old: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(each, old) for key, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, old) for each in value]
    return "[cleared]" if value == old else value


def test_a_first_message_that_changes_does_not_begin_another_conversation() -> None:
    script = Anthropic()
    script.user("<system-reminder>1</system-reminder>", PROMPT)
    calls = rounds(script, 1, 2)
    script.messages[0]["content"][0]["text"] = "<system-reminder>2</system-reminder>"
    made = trajectory_of([*calls, *rounds(script, 3, 3)], ABOUT)
    assert "subagent_trajectories" not in made
    assert [step["extra"]["call"] for step in made["steps"] if "extra" in step] == [1, 2, 3]
    assert answers(made) == [["result 1"], ["result 2"], []]


def test_the_oldest_messages_may_be_dropped() -> None:
    script = Anthropic()
    script.user(PROMPT)
    calls = rounds(script, 1, 4)
    script.messages = [script.messages[0], *script.messages[5:]]
    made = trajectory_of([*calls, *rounds(script, 5, 5)], ABOUT)
    assert told(made) == [f"user: {PROMPT}", *(f"agent: Say {number}" for number in range(1, 6))]


def test_a_conversation_that_began_elsewhere_is_marked_as_copied() -> None:
    script = Chat()
    script.user("An older question.")
    script.answer(Said("An older answer.", [("old", "bash", {})]))
    script.results(("old", "bash", "an older result"))
    script.user(PROMPT)
    made = trajectory_of([next_call(script, 1, Said("Done."))], ABOUT)
    assert told(made) == [
        "user: An older question.",
        "agent: An older answer.",
        f"user: {PROMPT}",
        "agent: Done.",
    ]
    assert [step.get("is_copied_context") for step in made["steps"]] == [None, None, True, None, None]
    assert answers(made) == [["an older result"]]
    assert made["final_metrics"]["total_prompt_tokens"] == 100


def test_answers_are_followed_by_their_id_where_requests_carry_no_history() -> None:
    script = Responses()
    script.user(PROMPT)
    first = next_call(script, 1, Said("", [("call_1", "exec_command", {})]))
    first.response["id"] = "resp_1"
    script.input = []
    script.results(("call_1", "exec_command", "ok"))
    second = next_call(script, 2, Said("Done."))
    second.request["previous_response_id"] = "resp_1"
    made = trajectory_of([first, second], ABOUT)
    assert told(made) == [f"user: {PROMPT}", "agent: ", "agent: Done."]
    assert answers(made) == [["ok"]]


def test_a_user_may_say_the_same_twice() -> None:
    script = Chat()
    script.user(PROMPT)
    calls = rounds(script, 1, 1)
    for number in (2, 3):
        script.user("Go on.")
        calls.append(next_call(script, number, Said(f"Say {number}")))
    assert told(trajectory_of(calls, ABOUT)).count("user: Go on.") == 2
