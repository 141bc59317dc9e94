"""Trajectories of the calls that well-known agents make: titles, sub-agents, compaction and all."""

from typing import Any

import pytest

from benchyard.gateway.calls import Call
from benchyard.gateway.dialects.base import offered_tools
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

ABOUT = TrajectoryOwner("an-agent", "1.2", "m", "run-1", PROMPT)
BILLING = "x-anthropic-billing-header: cc_version=2.1; cch={}"
REMINDER = "<system-reminder>\nToday is a day.\n</system-reminder>"
DELEGATED = "Find every file that mentions hello and list them."


def agent_steps(made: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for step in made["steps"] if step["source"] == "agent"]


def numbers(made: dict[str, Any]) -> list[int]:
    """Of the calls that are steps of it, or of what is inside it."""
    own = [step["extra"]["call"] for step in agent_steps(made) if not step.get("is_copied_context")]
    return sorted(own + [each for inner in made.get("subagent_trajectories", []) for each in numbers(inner)])


def title(script: Script, number: int, prompt: str) -> Call:
    script.user("Generate a title for this conversation:", prompt)
    return next_call(script, number, Said("Hello file"))


def test_claude_code_with_a_title_and_a_sub_agent() -> None:
    main, sub = Anthropic(BILLING.format(1)), Anthropic("You are a search agent.", ["Bash"])
    calls = [title(Anthropic("Write a title.", []), 1, PROMPT)]
    main.user(REMINDER, PROMPT)
    told = {"description": "search", "prompt": DELEGATED, "subagent_type": "Explore"}
    calls.append(next_call(main, 2, Said("I delegate.", [("toolu_1", "Task", told)])))
    sub.user(REMINDER, DELEGATED)
    calls.append(next_call(sub, 3, Said("", [("toolu_2", "Bash", {"command": "grep"})])))
    sub.results(("toolu_2", "Bash", "a.txt"))
    calls.append(next_call(sub, 4, Said("Only a.txt.")))
    main.system = BILLING.format(2)
    main.results(("toolu_1", "Task", "Only a.txt."), note=REMINDER)
    calls.append(next_call(main, 5, Said("Done.")))

    made = trajectory_of(calls, ABOUT)
    assert [step["message"] for step in agent_steps(made)] == ["I delegate.", "Done."]
    (inner,) = made["subagent_trajectories"]
    (result,) = agent_steps(made)[0]["observation"]["results"]
    assert result["subagent_trajectory_ref"] == [{"trajectory_id": inner["trajectory_id"]}]
    assert (result["source_call_id"], result["content"]) == ("toolu_1", "Only a.txt.")
    assert [step["message"] for step in inner["steps"]][1:] == [f"{REMINDER}\n{DELEGATED}", "", "Only a.txt."]
    assert inner["final_metrics"]["total_prompt_tokens"] == 700
    (side,) = made["extra"]["side_calls"]
    assert (side["call"], side["message"]) == (1, "Hello file")
    assert made["final_metrics"]["total_prompt_tokens"] == 1500
    assert numbers(made) == [2, 3, 4, 5]


def test_two_sub_agents_at_once_with_the_same_setting_are_distinguished() -> None:
    main = Anthropic()
    main.user(PROMPT)
    tasks = ["Count the files in the source folder.", "Count the files in the tests folder."]
    uses = [(f"toolu_{place}", "Task", {"prompt": task}) for place, task in enumerate(tasks)]
    calls = [next_call(main, 1, Said("", uses))]
    subs = [Anthropic("You are a worker.", ["Bash"]) for _ in tasks]
    for place, sub in enumerate(subs):
        sub.user(tasks[place])
        calls.append(next_call(sub, 2 + place, Said("", [(f"inner_{place}", "Bash", {})])))
    for place, sub in reversed(list(enumerate(subs))):
        sub.results((f"inner_{place}", "Bash", "3"))
        calls.append(next_call(sub, 6 - place, Said(f"There are 3 in {place}.")))
    main.results(*((id, "Task", f"report {place}") for place, (id, _, _) in enumerate(uses)))
    calls.append(next_call(main, 7, Said("Done.")))
    made = trajectory_of(calls, ABOUT)
    ids = [each["trajectory_id"] for each in made["subagent_trajectories"]]
    results = agent_steps(made)[0]["observation"]["results"]
    assert [each["subagent_trajectory_ref"][0]["trajectory_id"] for each in results] == ids
    assert [numbers(each) for each in made["subagent_trajectories"]] == [[2, 6], [3, 5]]


