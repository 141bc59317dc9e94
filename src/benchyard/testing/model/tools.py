"""How a step's calls are made with the tools that a request offers: every agent's shell has another shape."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchyard.testing.model.answers import ToolCall
from benchyard.testing.model.asked import Offered, fields, word
from benchyard.testing.model.scripts import Step

SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""In mini-swe-agent's prompt: it goes on until a command prints this, and takes no answer without calls."""

_SHELLS = ("bash", "exec_command", "shell", "shell_command", "run_shell_command", "run_command")
_COMMANDS = ("command", "cmd", "commands", "script")
_CODE = "exec"
_DEEPEST = 20
_DESCRIPTION = "Run the next command"


def calls(step: Step, offered: Sequence[Offered], new_id: Callable[[], str]) -> tuple[ToolCall, ...]:
    """The calls of a step, as the client wants them."""
    made = [_shell_call(command, offered) for command in step.commands]
    if step.tool is not None:
        made.append(_tool_call(step.tool, step.arguments, offered))
    return tuple(ToolCall(new_id(), *each) for each in made)


def submits(prompt: str) -> bool:
    """Whether this client wants its end as a command."""
    return SUBMIT in prompt


def filled(schema: Any, depth: int = 0) -> Any:
    """Something that a JSON schema allows, as far as simple ones go."""
    wanted = fields(schema)
    for key in ("enum", "examples"):
        if isinstance(choices := wanted.get(key), list) and choices:
            return choices[0]
    if "const" in wanted:
        return wanted["const"]
    kind = wanted.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if str(kind).lower() == "object" and depth < _DEEPEST:
        inner = fields(wanted.get("properties"))
        return {name: filled(inner.get(name), depth + 1) for name in _required(wanted, inner)}
    return {"array": [], "boolean": False, "integer": 0, "number": 0}.get(str(kind).lower(), "none")


def _required(schema: Mapping[str, Any], properties: Mapping[str, Any]) -> Iterator[str]:
    given = schema.get("required")
    yield from (name for name in (given if isinstance(given, list) else properties) if isinstance(name, str))


_Made = tuple[str, Mapping[str, Any], str | None]


def _shell_call(command: str, offered: Sequence[Offered]) -> _Made:
    tool = _shell(offered)
    if tool is None:
        return _shell_call(command, [*offered, Offered("bash", {})])
    if tool.takes_code:
        return tool.name, {}, _javascript("exec_command", {"cmd": command})
    return tool.name, _arguments(command, tool), None


def _shell(offered: Sequence[Offered]) -> Offered | None:
    """The tool that runs commands: by its name, which may have the name of an extension before it."""
    for name in _SHELLS:
        for tool in offered:
            if _bare(tool.name).lower() == name and not tool.takes_code:
                return tool
    return next((tool for tool in offered if tool.takes_code and tool.name == _CODE), None)


def _bare(name: str) -> str:
    return name.rpartition("__")[2].rpartition(".")[2]


def _arguments(command: str, tool: Offered) -> dict[str, Any]:
    properties = fields(tool.schema.get("properties"))
    default = "cmd" if _bare(tool.name) == "exec_command" else "command"
    key = next((name for name in _COMMANDS if name in properties), default)
    is_list = str(fields(properties.get(key)).get("type")).lower() == "array"
    made: dict[str, Any] = {key: ["bash", "-lc", command] if is_list else command}
    required = tool.schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name == "description":
            made[name] = _DESCRIPTION
        elif isinstance(name, str):
            made.setdefault(name, filled(properties.get(name)))
    return made


def _tool_call(name: str, arguments: Mapping[str, Any], offered: Sequence[Offered]) -> _Made:
    functions = [tool for tool in offered if not tool.takes_code]
    found = [tool for tool in functions if tool.name == name] or [
        tool for tool in functions if _bare(tool.name) == name
    ]
    if found:
        return found[0].name, arguments, None
    customs = {tool.name for tool in offered if tool.takes_code}
    if name in customs:
        return name, {}, word(arguments.get("input"))
    if _CODE in customs:
        return _CODE, {}, _javascript(name, arguments)
    return name, arguments, None


def _javascript(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as code: for clients whose only tool runs code that calls the others."""
    call = f"const r = await tools[{json.dumps(name)}]({json.dumps(arguments)})"
    if name == "exec_command":
        call = f"const r = await tools.exec_command({json.dumps(arguments)})"
        return f"{call}; text(r.output)"
    return f'{call}; text(typeof r === "string" ? r : JSON.stringify(r))'
