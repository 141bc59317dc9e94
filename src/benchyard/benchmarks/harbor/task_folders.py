"""Task folders in Harbor's form as scenarios: one folder, or a set of them."""

import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from benchyard.benchmarks.base import ITEM_KEY, BrokenItem
from benchyard.benchmarks.files import located_values
from benchyard.benchmarks.files.bounded_folder import MOST_YAML_BYTES, BoundedFolder, packed_files
from benchyard.benchmarks.files.scenario_draft import (
    EnvironmentOrigin,
    NetworkAccess,
    PhaseAccess,
    ScenarioDraft,
)
from benchyard.benchmarks.harbor import environments, solutions, unmapped_parts
from benchyard.benchmarks.harbor.environments import ROOT
from benchyard.benchmarks.harbor.solutions import SOLVE_SCRIPT, Solution
from benchyard.benchmarks.harbor.task_file import (
    NAME,
    ArtifactPart,
    TaskFile,
    TaskStepPart,
    VerifierPart,
    round_up,
)
from benchyard.errors import UsageError
from benchyard.models.scenarios import (
    CollectCommand,
    InputContext,
    Isolation,
    ScenarioEnvironment,
    ScenarioRequest,
    ScoringContract,
    ScoringFunction,
    Step,
)
from benchyard.models.scoring.attachments import pack_files

INSTRUCTION = "instruction.md"
TESTS = "tests"
SOLUTION = "solution"
TEST_SCRIPT = "test.sh"
TRAJECTORY = "trajectory.json"
STEPS = "steps"
WORKDIR = "workdir"
SETUP_SCRIPT = "setup.sh"
ARTIFACTS = "/logs/artifacts"
SCORER = "harbor_scorer"
_TRACERS = re.compile(rb"\b(?:strace|ltrace|gdb|gdbserver|lldb|ptrace|fsanitize)\b")
_MOST_SEARCHED_BYTES = 1024**2
_CANARY = "canary"


@dataclass(frozen=True)
class HarborOptions:
    """Facts about a task that are not in its folder."""

    work: Path
    """Folder for files written during the import."""
    isolation: Isolation | None = None
    """Isolation that the task needs, if it is known."""
    metadata: Mapping[str, str] = field(default_factory=dict)


def is_task(path: Path) -> bool:
    """Tell whether a folder is a task."""
    return (path / NAME).is_file()


def read_task(path: Path, name: str, options: HarborOptions) -> ScenarioDraft:
    """Return the scenario of a task folder; raises UsageError with file and line of a mistake."""
    return _Reader(BoundedFolder(path), name, options).draft()


def without_canary(text: str) -> str:
    """Return an instruction without the lines at its beginning that only mark it."""
    lines = text.splitlines(keepends=True)
    begin = 0
    while begin < len(lines) and _is_canary(lines[begin].strip().lower()):
        begin += 1
        while begin < len(lines) and not lines[begin].strip():
            begin += 1
    return "".join(lines[begin:])


def _is_canary(line: str) -> bool:
    """Tell whether a line is a comment that marks a benchmark's text."""
    if line.startswith("<!--") and line.endswith("-->"):
        return _CANARY in line[len("<!--") : -len("-->")]
    return line.startswith("#") and _CANARY in line