def test_a_sub_agent_of_a_sub_agent_is_inside_it() -> None:
    calls, scripts = [], [Anthropic(f"You are agent {depth}.") for depth in range(3)]
    tasks = [PROMPT, "Do what is the second thing.", "Do what is the third thing."]
    for depth, script in enumerate(scripts):
        script.user(tasks[depth])
        next_task = [(f"toolu_{depth}", "Task", {"prompt": tasks[depth + 1]})] if depth < 2 else []
        calls.append(next_call(script, depth + 1, Said("Going on.", next_task or [("x", "Bash", {})])))
    made = trajectory_of(calls, ABOUT)
    inner = made["subagent_trajectories"][0]
    assert [numbers(each) for each in inner["subagent_trajectories"]] == [[3]]
    reference = agent_steps(inner)[0]["observation"]["results"][0]["subagent_trajectory_ref"]
    assert reference == [{"trajectory_id": inner["subagent_trajectories"][0]["trajectory_id"]}]


def test_a_sub_agent_without_a_known_origin_is_kept() -> None:
    main, other = Anthropic(), Anthropic("You check what was done.", ["Bash"])
    main.user(PROMPT)
    other.user("Look at everything.")
    calls = [
        next_call(main, 1, Said("", [("a", "Bash", {})])),
        next_call(other, 2, Said("", [("b", "Bash", {})])),
    ]
    made = trajectory_of(calls, ABOUT)
    assert [numbers(each) for each in made["subagent_trajectories"]] == [[2]]
    assert "observation" not in agent_steps(made)[0]


def codex(code: bool) -> list[Call]:
    script = Responses(tools=["exec"] if code else ["exec_command"], code=code)
    script.user("<environment_context>\n  <cwd>/app</cwd>\n</environment_context>", PROMPT)
    given = (
        {"input": 'const r = await tools.exec_command({cmd: "ls"}); text(r.output)'}
        if code
        else {"cmd": "ls"}
    )
    name = "exec" if code else "exec_command"
    calls = [next_call(script, 1, Said("", [("call_1", name, given)], "I look first."))]
    script.results(("call_1", name, "a.txt"))
    return [*calls, next_call(script, 2, Said("Done."))]


@pytest.mark.parametrize("code", [False, True])
def test_codex_with_functions_and_in_code_mode(code: bool) -> None:
    made = trajectory_of(codex(code), ABOUT)
    assert [step["source"] for step in made["steps"]] == ["system", "user", "user", "agent", "agent"]
    first = agent_steps(made)[0]
    (use,) = first["tool_calls"]
    assert (first["reasoning_content"], first["reasoning_effort"]) == ("I look first.", "high")
    assert use["arguments"].get("cmd") == "ls" or "tools.exec_command" in use["arguments"]["input"]
    assert first["observation"]["results"] == [{"source_call_id": "call_1", "content": "a.txt"}]
    (declared,) = made["agent"]["tool_definitions"]
    kind = "custom" if code else "function"
    assert declared["type"] == kind
    assert declared[kind]["name"] == use["function_name"]


def test_codex_has_sub_agents_with_the_same_instructions_and_beginning() -> None:
    context = "<environment_context>\n  <cwd>/app</cwd>\n</environment_context>"
    main, sub = Responses(), Responses()
    main.user(context, PROMPT)
    calls = [next_call(main, 1, Said("", [("call_1", "spawn_agent", {"message": DELEGATED})]))]
    sub.user(context, DELEGATED)
    calls.append(next_call(sub, 2, Said("", [("call_2", "exec_command", {})])))
    main.results(("call_1", "spawn_agent", "begun"))
    calls.append(next_call(main, 3, Said("Wait.")))
    made = trajectory_of(calls, ABOUT)
    assert [numbers(each) for each in made["subagent_trajectories"]] == [[2]]
    assert numbers(made) == [1, 2, 3]


@pytest.mark.parametrize("kind", [Chat, Anthropic])
def test_opencode_and_goose_ask_for_a_title_beside_the_work(kind: type[Chat] | type[Anthropic]) -> None:
    main = kind()
    main.user(PROMPT)
    calls = [
        next_call(main, 1, Said("", [("a", "bash", {"command": "ls"})])),
        title(kind("Title.", []), 2, PROMPT),
    ]
    main.results(("a", "bash", "a.txt"))
    calls.append(next_call(main, 3, Said("Done.")))
    made = trajectory_of(calls, ABOUT)
    assert [step["extra"]["call"] for step in agent_steps(made)] == [1, 3]
    assert [each["call"] for each in made["extra"]["side_calls"]] == [2]
    assert "subagent_trajectories" not in made
    assert made["final_metrics"]["total_completion_tokens"] == 60


