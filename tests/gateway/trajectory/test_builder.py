"""Trajectories of simple conversations, in each dialect alike."""

from typing import Any

import pytest

from benchyard.gateway.calls import Call, TokenUsage
from benchyard.gateway.dialects.base import ConversationReader
from benchyard.gateway.dialects.entries import ConversationEntry
from benchyard.gateway.trajectory import conversations
from benchyard.gateway.trajectory.atif import Trajectory
from benchyard.gateway.trajectory.builder import TrajectoryOwner, trajectory_of
from tests.gateway.trajectory.scripts import (
    PROMPT,
    SYSTEM,
    Anthropic,
    Chat,
    Gemini,
    Responses,
    Said,
    Script,
    call,
    next_call,
)

ABOUT = TrajectoryOwner("an-agent", "1.2", "m", "run-1", PROMPT)
SCRIPTS: list[type[Script]] = [Anthropic, Chat, Responses, Gemini]
EVERY = pytest.mark.parametrize("kind", SCRIPTS)


def conversation(script: Script, rounds: int) -> list[Call]:
    """One with a call of a tool in each round, two at once in the second; a note with the first result."""
    calls = []
    script.user(PROMPT)
    for number in range(1, rounds):
        uses = [(f"id-{number}", "run", {"command": f"step {number}"})]
        uses += [("id-more", "look", {})] if number == 2 else []
        calls.append(next_call(script, number, Said(f"Say {number}", uses, f"Think {number}")))
        results = [(id, name, f"came of {id}") for id, name, _arguments in uses]
        script.results(*results, note="A reminder." if number == 1 else "")
    return [*calls, next_call(script, rounds, Said("Done."))]


def sources(made: dict[str, Any]) -> list[str]:
    return [step["source"] for step in made["steps"]]


def observed(step: dict[str, Any]) -> list[str]:
    ids = [use["tool_call_id"] for use in step.get("tool_calls", [])]
    results = step.get("observation", {"results": []})["results"]
    assert [each["source_call_id"] for each in results] == ids
    return [each["content"] for each in results]


@EVERY
def test_each_call_is_a_step_with_what_its_tools_answered(kind: type[Script]) -> None:
    made = trajectory_of(conversation(kind(), 3), ABOUT)
    assert sources(made) == ["system", "user", "agent", "user", "agent", "agent"]
    system, user, first, reminder, second, last = made["steps"]
    assert (system["message"], user["message"], reminder["message"]) == (SYSTEM, PROMPT, "A reminder.")
    assert (first["message"], first["reasoning_content"]) == ("Say 1", "Think 1")
    assert [use["function_name"] for use in second["tool_calls"]] == ["run", "look"]
    assert first["tool_calls"][0]["arguments"] == {"command": "step 1"}
    assert observed(first) == ["came of id-1"]
    assert observed(second) == ["came of id-2", "came of id-more"]
    assert (last["message"], "tool_calls" in last, "observation" in last) == ("Done.", False, False)


@EVERY
def test_the_root_says_who_it_was_and_what_it_cost(kind: type[Script]) -> None:
    made = trajectory_of(
        conversation(kind(), 3), TrajectoryOwner("a", "1", None, "run-1", PROMPT, {"trial": "t"})
    )
    assert (made["schema_version"], made["session_id"]) == ("ATIF-v1.8", "run-1")
    assert (made["agent"]["name"], made["agent"]["model_name"]) == ("a", "m")
    assert made["agent"]["tool_definitions"][0]["type"] == "function"
    assert made["extra"] == {"trial": "t", "calls": 3, "failed_calls": 0, "retried_calls": 0}
    totals = made["final_metrics"]
    assert (totals["total_prompt_tokens"], totals["total_completion_tokens"]) == (600, 60)
    assert (totals["total_cached_tokens"], totals["total_cost_usd"], totals["total_steps"]) == (30, 1.5, 6)
    first = next(step for step in made["steps"] if step["source"] == "agent")
    assert first["timestamp"] == "1970-01-01T00:16:41.500+00:00"
    assert first["metrics"]["prompt_tokens"] == 100
    assert (first["llm_call_count"], first["extra"]) == (1, {"call": 1})


@EVERY
def test_calls_come_in_any_order(kind: type[Script]) -> None:
    calls = conversation(kind(), 4)
    assert trajectory_of(reversed(calls), ABOUT) == trajectory_of(calls, ABOUT)