class _Reader:
    """Reads one task folder."""

    def __init__(self, folder: BoundedFolder, name: str, options: HarborOptions) -> None:
        self.folder = folder
        self.name = name
        self.options = options
        if not folder.has(NAME):
            raise UsageError(f"{folder.path} has no {NAME}; is it the folder of a task?")
        self.found = located_values.read_toml(folder.path / NAME, folder.text(NAME, MOST_YAML_BYTES))
        self.file = located_values.validate(self.found, TaskFile)
        self.kept = unmapped_parts.table_of(self.found, self.file.metadata)

    def draft(self) -> ScenarioDraft:
        """Return the whole scenario."""
        self._check()
        file = self.file
        context, origin = environments.origin_of(
            file.environment, self.folder, environments.FOLDER, self.options.work
        )
        place = environments.user_and_directory_of(context.text(origin.name))
        user = file.agent.user or place.user or ROOT
        workdir = file.environment.workdir or place.workdir
        env = environments.variables_of(file.environment.env, self._at("environment", "env"))
        request = ScenarioRequest(
            name=self.name,
            input_context=InputContext(problem_statement=self._first_instruction()),
            scoring_contract=ScoringContract(
                scoring_function_parameters=[self._scorer(file.verifier, place.user or ROOT)]
            ),
            environment_parameters=ScenarioEnvironment(
                working_directory=None if workdir == "/" else workdir,
                launch_parameters=environments.launch_parameters(file.environment, user),
                environment_variables=env.plain or None,
            ),
            metadata=self._metadata() or None,
            reference_output=self._solution(SOLUTION),
            required_environment_variables=env.required or None,
            scorer_timeout_sec=round_up(file.verifier.timeout_sec),
            agent_timeout_sec=file.agent.timeout_sec,
            **self._rules(),
        )
        return ScenarioDraft(
            folder=context,
            request=unmapped_parts.apply_table(
                self._with_steps(request, place.user or ROOT), self.kept, self.options.isolation
            ),
            origin=origin,
            scoring_origin=self._scoring_origin(),
            phases=self._phases(),
            attachments=self._attachments(),
            step_files=self._step_files(),
        )

    def _with_steps(self, request: ScenarioRequest, user: str) -> ScenarioRequest:
        """Add the steps of a task that has several."""
        parts, steps = self.file.steps, self._steps(user)
        if not steps:
            return request
        seconds = max(self.file.verifier.timeout_sec, *(part.verifier.timeout_sec for part in parts))
        return request.model_copy(
            update={
                "steps": steps,
                "reward_strategy": self.file.multi_step_reward_strategy or "mean",
                "scorer_timeout_sec": round_up(seconds),
            }
        )

    def _check(self) -> None:
        """Raise UsageError, naming them, for parts that are not supported, before anything starts."""
        environments.check_supported(self.file.environment, self.folder, self._at("environment"))
        if self.folder.has(TRAJECTORY):
            raise UsageError(
                f"{self.folder.path / TRAJECTORY}: agents cannot be given a past conversation here"
            )
        for index, each in enumerate(self.file.artifacts):
            self._check_artifact(each, ("artifacts", index))
        for index, hook in enumerate(self.file.verifier.collect):
            if hook.service != "main":
                raise self.found.refuse(
                    ("verifier", "collect", index), "side services by compose are not supported"
                )

    def _check_artifact(self, part: ArtifactPart, place: located_values.KeyPath) -> None:
        if part.service not in (None, "main"):
            raise self.found.refuse(place, "side services by compose are not supported")
        if any(set(pattern) & set("*?[") for pattern in part.exclude):
            raise self.found.refuse(place, "patterns in `exclude` are not supported; name files and folders")

    def _at(self, *place: str) -> str:
        return f"{self.found.path}:{self.found.line(place)}"

    def _instruction(self, name: str) -> str:
        if not self.folder.has(name):
            raise UsageError(f"{self.folder.path}: there is no {name}, the problem statement")
        text = without_canary(self.folder.text(name))
        if not text.strip():
            raise UsageError(f"{self.folder.path / name}: it is empty")
        return text

    def _first_instruction(self) -> str:
        """Return the instruction, that of the first step if there are several."""
        steps = self.file.steps
        return self._instruction(f"{STEPS}/{steps[0].name}/{INSTRUCTION}" if steps else INSTRUCTION)

    def _steps(self, user: str) -> list[Step]:
        """Return the steps of a task that has several."""
        if self.file.steps and self.file.verifier.is_separate:
            raise self.found.refuse(("verifier",), "steps with a separate verifier are not supported")
        return [self._step(index, part, user) for index, part in enumerate(self.file.steps)]

    def _step(self, index: int, part: TaskStepPart, user: str) -> Step:
        here = f"{STEPS}/{part.name}"
        if part.verifier.is_separate:
            raise self.found.refuse(
                ("steps", index, "verifier"), "a step cannot have a verifier image of its own"
            )
        verifier = part.verifier.model_copy(update={"user": part.verifier.user or self.file.verifier.user})
        setup = [environments.healthcheck_command(part.healthcheck)] if part.healthcheck else []
        if self.folder.has(f"{here}/{WORKDIR}/{SETUP_SCRIPT}"):
            setup.insert(0, f"bash ./{SETUP_SCRIPT}")
        return Step(
            name=part.name,
            problem_statement=self._instruction(f"{here}/{INSTRUCTION}"),
            scoring_contract=ScoringContract(
                scoring_function_parameters=[self._scorer(verifier, user, (index, here))]
            ),
            reference_output=self._solution(f"{here}/{SOLUTION}"),
            setup="\n".join(setup) or None,
            setup_as_root=True,
            agent_timeout_sec=part.agent.timeout_sec,
            min_reward=part.min_reward,
        )

    def _step_files(self) -> dict[str, bytes]:
        """Return, for each step, an archive of the files put into the working directory before it."""
        folders = {step.name: f"{STEPS}/{step.name}/{WORKDIR}" for step in self.file.steps}
        return {
            name: pack_files(packed_files(self.folder, folder))
            for name, folder in folders.items()
            if self.folder.has(folder)
        }

    def _scorer(
        self, verifier: VerifierPart, user: str, step: tuple[int, str] | None = None
    ) -> ScoringFunction:
        """Return the scorer that runs the tests of the task, or of one of its steps."""
        scorer: dict[str, Any] = {"type": SCORER, "user": verifier.user or user}
        folders = [TESTS, *([f"{step[1]}/{TESTS}"] if step else [])]
        scripts = [
            f"{folder}/{TEST_SCRIPT}" for folder in folders if self.folder.has(f"{folder}/{TEST_SCRIPT}")
        ]
        if self._are_tests_baked():
            scorer["tests"] = None
        elif not scripts and not (self.file.steps and step is None):
            raise UsageError(f"{self.folder.path}: there is no {folders[-1]}/{TEST_SCRIPT}, the test script")
        elif step:
            scorer["tests"] = _step_tests(step[0])
        if scripts:
            scorer["script"] = self.folder.text(scripts[-1])
        env = environments.variables_of(verifier.env, self._at("verifier", "env"))
        if env.plain:
            scorer["env"] = env.plain
        if self.kept.reward:
            scorer["reward"] = self.kept.reward
        return ScoringFunction(name="verifier", weight=1.0, scorer=scorer)

    def _are_tests_baked(self) -> bool:
        """Tell whether the scoring image itself has the tests."""
        return self.file.verifier.is_separate and self.folder.has(f"{TESTS}/{environments.DOCKERFILE}")

    def _rules(self) -> dict[str, Any]:
        verifier = self.file.verifier
        secrets = environments.variables_of(verifier.env, self._at("verifier", "env")).required
        rules: dict[str, Any] = {
            "scoring_secrets": {name: name for name in secrets} or None,
            "scoring_tracing": self._needs_tracing() or None,
            "collect_commands": [
                CollectCommand(command=command.command, user=command.user, timeout_sec=command.timeout_sec)
                for command in verifier.collect
            ]
            or None,
        }
        if not verifier.is_separate:
            return {**rules, "scoring_isolation": self.options.isolation or "clean"}
        sources = [artifact.source for artifact in self.file.artifacts]
        excludes = [
            posixpath.join(artifact.source, name)
            for artifact in self.file.artifacts
            for name in artifact.exclude
        ]
        return {
            **rules,
            "scoring_isolation": "answer",
            "answer_paths": list(dict.fromkeys([*sources, ARTIFACTS])),
            "answer_excludes": excludes or None,
        }

    def _needs_tracing(self) -> bool:
        """Tell whether any file of the task names a debugger, a tracer, or a checker that traces."""
        return any(
            _TRACERS.search(self.folder.data(name, _MOST_SEARCHED_BYTES))
            for part in (TESTS, SOLUTION, environments.FOLDER, STEPS)
            if self.folder.has(part)
            for name in self.folder.files(part)
            if self.folder.inside(name).stat().st_size <= _MOST_SEARCHED_BYTES
        )

    def _scoring_origin(self) -> EnvironmentOrigin | None:
        """Return the image of a separate verifier; None if it is that of the environment."""
        own = self.file.verifier.environment
        if self._are_tests_baked():
            image = own.docker_image if own else None
            return EnvironmentOrigin(
                "dockerfile", f"{TESTS}/{environments.DOCKERFILE}", prebuilt=image, on_demand=True
            )
        if own is not None and own.docker_image and own.docker_image != self.file.environment.docker_image:
            return EnvironmentOrigin("image-reference", own.docker_image, on_demand=True)
        return None

    def _phases(self) -> PhaseAccess | None:
        if self.kept.network == "server":
            return None
        base = environments.network_access(self.file.environment, NetworkAccess("open"))
        verifier = self.file.verifier
        scoring = environments.network_access(verifier.environment, base) if verifier.environment else base
        return PhaseAccess(
            setup=base,
            agent=environments.network_access(self.file.agent, base),
            scoring=NetworkAccess("none")
            if self.kept.scoring_network
            else environments.network_access(verifier, scoring),
        )

    def _attachments(self) -> dict[str, bytes]:
        attachments = {
            unmapped_parts.ATTACHMENT: pack_files(
                unmapped_parts.unmapped_files(self.folder, needed=self._needed_files())
            )
        }
        if self._are_tests_baked():
            return attachments
        shared = packed_files(self.folder, TESTS) if self.folder.has(TESTS) else {}
        attachments |= {TESTS: pack_files(shared)} if shared else {}
        for index, step in enumerate(self.file.steps):
            own = f"{STEPS}/{step.name}/{TESTS}"
            files = packed_files(self.folder, own) if self.folder.has(own) else {}
            attachments[_step_tests(index)] = pack_files({**shared, **files})
        return attachments

    def _needed_files(self) -> Iterator[str]:
        """Yield the files to keep whatever their size, since no other part of the scenario has them."""
        yield NAME
        yield INSTRUCTION
        folders = [SOLUTION, *(f"{STEPS}/{step.name}/{SOLUTION}" for step in self.file.steps)]
        yield from (f"{STEPS}/{step.name}/{INSTRUCTION}" for step in self.file.steps)
        for folder in folders:
            # This solution is too large for one script.
            if self.folder.has(folder) and self._solution(folder) is None:
                yield from self.folder.files(folder)

    def _solution(self, name: str) -> str | None:
        """Return the solution as one script; None if there is none, or it is too large."""
        if not self.folder.has(f"{name}/{SOLVE_SCRIPT}"):
            return None
        env = environments.variables_of(self.file.solution.env, self._at("solution", "env"))
        return solutions.script(Solution(packed_files(self.folder, name), env.plain))

    def _metadata(self) -> dict[str, str]:
        """Return the task's metadata as text, and the importer's own."""
        metadata = {
            key: _as_text(value) for key, value in self.file.metadata.items() if key != unmapped_parts.SECTION
        }
        if self.file.task is not None:
            metadata["task"] = self.file.task.name
        if self.file.source:
            metadata["source"] = self.file.source
        return {**{key[:256]: value for key, value in metadata.items() if value}, **self.options.metadata}


