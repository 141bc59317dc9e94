"""`{prompt_file}` and the like in the commands of agents."""

import re
import shlex
from collections.abc import Iterable, Mapping

from benchyard.agents.base import Task
from benchyard.errors import UsageError
from benchyard.registry import nearest

NAMES = ("prompt_file", "model", "logs", "workdir")
"""What every command can name."""

# `${name}` is a shell's own.
_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")


def names_in(template: str) -> set[str]:
    """What a command has in braces."""
    return set(_PLACEHOLDER.findall(template))


def fill(template: str, values: Mapping[str, str]) -> str:
    """The command with values as one word each, whatever they hold; other braces are left as they are."""
    return _PLACEHOLDER.sub(
        lambda found: shlex.quote(values[found[1]]) if found[1] in values else found[0], template
    )


def task_values(task: Task) -> dict[str, str]:
    """The values that every command can name."""
    return {
        "prompt_file": task.prompt_file,
        "model": task.model or "",
        "logs": task.logs_folder,
        "workdir": task.working_directory,
    }


def check(template: str, model: str | None, others: Iterable[str] = ()) -> None:
    """Raise UsageError where a command names a model and there is none, or what nobody fills in."""
    found = names_in(template)
    if not model and "model" in found:
        raise UsageError("this agent's command has {model} in it; name one, as in --agent NAME:MODEL")
    known = {*NAMES, *others}
    for name in sorted(found - known):
        raise UsageError(
            f"this agent's command has {{{name[:100]}}} in it, which nobody fills in{nearest(name, known)}; "
            f"known are {', '.join(sorted(known))}, and the kwargs of a registered agent. "
            "Braces that are the command's own are written with blanks in them",
            field="kwargs",
        )
