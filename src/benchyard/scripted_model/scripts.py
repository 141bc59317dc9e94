"""Scripts of the scripted model: lists of steps, written as YAML, as JSON or in Python."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from benchyard.benchmarks.files import located_values
from benchyard.benchmarks.files.bounded_folder import BoundedFolder
from benchyard.benchmarks.files.located_values import FilePart

MOST_BYTES = 16 * 1024**2
"""Largest size of a file of scripts."""
MOST_STEPS = 10_000
_NO_QUOTES = str.maketrans("", "", '"\\')
_FAULTS = ("status", "drop", "garbage", "hang")

Tokens = Annotated[int, Field(ge=0, le=10**9)]
Seconds = Annotated[float, Field(ge=0, le=86_400)]


class StepUsage(FilePart):
    """Usage that a step reports; missing numbers are counted, or 0."""

    input_tokens: Tokens | None = None
    """All input tokens, with those read from or written to a cache."""
    output_tokens: Tokens | None = None
    """All output tokens, with the reasoning."""
    cached_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0
    reasoning_tokens: Tokens | None = None

    @model_validator(mode="after")
    def _adds_up(self) -> "StepUsage":
        if self.input_tokens is not None and self.cached_tokens + self.cache_write_tokens > self.input_tokens:
            raise PydanticCustomError("usage", "`input_tokens` must cover the cached and the written ones")
        if self.output_tokens is not None and (self.reasoning_tokens or 0) > self.output_tokens:
            raise PydanticCustomError("usage", "`output_tokens` must cover the reasoning")
        return self


class ScriptStep(FilePart):
    """A reply, or a fault.

    A reply is a text, calls of tools, or a text before calls. A fault happens `times` times in a
    conversation and then makes room for the next step.
    """

    text: str | None = None
    shell: str | tuple[str, ...] | None = None
    """A command for the agent's shell tool, whatever its name; several are calls side by side."""
    tool: str | None = None
    """The name of any other tool, called with `arguments`."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    reasoning: str | None = None
    """The model's reasoning before the reply."""
    usage: StepUsage = StepUsage()
    latency: Seconds = 0
    """Seconds before the reply."""
    chunk_delay: Seconds | None = None
    """Seconds between the events of a stream; None takes the server's."""
    status: Annotated[int, Field(ge=400, le=599)] | None = None
    """A fault: a reply with this HTTP status."""
    retry_after: Annotated[float, Field(ge=0)] | None = None
    """With a status: the header that says when to try again, in seconds."""
    drop: bool = False
    """A fault: the connection is dropped in the middle of the reply."""
    garbage: bool = False
    """A fault: the reply turns into nonsense half-way."""
    hang: Seconds | None = None
    """A fault: no answer for so many seconds, then the connection is closed."""
    times: Annotated[int, Field(ge=1, le=10**9)] = 1
    """Number of times a fault happens."""

    @model_validator(mode="after")
    def _one_thing(self) -> "ScriptStep":
        says = self.text is not None or bool(self.commands) or self.tool is not None
        faults = [name for name in _FAULTS if getattr(self, name) not in (None, False)]
        if len(faults) > 1 or (says and faults):
            raise PydanticCustomError("step", "a step is one answer or one fault")
        if not says and not faults:
            known = "`text`, `shell`, `tool`, `status`, `drop`, `garbage` and `hang`"
            raise PydanticCustomError("step", f"give one of {known}")
        if self.shell is not None and self.tool is not None:
            raise PydanticCustomError("step", "give `shell` or `tool`, not both")
        return self

    @property
    def is_fault(self) -> bool:
        """Tell whether it is a fault, not a reply."""
        return self.fault is not None

    @property
    def fault(self) -> str | None:
        """Return the kind of fault; None if it is a reply."""
        return next((name for name in _FAULTS if getattr(self, name) not in (None, False)), None)

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the commands for the shell."""
        if self.shell is None:
            return ()
        return (self.shell,) if isinstance(self.shell, str) else self.shell

    @property
    def results(self) -> int:
        """Return the number of tool results that come back for it."""
        return len(self.commands) + (self.tool is not None)


class Script(FilePart):
    """The steps of conversations that begin with a certain prompt."""

    name: str = ""
    match: str | None = None
    """A piece of the prompt, in which spaces, line breaks and quotes do not count; None matches the rest."""
    regex: str | None = None
    """Instead of `match`: a regular expression that is searched for in the prompt."""
    steps: Annotated[tuple[ScriptStep, ...], Field(max_length=MOST_STEPS)] = ()
    final: str = "The work is done."
    """The reply after the last step."""
    without_tools: bool = False
    """Play also for requests that offer no tools, which usually ask for a title."""

    @model_validator(mode="after")
    def _can_be_matched(self) -> "Script":
        if self.match is not None and self.regex is not None:
            raise PydanticCustomError("script", "give `match` or `regex`, not both")
        try:
            re.compile(self.regex or "")
        except re.error as error:
            raise PydanticCustomError("regex", "this is not a valid regular expression") from error
        return self

    @property
    def is_default(self) -> bool:
        """Tell whether it plays if no other script matches."""
        return self.match is None and self.regex is None


class ScriptFile(FilePart):
    """The content of a file of scripts."""

    scripts: tuple[Script, ...]


Scripts = Script | Mapping[str, Any] | Iterable[Script | Mapping[str, Any]]
"""A script or several, as they are written in Python."""


def squeeze(text: str) -> str:
    """Return a text in its form for comparison: one space for each run of spaces and line breaks, no quotes.

    Some agents put a prompt in quotes and escape the quotes in it.
    """
    return " ".join(text.translate(_NO_QUOTES).split())


def as_scripts(given: Scripts) -> tuple[Script, ...]:
    """Return scripts from a caller's input: one or several, as objects or as dictionaries."""
    several = [given] if isinstance(given, Script | Mapping) else list(given)
    return tuple(Script.model_validate(script) for script in several)


def read(path: Path) -> tuple[Script, ...]:
    """Return the scripts of a YAML or JSON file; raise UsageError with the line of the mistake."""
    text = BoundedFolder(path.parent).text(path.name, MOST_BYTES)
    return located_values.validate(located_values.read_yaml(path, text), ScriptFile).scripts


def dump(given: Iterable[Script]) -> str:
    """Return scripts as a file that `read` takes: JSON, which is YAML too."""
    return json.dumps({"scripts": [_plain(script) for script in given]}, indent=2) + "\n"


def _plain(script: BaseModel) -> Any:
    return script.model_dump(mode="json", exclude_defaults=True)