def _step_tests(index: int) -> str:
    """Return the name of the attachment with the tests of a step and those of the whole task."""
    return f"{STEPS}/{index}/{TESTS}"


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return json.dumps(value, default=str)


MOST_TASKS = 20_000
_SHOWN = 3
_DEEPEST = 4
"""Depth of the search: sets keep their tasks in `tasks/`, or in a folder for each language or kind."""


def task_folders_in(folder: Path) -> list[Path]:
    """Return the task folders in a folder, or itself if it is one, in order of name; raises UsageError."""
    if is_task(folder):
        return [folder]
    folders = sorted(_below(folder, _DEEPEST), key=lambda path: path.relative_to(folder).parts)
    if not folders:
        raise UsageError(f"{folder}: it holds no task: no folder in it has a task.toml")
    if len(folders) > MOST_TASKS:
        raise UsageError(f"{folder}: {len(folders)} tasks are too many for a benchmark: {MOST_TASKS} at most")
    return folders


def _below(folder: Path, depth: int) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_dir() or path.name.startswith("."):
            continue
        if is_task(path):
            yield path
        elif depth > 1:
            yield from _below(path, depth - 1)


def scenarios_of_set(
    set_name: str, folder: Path, work: Path, known: Mapping[str, Isolation] | None = None
) -> Iterator[ScenarioDraft | BrokenItem]:
    """Yield the tasks of a folder as scenarios `SET/TASK`; `known` is the isolation that some tasks need."""
    return read_tasks(set_name, task_folders_in(folder), work, known)