def test_gemini_cli_routes_first_and_calls_the_same_tool_twice_at_once() -> None:
    router, main = Gemini("You choose a model."), Gemini()
    router.tools = []
    router.user(PROMPT)
    calls = [next_call(router, 1, Said('{"model_choice": "pro"}'))]
    main.user("This is the Gemini CLI.", PROMPT)
    uses = [("", "read_file", {"path": "a"}), ("", "list", {}), ("", "read_file", {"path": "b"})]
    calls.append(next_call(main, 2, Said("", uses)))
    main.results(("", "read_file", "is a"), ("", "list", "a b"), ("", "read_file", "is b"))
    calls.append(next_call(main, 3, Said("Done.")))
    made = trajectory_of(calls, ABOUT)
    first = agent_steps(made)[0]
    assert [use["tool_call_id"] for use in first["tool_calls"]] == ["call-2-1", "call-2-2", "call-2-3"]
    found = {each["source_call_id"]: each["content"] for each in first["observation"]["results"]}
    assert found == {"call-2-1": "is a", "call-2-2": "a b", "call-2-3": "is b"}
    assert [each["call"] for each in made["extra"]["side_calls"]] == [1]


def test_goose_sends_calls_of_gemini_one_by_one_with_its_own_ids() -> None:
    script = Gemini()
    script.user(PROMPT)
    calls = [next_call(script, 1, Said("I do both.", [("", "shell", {"n": 1}), ("", "shell", {"n": 2})]))]
    told = script.contents.pop()["parts"]
    for place, parts in enumerate((told[:2], told[2:]), start=1):
        call = {"functionCall": {**parts[-1]["functionCall"], "id": f"own-{place}"}}
        script.contents.append({"role": "model", "parts": [*parts[:-1], call]})
        answer = {
            "id": f"own-{place}",
            "name": "shell",
            "response": {"content": {"text": f"came of {place}"}},
        }
        script.contents.append({"role": "user", "parts": [{"functionResponse": answer}]})
    made = trajectory_of([*calls, next_call(script, 2, Said("Done."))], ABOUT)
    assert [step["message"] for step in agent_steps(made)] == ["I do both.", "Done."]
    results = agent_steps(made)[0]["observation"]["results"]
    assert [(each["source_call_id"], each["content"]) for each in results] == [
        ("call-1-1", "came of 1"),
        ("call-1-2", "came of 2"),
    ]


def test_tools_are_known_by_name_in_whatever_groups_they_come() -> None:
    namespace = {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}
    plain = {"type": "function", "name": "wait"}
    added = {"type": "additional_tools", "tools": [namespace, plain]}
    assert offered_tools({"input": [added], "tools": [{"type": "web_search"}]}) == {
        "exec",
        "wait",
        "web_search",
    }
    declared = {"functionDeclarations": [{"name": "a"}, {"name": "b"}]}
    assert offered_tools({"tools": declared}) == offered_tools({"tools": [declared]}) == {"a", "b"}
    assert offered_tools({"tools": [{"type": "function", "function": {"name": "bash"}}]}) == {"bash"}
    assert offered_tools({}) == offered_tools(None) == offered_tools({"tools": []}) == frozenset()


def test_mini_swe_agent_has_one_tool_and_one_conversation() -> None:
    script = Chat()
    script.user(PROMPT)
    calls = []
    for number in range(1, 6):
        calls.append(next_call(script, number, Said(f"THOUGHT {number}", [(f"c{number}", "bash", {})])))
        script.results((f"c{number}", "bash", f"<output>{number}</output>"))
    made = trajectory_of(calls, ABOUT, {"c5": "submitted"})
    told = [step["observation"]["results"][0]["content"] for step in agent_steps(made)]
    assert told == [*(f"<output>{number}</output>" for number in range(1, 5)), "submitted"]


def test_conversations_without_any_tools_are_all_kept() -> None:
    calls = []
    for number in range(1, 4):
        script = Chat(tools=[])
        script.user(f"Question {number}")
        calls.append(next_call(script, number, Said(f"Answer {number}")))
    made = trajectory_of(calls, TrajectoryOwner("my-code"))
    assert numbers(made) == [1, 2, 3]
    assert "side_calls" not in made["extra"]
