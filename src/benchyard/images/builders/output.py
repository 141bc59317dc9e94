"""The output of a build: bounded, masked, and searched for the cause of a failure."""

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchyard.errors import BuildFailed
from benchyard.images.builders.base import Log
from benchyard.images.dockerfile.parser import Dockerfile, Instruction

_MOST_BYTES = 64 * 1024**2
_MASK = "***"
_SHORTEST_LINE = 4
_STEP = re.compile(r"(?:\[(\d{1,6})/\d{1,6}\] )?STEP (\d{1,6})/\d{1,6}: ")


class BuildOutput:
    """Receives lines, and passes on as many as its bounds allow."""

    def __init__(self, log: Log, secrets: Iterable[str] = (), names: Mapping[str, str] | None = None) -> None:
        self._log = log
        self._left = _MOST_BYTES
        self._secrets = texts_to_mask(secrets)
        self._names = dict(names or {})
        self.step: tuple[int, int] | None = None
        """Numbers of the engine's current stage and of the instruction in it."""
        self.last: deque[str] = deque(maxlen=40)
        """Lines since the beginning of that instruction."""

    def line(self, text: str) -> None:
        """Receive one line."""
        text = self.clean(text)
        if match := _STEP.match(text):
            self.step = (int(match[1] or 1), int(match[2]))
            self.last.clear()
        else:
            self.last.append(text)
        size = len(text) + 1
        if self._left <= 0:
            return
        self._left -= size
        self._log(text if self._left > 0 else f"[the log ends here: more than {_MOST_BYTES} bytes]")

    def clean(self, text: str) -> str:
        """Return a text without the secrets, and with the Dockerfile's own names of images."""
        text = self.masked(text)
        for name, spelled in self._names.items():
            text = text.replace(name, spelled)
        return text

    def masked(self, text: str) -> str:
        """Return a text without the secrets."""
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return text


def texts_to_mask(secrets: Iterable[str]) -> list[str]:
    """Return the texts to mask in single lines, longest first; for a secret with several lines, each line."""
    texts = set()
    for secret in secrets:
        lines = [line for line in secret.splitlines() if len(line.strip()) >= _SHORTEST_LINE]
        texts |= {secret.strip(), *lines} if len(secret.splitlines()) > 1 else {secret.strip("\n")}
    return sorted((text for text in texts if text), key=len, reverse=True)


_ERROR = re.compile(r'Error: (?:error )?building at STEP ".*?": (.*)', re.S)
_EXIT = re.compile(r": exit status (\d+)\s*$")
_NOISE = re.compile(r"subprocess exited with status \d+|")
_NO_SPACE = "no space left on device"
_SHOWN_LINES = 20
_LONGEST_PROBLEM = 2000
_LONGEST = 8000


class BuildSteps:
    """The instruction for each number that the engine counts."""

    def __init__(self, dockerfile: Dockerfile, changes: Mapping[Instruction, Sequence[str]]) -> None:
        self._stages: list[list[Instruction]] = []
        for instruction in dockerfile.instructions:
            if instruction.name == "FROM":
                self._stages.append([])
            if self._stages:
                written = [line for line in changes.get(instruction, [""]) if not line.startswith("#")]
                self._stages[-1] += [instruction] * len(written)

    def find(self, step: tuple[int, int] | None) -> Instruction | None:
        """Return the instruction of a stage and a number in it, both from 1."""
        if step is None or not (0 < step[0] <= len(self._stages)):
            return None
        stage = self._stages[step[0] - 1]
        return stage[step[1] - 1] if 0 < step[1] <= len(stage) else None


@dataclass(frozen=True)
class EngineFailure:
    """The engine's report of a failure."""

    problem: str
    lines: Sequence[str]
    """Output of the step."""
    exit_status: int | None = None
    """Exit status of the step's command, if that failed."""


def failure_from_buildah(output: BuildOutput, status: int) -> EngineFailure:
    """Return the failure at the end of buildah's output."""
    lines = list(output.last)
    errors = [number for number, line in enumerate(lines) if line.startswith("Error: ")]
    # A command may have several lines: the engine's own message begins with the last `Error: `.
    begins = errors[-1] if errors else len(lines)
    message = "\n".join(lines[begins:])
    shown = [line for line in lines[:begins] if not _NOISE.fullmatch(line)]
    if match := _EXIT.search(message):
        return EngineFailure("", shown, int(match[1]))
    if not message:
        return EngineFailure(f"the engine ended with status {status}", shown)
    text = match[1] if (match := _ERROR.match(message)) else message.removeprefix("Error: ")
    # The engine's trace of its own request fills pages; the cause stands last.
    return EngineFailure(text.rpartition("copier: ")[2], shown)


def build_error(failure: EngineFailure, instruction: Instruction | None, context: Path) -> BuildFailed:
    """Return the error for a build that failed at an instruction."""
    problem, details = failure.problem[:_LONGEST_PROBLEM], {}
    if failure.exit_status is not None:
        problem = f"the command ended with status {failure.exit_status}"
        details["exit_status"] = failure.exit_status
    shown = [f"    {line}" for line in failure.lines[-_SHOWN_LINES:]]
    if instruction:
        problem = f"Dockerfile line {instruction.first}: {problem}\n  {instruction.text[:200]}"
        details["line"] = instruction.first
    message = "\n".join((problem, *shown)).replace(str(context), "context")
    reason = (
        "out_of_disk"
        if any(_NO_SPACE in line for line in (failure.problem, *failure.lines))
        else "build_failed"
    )
    return BuildFailed(message[:_LONGEST], reason, **details)