@EVERY
def test_a_long_conversation_is_read_item_by_item_only_once_or_twice(
    kind: type[Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = conversation(kind(), 200)
    reader = conversations._READERS[kind.dialect]
    read: list[object] = []
    plain = type(reader).entries

    def counted(self: ConversationReader, item: object) -> tuple[ConversationEntry, ...]:
        read.append(item)
        return plain(self, item)

    monkeypatch.setattr(type(reader), "entries", counted)
    made = trajectory_of(calls, ABOUT)
    assert len([step for step in made["steps"] if step["source"] == "agent"]) == 200
    assert all(step.get("observation") for step in made["steps"] if step.get("tool_calls"))
    assert len(read) < 200 * 50


@EVERY
def test_the_last_result_comes_from_elsewhere_if_no_request_carried_it(kind: type[Script]) -> None:
    script = kind()
    script.user(PROMPT)
    calls = [next_call(script, 1, Said("", [("id-1", "run", {})]))]
    key = "run" if kind is Gemini else "id-1"
    made = trajectory_of(calls, ABOUT, {key: "killed", "other": "x"})
    assert observed(made["steps"][-1]) == ["killed"]
    assert "observation" not in trajectory_of(calls, ABOUT)["steps"][-1]


@EVERY
def test_a_request_without_a_reply_has_the_last_result(kind: type[Script]) -> None:
    script = kind()
    script.user(PROMPT)
    calls = [next_call(script, 1, Said("", [("id-1", "run", {})]))]
    script.results(("id-1", "run", "came of it"))
    cut: dict[str, Any] = {"status": 0, "error": "the token was revoked", "usage": None, "cost_usd": None}
    calls.append(call(2, kind.dialect, script.request(), None, **cut))
    made = trajectory_of(calls, ABOUT)
    assert observed(made["steps"][-1]) == ["came of it"]
    assert made["extra"]["failed_calls"] == 1


def test_without_calls_the_trajectory_has_the_prompt() -> None:
    made = trajectory_of([], ABOUT)
    assert [(step["source"], step["message"]) for step in made["steps"]] == [("user", PROMPT)]
    assert made["final_metrics"]["total_cost_usd"] == 0
    assert trajectory_of([], TrajectoryOwner("a"))["steps"][0]["source"] == "system"


@EVERY
def test_calls_that_failed_are_counted_and_are_not_steps(kind: type[Script]) -> None:
    good = conversation(kind(), 2)
    request = good[0].request
    bad: dict[str, Any] = {"usage": None, "cost_usd": None}
    calls = [
        call(0, kind.dialect, request, {"error": {}}, status=429, **bad),
        *good,
        call(8, kind.dialect, request, None, status=0, error="connection lost", **bad),
    ]
    made = trajectory_of(calls, ABOUT)
    assert made["steps"] == trajectory_of(good, ABOUT)["steps"]
    assert made["final_metrics"]["total_cost_usd"] == 0.75
    counted = {key: made["extra"][key] for key in ("calls", "failed_calls", "last_error")}
    assert counted == {"calls": 4, "failed_calls": 2, "last_error": "connection lost"}


@EVERY
def test_if_all_calls_failed_the_trajectory_has_the_request(kind: type[Script]) -> None:
    script = kind()
    script.user(PROMPT)
    made = trajectory_of([call(1, kind.dialect, script.request(), None, status=500)], TrajectoryOwner("a"))
    assert [step["message"] for step in made["steps"]] == [SYSTEM, PROMPT]
    assert made["extra"]["last_error"] == "status 500"


@EVERY
def test_an_answer_that_broke_off_gives_way_to_the_one_that_came_when_asked_again(kind: type[Script]) -> None:
    script = kind()
    script.user(PROMPT)
    broken = call(1, kind.dialect, script.request(), None, error="broke off")
    calls = [broken, next_call(script, 2, Said("", [("id-1", "run", {})]))]
    script.results(("id-1", "run", "ok"))
    made = trajectory_of([*calls, next_call(script, 3, Said("Done."))], ABOUT)
    assert sources(made) == ["system", "user", "agent", "agent"]
    assert made["extra"]["retried_calls"] == 1
    assert made["final_metrics"]["total_prompt_tokens"] == 600


@EVERY
def test_the_same_question_answered_twice_is_two_steps(kind: type[Script]) -> None:
    script = kind()
    script.user(PROMPT)
    request = script.request()
    calls = [
        call(number, kind.dialect, request, kind().answer(Said(f"answer {number}"))) for number in (1, 2)
    ]
    made = trajectory_of(calls, ABOUT)
    assert [step["message"] for step in made["steps"]] == [SYSTEM, PROMPT, "answer 1", "answer 2"]


def test_an_unknown_price_makes_the_whole_unknown() -> None:
    calls = conversation(Chat(), 3)
    unknown = call(4, "chat", calls[-1].request, calls[-1].response, cost_usd=None)
    assert "total_cost_usd" not in trajectory_of([*calls, unknown], ABOUT)["final_metrics"]


def test_tokens_and_their_probabilities_are_kept_with_the_step() -> None:
    script = Chat()
    script.user(PROMPT)
    made = next_call(script, 1, Said("Hi"))
    choice = {**made.response["choices"][0], "token_ids": [7, 8]}
    choice["logprobs"] = {"content": [{"token": "H", "logprob": -0.5}, {"token": "i", "logprob": -1}]}
    response = {**made.response, "choices": [choice], "prompt_token_ids": [1, 2, 3]}
    metrics = trajectory_of([call(1, "chat", made.request, response)], ABOUT)["steps"][-1]["metrics"]
    assert (metrics["prompt_token_ids"], metrics["completion_token_ids"]) == ([1, 2, 3], [7, 8])
    assert metrics["logprobs"] == [-0.5, -1.0]


def test_built_trajectory_is_valid_and_reads_back() -> None:
    made = trajectory_of(conversation(Responses(), 3), ABOUT)
    assert Trajectory.model_validate(made).steps[2].reasoning_effort == "high"
    used = [call.usage or TokenUsage() for call in conversation(Responses(), 3)]
    assert made["final_metrics"]["total_prompt_tokens"] == sum(each.input_tokens for each in used)
