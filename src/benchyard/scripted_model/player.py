"""Selection of the script step that answers a request, and its calls with the offered tools."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchyard.gateway.dialects.values import fields
from benchyard.gateway.dialects.values import text as word
from benchyard.scripted_model.replies import ReplyParts, ScriptedReply, ScriptedToolCall, make_reply
from benchyard.scripted_model.requests import ModelRequest, OfferedTool
from benchyard.scripted_model.scripts import Script, Scripts, ScriptStep, as_scripts, squeeze

SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""In mini-swe-agent's prompt: it runs until a command prints this, and refuses replies without calls."""

_SHELLS = ("bash", "exec_command", "shell", "shell_command", "run_shell_command", "run_command")
_COMMANDS = ("command", "cmd", "commands", "script")
_CODE = "exec"
_DEEPEST = 20
_DESCRIPTION = "Run the next command"


def tool_calls(
    step: ScriptStep, offered: Sequence[OfferedTool], new_id: Callable[[], str]
) -> tuple[ScriptedToolCall, ...]:
    """Return the calls of a step, in the form the client wants."""
    calls = [_shell_call(command, offered) for command in step.commands]
    if step.tool is not None:
        calls.append(_tool_call(step.tool, step.arguments, offered))
    return tuple(ScriptedToolCall(new_id(), *call) for call in calls)


def wants_submit_command(prompt: str) -> bool:
    """Tell whether this client ends by a command."""
    return SUBMIT in prompt


def example_value(schema: Any, depth: int = 0) -> Any:
    """Return a value that a simple JSON schema allows."""
    schema_fields = fields(schema)
    for key in ("enum", "examples"):
        if isinstance(choices := schema_fields.get(key), list) and choices:
            return choices[0]
    if "const" in schema_fields:
        return schema_fields["const"]
    kind = schema_fields.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if str(kind).lower() == "object" and depth < _DEEPEST:
        inner = fields(schema_fields.get("properties"))
        return {name: example_value(inner.get(name), depth + 1) for name in _required(schema_fields, inner)}
    return {"array": [], "boolean": False, "integer": 0, "number": 0}.get(str(kind).lower(), "none")


def _required(schema: Mapping[str, Any], properties: Mapping[str, Any]) -> Iterator[str]:
    required = schema.get("required")
    yield from (
        name for name in (required if isinstance(required, list) else properties) if isinstance(name, str)
    )


_Made = tuple[str, Mapping[str, Any], str | None]


def _shell_call(command: str, offered: Sequence[OfferedTool]) -> _Made:
    tool = _shell(offered)
    if tool is None:
        return _shell_call(command, [*offered, OfferedTool("bash", {})])
    if tool.takes_code:
        return tool.name, {}, _javascript("exec_command", {"cmd": command})
    return tool.name, _arguments(command, tool), None


def _shell(offered: Sequence[OfferedTool]) -> OfferedTool | None:
    """Return the tool that runs commands: by its name, which an extension's name may precede."""
    for name in _SHELLS:
        for tool in offered:
            if _bare(tool.name).lower() == name and not tool.takes_code:
                return tool
    return next((tool for tool in offered if tool.takes_code and tool.name == _CODE), None)


def _bare(name: str) -> str:
    return name.rpartition("__")[2].rpartition(".")[2]


def _arguments(command: str, tool: OfferedTool) -> dict[str, Any]:
    properties = fields(tool.schema.get("properties"))
    default = "cmd" if _bare(tool.name) == "exec_command" else "command"
    key = next((name for name in _COMMANDS if name in properties), default)
    is_list = str(fields(properties.get(key)).get("type")).lower() == "array"
    arguments: dict[str, Any] = {key: ["bash", "-lc", command] if is_list else command}
    required = tool.schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name == "description":
            arguments[name] = _DESCRIPTION
        elif isinstance(name, str):
            arguments.setdefault(name, example_value(properties.get(name)))
    return arguments


def _tool_call(name: str, arguments: Mapping[str, Any], offered: Sequence[OfferedTool]) -> _Made:
    functions = [tool for tool in offered if not tool.takes_code]
    tools = [tool for tool in functions if tool.name == name] or [
        tool for tool in functions if _bare(tool.name) == name
    ]
    if tools:
        return tools[0].name, arguments, None
    customs = {tool.name for tool in offered if tool.takes_code}
    if name in customs:
        return name, {}, word(arguments.get("input"))
    if _CODE in customs:
        return _CODE, {}, _javascript(name, arguments)
    return name, arguments, None


