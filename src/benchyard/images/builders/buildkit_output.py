"""BuildKit's report of a build, rewritten in the form of buildah's, and searched for errors."""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchyard.images.builders.output import BuildOutput, EngineFailure
from benchyard.images.dockerfile.parser import Dockerfile, Instruction

_STEP = re.compile(r"\[(?:(?P<stage>[^\]\s]+) +)?(?P<number>\d{1,6})/(?P<total>\d{1,6})\] (?P<text>.*)")
_LINE = re.compile(r"#(\d+)(?: (.*))?")
_PRINTED = re.compile(r"\d+\.\d+(?: (.*))?")
_EXIT = re.compile(r"exit code: (\d+)\s*$")
_PARSING = re.compile(r"dockerfile parse error (?:on )?line (\d+): (.*)", re.S)
_WRAPPING = re.compile(
    r"ERROR: |failed to (?:build|solve)(?: with frontend [\w.]+)?: |failed to create LLB definition: "
    r"|failed to compute cache key: |failed to calculate checksum of ref \S+: "
)
_NO_FILE = re.compile(r'"([^"]*)"(?: not found)?: not found$')
_STEPS = ("RUN", "COPY", "ADD", "WORKDIR")
_RULE = "------"
_KEPT_LINES = 40
_LONGEST_PROBLEM = 64 * 1024


@dataclass
class _Vertex:
    """A step as the engine numbers it, and the last lines that it printed."""

    title: str
    instruction: Instruction | None
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))


class BuildKitProgress:
    """Reads the lines of `--progress plain`; steps of several stages may run at the same time."""

    def __init__(
        self, output: BuildOutput, dockerfile: Dockerfile, changes: Mapping[Instruction, Sequence[str]]
    ) -> None:
        self._output = output
        self._dockerfile = dockerfile
        self._stages = _stages(dockerfile, changes)
        self._vertices: dict[str, _Vertex] = {}
        self._current: _Vertex | None = None
        self._failed: tuple[_Vertex | None, str] | None = None
        self._is_telling = False
        self._last = ""

    def line(self, text: str) -> None:
        """Read one line."""
        match = _LINE.fullmatch(text)
        if match is None:
            self._say(text)
            return
        self._is_telling = False
        number, rest = match[1], match[2] or ""
        if step := _STEP.fullmatch(rest):
            self._begin(number, step)
        elif rest.startswith("ERROR: "):
            self._fail(self._vertices.get(number), rest.removeprefix("ERROR: "))
        elif number in self._vertices:
            self._tell(self._vertices[number], rest)

    def _say(self, text: str) -> None:
        """Handle a line without a step: a further line of an error, or a final message of the program."""
        self._is_telling = self._is_telling and text != _RULE
        if self._is_telling and self._failed is not None:
            vertex, problem = self._failed
            self._failed = (vertex, f"{problem}\n{text}"[:_LONGEST_PROBLEM])
        self._last = text.strip() or self._last

    def failure(self, status: int) -> tuple[EngineFailure, Instruction | None]:
        """Return the failure and its instruction."""
        vertex, problem = self._failed or (None, self._last or f"the engine ended with status {status}")
        while match := _WRAPPING.match(problem):
            problem = problem[match.end() :]
        problem = _NO_FILE.sub(r"\1: no such file in the context", self._output.clean(problem))
        if match := _PARSING.match(problem):
            return EngineFailure(match[2], ()), self._at(int(match[1]))
        lines = list(vertex.lines) if vertex else []
        exited = _EXIT.search(problem)
        failure = EngineFailure(problem, lines, int(exited[1]) if exited else None)
        return failure, vertex.instruction if vertex else None

    def _begin(self, number: str, step: re.Match[str]) -> None:
        if number in self._vertices:
            return
        instruction = self._find(step["stage"], int(step["number"]), int(step["total"]))
        text = instruction.text if instruction else step["text"]
        stage = f"[{step['stage']}] " if step["stage"] else ""
        title = f"{stage}STEP {step['number']}/{step['total']}: {text}"
        self._vertices[number] = _Vertex(title, instruction)
        self._announce(self._vertices[number])

    def _announce(self, vertex: _Vertex) -> None:
        if vertex is not self._current:
            self._current = vertex
            self._output.line(vertex.title)

    def _tell(self, vertex: _Vertex, rest: str) -> None:
        if rest == "CACHED":
            self._announce(vertex)
            self._output.line("--> Using cache")
        elif printed := _PRINTED.fullmatch(rest):
            self._announce(vertex)
            vertex.lines.append(self._output.clean(printed[1] or ""))
            self._output.line(printed[1] or "")

    def _fail(self, vertex: _Vertex | None, problem: str) -> None:
        """Note the first failure; later ones only follow from it."""
        if self._failed is None and "context canceled" not in problem:
            self._failed = (vertex, problem)
            self._is_telling = True

    def _find(self, stage: str | None, number: int, total: int) -> Instruction | None:
        for names, begin, steps in self._stages:
            # A base from elsewhere counts as a step, an earlier stage does not.
            before = total - len(steps)
            if stage in names and before in (0, 1) and number <= total:
                return steps[number - before - 1] if number > before else begin
        return None

    def _at(self, line: int) -> Instruction | None:
        instructions = (
            instruction
            for instruction in self._dockerfile.instructions
            if instruction.first <= line <= instruction.last
        )
        return next(instructions, None)


def _stages(
    dockerfile: Dockerfile, changes: Mapping[Instruction, Sequence[str]]
) -> list[tuple[set[str | None], Instruction, list[Instruction]]]:
    """Return for each stage its possible names, its first instruction, and its steps."""
    stages: list[tuple[set[str | None], Instruction, list[Instruction]]] = []
    for instruction in dockerfile.instructions:
        if instruction.name == "FROM":
            words = instruction.rest.split()
            named = words[2].lower() if len(words) == 3 else None
            stages.append(
                ({named, f"stage-{len(stages)}"} if named else {f"stage-{len(stages)}"}, instruction, [])
            )
        elif stages and instruction.name in _STEPS:
            written = [line for line in changes.get(instruction, [""]) if not line.startswith("#")]
            stages[-1][2].extend([instruction] * len(written))
    if len(stages) == 1:
        stages[0][0].add(None)
    return stages
