"""What an engine's failure means for whoever wrote the Dockerfile: which line, which output, what to do."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchyard.errors import BuildFailed
from benchyard.images.builders.output import Output
from benchyard.images.dockerfile import Dockerfile, Instruction

_ERROR = re.compile(r'Error: (?:error )?building at STEP ".*?": (.*)', re.S)
_EXIT = re.compile(r": exit status (\d+)\s*$")
_NOISE = re.compile(r"subprocess exited with status \d+|")
_NO_SPACE = "no space left on device"
_SHOWN_LINES = 20
_LONGEST_PROBLEM = 2000
_LONGEST = 8000


class Steps:
    """The instruction behind each number the engine counts in."""

    def __init__(self, dockerfile: Dockerfile, changes: Mapping[Instruction, Sequence[str]]) -> None:
        self._stages: list[list[Instruction]] = []
        for instruction in dockerfile.instructions:
            if instruction.name == "FROM":
                self._stages.append([])
            if self._stages:
                written = [line for line in changes.get(instruction, [""]) if not line.startswith("#")]
                self._stages[-1] += [instruction] * len(written)

    def find(self, step: tuple[int, int] | None) -> Instruction | None:
        """The instruction of a stage and a number in it, both from 1."""
        if step is None or not (0 < step[0] <= len(self._stages)):
            return None
        stage = self._stages[step[0] - 1]
        return stage[step[1] - 1] if 0 < step[1] <= len(stage) else None


@dataclass(frozen=True)
class Told:
    """What an engine said of its failure."""

    problem: str
    lines: Sequence[str]
    """What the step printed."""
    exit_status: int | None = None
    """Of the step's command, if that failed."""


def told_by_buildah(output: Output, status: int) -> Told:
    """What stands at the end of buildah's output."""
    lines = list(output.last)
    errors = [number for number, line in enumerate(lines) if line.startswith("Error: ")]
    # A command may have several lines: what the engine says begins with its last `Error: `.
    begins = errors[-1] if errors else len(lines)
    told = "\n".join(lines[begins:])
    shown = [line for line in lines[:begins] if not _NOISE.fullmatch(line)]
    if found := _EXIT.search(told):
        return Told("", shown, int(found[1]))
    if not told:
        return Told(f"the engine ended with status {status}", shown)
    text = found[1] if (found := _ERROR.match(told)) else told.removeprefix("Error: ")
    # What the engine tells of its own request to itself is pages long; what went wrong stands last.
    return Told(text.rpartition("copier: ")[2], shown)


def explained(told: Told, instruction: Instruction | None, context: Path) -> BuildFailed:
    """The error of a build that failed at an instruction."""
    problem, details = told.problem[:_LONGEST_PROBLEM], {}
    if told.exit_status is not None:
        problem = f"the command ended with status {told.exit_status}"
        details["exit_status"] = told.exit_status
    shown = [f"    {line}" for line in told.lines[-_SHOWN_LINES:]]
    if instruction:
        problem = f"Dockerfile line {instruction.first}: {problem}\n  {instruction.text[:200]}"
        details["line"] = instruction.first
    message = "\n".join((problem, *shown)).replace(str(context), "context")
    reason = (
        "out_of_disk" if any(_NO_SPACE in line for line in (told.problem, *told.lines)) else "build_failed"
    )
    return BuildFailed(message[:_LONGEST], reason, **details)
