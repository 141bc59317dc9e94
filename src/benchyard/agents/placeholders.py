"""Placeholders such as `{prompt_file}` in the commands of agents."""

import re
import shlex
from collections.abc import Iterable, Mapping

from benchyard.agents.base import Task
from benchyard.errors import UsageError
from benchyard.registry import nearest

NAMES = ("prompt_file", "model", "logs", "workdir")
"""Names that every command may use."""

# `${name}` belongs to the shell.
_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")


def names_in(template: str) -> set[str]:
    """Return the names in braces in a command."""
    return set(_PLACEHOLDER.findall(template))


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return the command with each value as one quoted word; other braces stay as they are."""
    return _PLACEHOLDER.sub(
        lambda match: shlex.quote(values[match[1]]) if match[1] in values else match[0], template
    )


def task_values(task: Task) -> dict[str, str]:
    """Return the values of the names that every command may use."""
    return {
        "prompt_file": task.prompt_file,
        "model": task.model or "",
        "logs": task.logs_folder,
        "workdir": task.working_directory,
    }


def check(template: str, model: str | None, others: Iterable[str] = ()) -> None:
    """Raise UsageError if a command needs a model and there is none, or names an unknown placeholder."""
    names_used = names_in(template)
    if not model and "model" in names_used:
        raise UsageError("this agent's command uses {model}; name a model, as in --agent NAME:MODEL")
    known = {*NAMES, *others}
    for name in sorted(names_used - known):
        raise UsageError(
            f"this agent's command uses {{{name[:100]}}}, which is not known{nearest(name, known)}; "
            f"known are {', '.join(sorted(known))}, and the kwargs of a registered agent. "
            "Write braces that are part of the command itself with blanks inside",
            field="kwargs",
        )
