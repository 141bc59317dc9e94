"""The same step is a call of every agent's shell, whatever that is called there."""

import json
from typing import Any

import httpx
import pytest

from benchyard.scripted_model import RunningModel
from tests.scripted_model.asking import SCHEMA, body, path, said

COMMAND = "echo \"it's\" > 'a b' && cat <<'END'\n${x}\nEND\n"
SCRIPT = {"steps": [{"shell": COMMAND}], "final": "Done."}
DESCRIBED = {
    "type": "object",
    "properties": {
        "command": {"type": "string"},
        "description": {"type": "string"},
        "n": {"type": "integer"},
    },
    "required": ["command", "description", "n"],
}
ARGV = {
    "type": "object",
    "properties": {"command": {"type": "array", "items": {"type": "string"}}},
    "required": ["command"],
}
CMD = {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}
OTHER = ("read_file", {"type": "object", "properties": {"command": {"type": "string"}}})


def offering(dialect: str, *tools: tuple[str, Any]) -> dict[str, Any]:
    sent = body(dialect, "go", tools=False)
    match dialect:
        case "anthropic":
            sent["tools"] = [{"name": name, "input_schema": schema} for name, schema in tools]
        case "responses":
            sent["tools"] = [
                {"type": "function", "name": name, "parameters": schema} for name, schema in tools
            ]
        case "chat":
            sent["tools"] = [
                {"type": "function", "function": {"name": name, "parameters": schema}}
                for name, schema in tools
            ]
        case _:
            # As goose sends it: one group and no list.
            sent["tools"] = {
                "functionDeclarations": [{"name": name, "parameters": schema} for name, schema in tools]
            }
    return sent


def answered(dialect: str, sent: Any, script: Any = SCRIPT) -> Any:
    with RunningModel(script) as model:
        response = httpx.post(model.url + path(dialect), json=sent, timeout=60)
    assert response.status_code == 200
    return said(dialect, response.json())


@pytest.mark.parametrize(
    ("dialect", "name", "schema", "arguments"),
    [
        ("anthropic", "Bash", SCHEMA, {"command": COMMAND}),
        ("responses", "exec_command", CMD, {"cmd": COMMAND}),
        ("responses", "shell", ARGV, {"command": ["bash", "-lc", COMMAND]}),
        ("chat", "bash", DESCRIBED, {"command": COMMAND, "description": "Run the next command", "n": 0}),
        ("chat", "developer__shell", SCHEMA, {"command": COMMAND}),
        ("gemini", "run_shell_command", SCHEMA, {"command": COMMAND}),
        ("gemini", "shell", {}, {"command": COMMAND}),
        ("responses", "exec_command", {}, {"cmd": COMMAND}),
    ],
)
def test_a_command_goes_to_the_shell_that_is_offered(
    dialect: str, name: str, schema: Any, arguments: Any
) -> None:
    assert answered(dialect, offering(dialect, OTHER, (name, schema))).calls == [(name, arguments)]


def code_mode() -> dict[str, Any]:
    """What codex sends for its newest models: all tools in the input, and one that runs code."""
    sent = body("responses", "go", tools=False)
    inner = [{"type": "custom", "name": "exec"}, {"type": "function", "name": "wait"}]
    namespace = {"type": "namespace", "name": "functions", "tools": inner}
    sent["input"].insert(0, {"type": "additional_tools", "tools": [namespace]})
    return sent


def test_in_code_mode_a_command_is_code() -> None:
    ((name, code),) = answered("responses", code_mode()).calls
    assert name == "exec"
    before, argument, after = code.partition(json.dumps({"cmd": COMMAND}))
    assert (before, after) == ("const r = await tools.exec_command(", "); text(r.output)")
    assert json.loads(argument) == {"cmd": COMMAND}


def test_in_code_mode_results_lead_on_too() -> None:
    sent = code_mode()
    sent["input"] += [
        {"type": "custom_tool_call", "call_id": "c", "name": "exec", "input": "text(1)"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "1"},
    ]
    assert answered("responses", sent).text == "Done."


def test_in_code_mode_other_tools_are_called_by_code() -> None:
    script = {"steps": [{"tool": "apply_patch", "arguments": {"patch": "x"}}]}
    ((name, code),) = answered("responses", code_mode(), script).calls
    assert name == "exec"
    assert code.startswith('const r = await tools["apply_patch"]({"patch": "x"});')


def test_a_tool_that_takes_a_text_gets_its_input() -> None:
    sent = offering("responses", ("exec_command", CMD))
    sent["tools"].append({"type": "custom", "name": "apply_patch"})
    script = {"steps": [{"tool": "apply_patch", "arguments": {"input": "*** Begin Patch"}}]}
    assert answered("responses", sent, script).calls == [("apply_patch", "*** Begin Patch")]


def test_a_tool_is_found_with_the_name_of_its_extension() -> None:
    script = {"steps": [{"tool": "write", "arguments": {"path": "x"}}]}
    sent = offering("chat", ("developer__write", SCHEMA))
    assert answered("chat", sent, script).calls == [("developer__write", {"path": "x"})]


@pytest.mark.parametrize("results", [0, 1])
def test_an_agent_that_must_submit_gets_its_end_as_a_command(results: int) -> None:
    """mini-swe-agent takes no answer without a call, and ends when a command prints what its prompt says."""
    prompt = "Solve this.\nEnd with `echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT`."
    found = answered("chat", body("chat", prompt, results=results))
    if results:
        assert found.text == "Done."
        assert found.calls == [("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"})]
    else:
        assert found.calls == [("bash", {"command": COMMAND})]
