"""`{prompt_file}` and the like in the commands of agents."""

import re
import shlex
from collections.abc import Mapping

from benchyard.agents.base import Task
from benchyard.errors import UsageError

NAMES = ("prompt_file", "model", "logs", "workdir")
"""What every command can name."""

# `${name}` is a shell's own.
_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")


def named(template: str) -> set[str]:
    """What a command has in braces."""
    return set(_PLACEHOLDER.findall(template))


def filled(template: str, values: Mapping[str, str]) -> str:
    """The command with values as one word each, whatever they hold; other braces are left as they are."""
    return _PLACEHOLDER.sub(
        lambda found: shlex.quote(values[found[1]]) if found[1] in values else found[0], template
    )


def of_task(task: Task) -> dict[str, str]:
    """The values that every command can name."""
    return {
        "prompt_file": task.prompt_file,
        "model": task.model or "",
        "logs": task.logs_folder,
        "workdir": task.working_directory,
    }


def check_model(template: str, model: str | None) -> None:
    """Raise UsageError where a command names a model and there is none."""
    if not model and "model" in named(template):
        raise UsageError("this agent's command has {model} in it; name one, as in --agent NAME:MODEL")