def read_tasks(
    set_name: str, tasks: Sequence[Path], work: Path, known: Mapping[str, Isolation] | None = None
) -> Iterator[ScenarioDraft | BrokenItem]:
    """Yield these task folders as scenarios, in order."""
    seen: set[str] = set()
    for index, (path, item) in enumerate(zip(tasks, _items(tasks), strict=True)):
        if item in seen:
            yield BrokenItem(item, f"{path}: another task of this set has the same name; rename its folder")
            continue
        seen.add(item)
        try:
            metadata = {ITEM_KEY: item}
            isolation = (known or {}).get(item)
            options = HarborOptions(work / str(index), isolation, metadata)
            yield read_task(path, f"{set_name}/{item}", options)
        except UsageError as error:
            yield BrokenItem(item, error.message)
        except ValidationError as error:
            yield BrokenItem(item, f"{path}: {_describe_errors(error)}")


def _items(tasks: Sequence[Path]) -> list[str]:
    """Return the tasks' names: those of their folders, with the parent's if several have the same."""
    counts = Counter(path.name for path in tasks)
    return [path.name if counts[path.name] == 1 else f"{path.parent.name}/{path.name}" for path in tasks]


def _describe_errors(error: ValidationError) -> str:
    """Describe the parts of a task that do not fit a scenario."""
    problems = error.errors(include_url=False, include_input=False)[:_SHOWN]
    return "; ".join(
        f"{'.'.join(map(str, problem['loc']))[:100]}: {problem['msg'][:200]}" for problem in problems
    )