def _javascript(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as code: for clients with a single tool, which runs code that calls the others."""
    call = f"const r = await tools[{json.dumps(name)}]({json.dumps(arguments)})"
    if name == "exec_command":
        call = f"const r = await tools.exec_command({json.dumps(arguments)})"
        return f"{call}; text(r.output)"
    return f'{call}; text(typeof r === "string" ? r : JSON.stringify(r))'


TITLE = "A short title"
"""The reply to a request that offers no tools: agents ask so for titles, or for the model to use."""

_Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Cue:
    """The reaction to a request."""

    step: ScriptStep
    """A fault, or the step that the reply was made from."""
    reply: ScriptedReply
    """For a fault: the reply it spoils."""
    script: str = ""
    is_title: bool = False


class Player:
    """Plays scripts; remembers only the number of replies, and the faults that have happened to them."""

    def __init__(self, given: Scripts) -> None:
        ordered = sorted(as_scripts(given), key=lambda script: script.is_default)
        self._scripts = [(script, squeeze(script.match or "")) for script in ordered]
        self._replies = 0
        self._calls = 0
        self._happened: Counter[tuple[_Key, int, int]] = Counter()
        self._spoiled: set[str] = set()
        """Calls in replies that broke off: some agents keep them, with a result that reports the break."""

    def reset(self) -> None:
        """Forget all progress."""
        self._happened.clear()
        self._spoiled.clear()
        self._replies = self._calls = 0

    def cue(self, request: ModelRequest, dialect: str) -> Cue:
        """Return the reaction to the conversation that a request carries."""
        script = self._script(request)
        if not request.tools and not (script is not None and script.without_tools):
            return self._title(request)
        script = script or Script()
        results = request.results(without=self._spoiled)
        step, faults = _place(script, request, results)
        fault = self._fault((dialect, request.session, request.first_call, request.prompt), results, faults)
        reply = self._reply(request, step)
        if fault is not None:
            self._spoiled.update(call.id for call in reply.calls)
        return Cue(fault or step, reply, script.name)

    def _fault(self, key: _Key, results: int, faults: list[tuple[int, ScriptStep]]) -> ScriptStep | None:
        """Return the fault, of those at this point of a conversation, that it has not had yet."""
        for index, each in faults:
            if self._happened[key, results, index] < each.times:
                self._happened[key, results, index] += 1
                return each
        # A repeated request is another conversation with the same words.
        for index, _ in faults:
            del self._happened[key, results, index]
        return None

    def _script(self, request: ModelRequest) -> Script | None:
        prompt = request.prompt
        short = squeeze(prompt)
        for script, piece in self._scripts:
            if re.search(script.regex, prompt) if script.regex is not None else piece in short:
                return script
        return None

    def _title(self, request: ModelRequest) -> Cue:
        text = TITLE if request.schema is None else json.dumps(example_value(request.schema))
        step = ScriptStep(text=text)
        return Cue(step, self._reply(request, step), is_title=True)

    def _reply(self, request: ModelRequest, step: ScriptStep) -> ScriptedReply:
        self._replies += 1
        made = step
        if not step.results and request.tools and wants_submit_command(request.prompt):
            made = step.model_copy(update={"shell": f"echo {SUBMIT}"})
        calls = tool_calls(made, request.tools, self._new_call)
        said = ReplyParts(step.text or "", step.reasoning or "", calls)
        return make_reply(self._replies, said, step.usage, request.input_tokens)

    def _new_call(self) -> str:
        self._calls += 1
        return f"call_{self._calls:08d}"


def _place(
    script: Script, request: ModelRequest, results: int
) -> tuple[ScriptStep, list[tuple[int, ScriptStep]]]:
    """Return the step that a conversation has reached, and the faults before it, with their indexes."""
    texts = request.texts
    faults: list[tuple[int, ScriptStep]] = []
    for index, step in enumerate(script.steps):
        if step.is_fault:
            faults.append((index, step))
        elif step.results and results >= step.results:
            results -= step.results
            faults.clear()
        elif not step.results and texts:
            texts -= 1
            faults.clear()
        else:
            return step, faults
    return ScriptStep(text=script.final), faults
