"""Scenarios as Harbor task folders: newly made, or given back as they were imported."""

import hashlib
import posixpath
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchyard.benchmarks.base import PUBLIC_KEY
from benchyard.benchmarks.files import comparison
from benchyard.benchmarks.files.scenario_draft import NetworkAccess, PhaseAccess
from benchyard.benchmarks.files.writer import slug
from benchyard.benchmarks.harbor import solutions, toml_writer, unmapped_parts
from benchyard.benchmarks.harbor.environments import (
    DOCKERFILE,
    FOLDER,
    FileTree,
    ImageParts,
    build_context,
    environment_folder,
    home_of,
    user_of,
)
from benchyard.benchmarks.harbor.task_file import NAME, TaskFile
from benchyard.benchmarks.harbor.task_folders import (
    INSTRUCTION,
    SETUP_SCRIPT,
    SOLUTION,
    STEPS,
    TESTS,
    WORKDIR,
    without_canary,
)
from benchyard.benchmarks.harbor.verifiers import (
    HARBOR,
    NEEDS_NETWORK,
    TEST_SCRIPT,
    ScorerPrograms,
    grader_of,
    scorer_key,
    tests_of,
)
from benchyard.errors import UsageError
from benchyard.models.launch import LaunchParameters, Size
from benchyard.models.scenarios import (
    SCORER_SECONDS_DEFAULT,
    SCORER_SECONDS_MAX,
    ScenarioEnvironment,
    ScenarioRequest,
    ScenarioView,
    ScoringContract,
    TaskOptions,
    of_round,
)
from benchyard.models.scoring import references
from benchyard.models.scoring.attachments import PackedFile


@dataclass(frozen=True)
class ExportParts:
    """Parts of a scenario in addition to its record."""

    image: ImageParts | None = None
    """Image of the devbox; None is the default image."""
    scoring_image: ImageParts | None = None
    phases: PhaseAccess | None = None
    attachments: Mapping[str, Mapping[str, PackedFile]] = field(default_factory=dict)
    step_files: Mapping[str, Mapping[str, PackedFile]] = field(default_factory=dict)
    """Name of a step -> files that are put into the working directory before it."""
    programs: ScorerPrograms = field(default_factory=ScorerPrograms)
    canary: str | None = None
    """Line at the beginning of instructions that agents are not shown."""


SCHEMA = "1.4"
DATASET = "dataset.toml"
ORG = "benchyard"
"""Organization in names of tasks, for scenarios that name none."""
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*")
_MODES = {"open": "public", "none": "no-network", "allow-list": "allowlist"}
_OWN_PREFIX = "benchyard."
_MB = 1024
_HASHED = (NAME, INSTRUCTION, "README.md", "trajectory.json", FOLDER, TESTS, SOLUTION, STEPS)


def make_task(view: ScenarioView, parts: ExportParts) -> FileTree:
    """Make a task folder for a scenario; raises UsageError if other harnesses cannot run it."""
    return _Maker(view, parts).tree()


class _Maker:
    """Makes one task folder."""

    def __init__(self, view: ScenarioView, parts: ExportParts) -> None:
        self.view = view
        self.parts = parts
        self.environment = view.environment or ScenarioEnvironment()
        self.user = user_of(self.environment, parts.image)
        self.directory = self.environment.working_directory or home_of(self.user)
        self.needs_network = False
        self.solution_env: dict[str, str] = {}
        self.verifier_user: str | None = None
        self.verifier_spare = 0.0
        self.storage_mb: int | None = None

    def tree(self) -> FileTree:
        """Return the whole folder."""
        environment = environment_folder(self.environment, self.parts.image).below(FOLDER)
        files = {**environment.files}
        if self.view.steps:
            for index, step in enumerate(self.view.steps):
                files |= self._step_files(index, step.name)
        else:
            files |= self._work_files(self.view, "")
            files |= self._scoring_image_files()
        files[NAME] = PackedFile(toml_writer.dump(self._document()).encode())
        return FileTree(files, environment.links, environment.folders)

    def _work_files(self, view: ScenarioView, prefix: str) -> dict[str, PackedFile]:
        """Return instruction, tests and solution of a scenario or a step."""
        files = {
            f"{prefix}{INSTRUCTION}": PackedFile(self._instruction(view, f"{prefix}{INSTRUCTION}").encode())
        }
        tests = self._tests(view, view.scoring_contract)
        files |= FileTree(dict(tests)).below(f"{prefix}{TESTS}").files
        solution = solutions.solution_of_reference(view)
        if solution is not None:
            files |= FileTree(dict(solution.files)).below(f"{prefix}{SOLUTION}").files
            self.solution_env |= solution.env
        return files

    def _step_files(self, index: int, name: str) -> dict[str, PackedFile]:
        here = f"{STEPS}/{name}"
        files = self._work_files(of_round(self.view, index + 1), f"{here}/")
        step = (self.view.steps or [])[index]
        own = dict(self.parts.step_files.get(name, {}))
        if step.setup and not (step.setup == f"bash ./{SETUP_SCRIPT}" and SETUP_SCRIPT in own):
            if SETUP_SCRIPT in own:
                raise UsageError(f"step {name}: it has a setup beside its own {SETUP_SCRIPT}")
            own[SETUP_SCRIPT] = PackedFile(step.setup.encode(), 0o755)
        return files | FileTree(own).below(f"{here}/{WORKDIR}").files

    def _scoring_image_files(self) -> dict[str, PackedFile]:
        """Return the image of a separate verifier, with the tests in it."""
        image = self.parts.scoring_image
        if image is None:
            return {}
        context = build_context(image)
        if context.links or context.folders:
            raise UsageError("the image that is graded in has links or empty folders in its context")
        text = image.dockerfile.rstrip("\n") + "\nUSER root\nCOPY . /tests/\n"
        return FileTree({**context.files, DOCKERFILE: PackedFile(text.encode())}).below(TESTS).files

    def _instruction(self, view: ScenarioView, name: str) -> str:
        told = view.input_context
        canary = self._canary(name)
        more = ""
        if told.additional_context:
            context = told.model_dump_json(include={"additional_context"}, indent=2)
            more = f"\n\n## Additional context\n\n```json\n{context}\n```\n"
        return f"{canary}{told.problem_statement}{more}"

    def _canary(self, name: str) -> str:
        """Return the hidden text before an instruction: its file's own, or that of its set."""
        kept = self.parts.attachments.get(unmapped_parts.ATTACHMENT, {}).get(name)
        before = kept.content.decode(errors="replace") if kept else ""
        marked = before[: len(before) - len(without_canary(before))]
        return marked or (f"{self.parts.canary}\n\n" if self.parts.canary else "")

    def _tests(self, view: ScenarioView, contract: ScoringContract) -> Mapping[str, PackedFile]:
        functions = contract.scoring_function_parameters
        if len(functions) == 1 and functions[0].scorer.get("type") == HARBOR:
            name = functions[0].scorer.get("tests", TESTS)
            if name is None or name not in self.parts.attachments:
                raise UsageError("its tests are in the image that it is graded in, and cannot be told apart")
            return self.parts.attachments[name]
        tests = tests_of(view, contract, self.parts.programs, self.user.username)
        self.verifier_user = grader_of(contract) or self.verifier_user
        self.needs_network |= NEEDS_NETWORK in tests[TEST_SCRIPT].content
        for function in functions:
            if shipped := self.parts.programs.shipped.get(scorer_key(function.scorer)):
                self.verifier_user = shipped.user or self.verifier_user
                self.verifier_spare += shipped.around_sec
                self.storage_mb = shipped.storage_mb or self.storage_mb
        return tests

    def _document(self) -> dict[str, Any]:
        view = self.view
        plain = {
            key: value
            for key, value in view.metadata.items()
            if not key.startswith(_OWN_PREFIX) and key not in (unmapped_parts.SECTION, "task", "source")
        }
        return {
            "schema_version": SCHEMA,
            "source": view.metadata.get("source"),
            "artifacts": self._artifacts() or None,
            "multi_step_reward_strategy": (view.reward_strategy or "mean") if view.steps else None,
            "task": {"name": task_name(view), "keywords": []},
            "metadata": {
                **plain,
                unmapped_parts.SECTION: self._benchyard_table().model_dump(exclude_none=True),
            },
            "agent": {
                "timeout_sec": view.agent_timeout_sec,
                "user": self.user.username,
                **self._network(self._phases().agent, self._phases().setup),
            },
            "verifier": self._verifier(),
            "environment": self._environment(),
            "solution": {"env": self.solution_env} if self.solution_env else None,
            "steps": list(self._steps()) or None,
        }

    def _artifacts(self) -> list[Any]:
        if not self._is_separate:
            return []
        artifacts: list[Any] = []
        excludes = [posixpath.join(self.directory, exclude) for exclude in self.view.answer_excludes or []]
        for each in self.view.answer_paths or []:
            source = posixpath.join(self.directory, each)
            below = [path.removeprefix(f"{source}/") for path in excludes if path.startswith(f"{source}/")]
            artifacts.append({"source": source, "exclude": below} if below else source)
        # Use one kind of entry: if any is a table, all are.
        if any(isinstance(artifact, dict) for artifact in artifacts):
            return [
                artifact if isinstance(artifact, dict) else {"source": artifact} for artifact in artifacts
            ]
        return artifacts

    @property
    def _is_separate(self) -> bool:
        return self.view.isolation == "answer" and not self.view.steps

    def _benchyard_table(self) -> unmapped_parts.BenchyardTable:
        view = self.view
        functions = view.scoring_contract.scoring_function_parameters
        has_reference = view.reference_output and solutions.read_back(view.reference_output) is None
        return unmapped_parts.BenchyardTable(
            name=view.name,
            benchmark=view.metadata.get(PUBLIC_KEY),
            isolation=view.scoring_isolation or "auto",
            reward=functions[0].scorer.get("reward") if functions[0].scorer.get("type") == HARBOR else None,
            network="server" if self.parts.phases is None else None,
            scoring_network="none" if self._lends_network else None,
            reference=references.kind(view) if has_reference else None,
            scorers=[
                unmapped_parts.ScorerNote(
                    name=function.name, type=str(function.scorer.get("type", "")), weight=function.weight
                )
                for function in functions
            ],
            **{name: getattr(view, name) or None for name in unmapped_parts.EXPORTED},
        )

    @property
    def _lends_network(self) -> bool:
        """True if tests need a network in other harnesses, although they need none here."""
        return self.needs_network and self._phases().scoring.mode == "none"

    def _phases(self) -> PhaseAccess:
        none = NetworkAccess("none")
        return self.parts.phases or PhaseAccess(none, none, none)

    def _network(self, access: NetworkAccess, inherited: NetworkAccess | None = None) -> dict[str, Any]:
        if access == inherited:
            return {}
        hosts = list(access.hosts) if access.mode == "allow-list" else None
        return {"network_mode": _MODES[access.mode], "allowed_hosts": hosts}

    def _verifier(self) -> dict[str, Any]:
        view, phases = self.view, self._phases()
        functions = view.scoring_contract.scoring_function_parameters
        seconds = (view.scorer_timeout_sec or SCORER_SECONDS_DEFAULT) * len(functions) + self.verifier_spare
        scoring = NetworkAccess("open") if self._lends_network else phases.scoring
        scorer = functions[0].scorer
        env = dict(scorer.get("env") or {}) if scorer.get("type") == HARBOR else {}
        env |= {name: f"${{{name}}}" for name in view.scoring_secrets or {}}
        user = scorer.get("user") if scorer.get("type") == HARBOR else None
        return {
            "timeout_sec": float(min(seconds, SCORER_SECONDS_MAX)),
            "user": user or self.verifier_user or self.user.username,
            "environment_mode": "separate" if self._is_separate else None,
            **self._network(scoring, phases.setup),
            "env": env or None,
            "collect": [
                {"command": command.command, "user": command.user, "timeout_sec": command.timeout_sec}
                for command in view.collect_commands or []
            ]
            or None,
        }

    def _environment(self) -> dict[str, Any]:
        needed = [*(self.view.required_environment_variables or []), *(self.view.required_secret_names or [])]
        env = {**(self.environment.environment_variables or {}), **{name: f"${{{name}}}" for name in needed}}
        return {
            "docker_image": self.parts.image.prebuilt if self.parts.image else None,
            **_size(self.environment.launch_parameters or LaunchParameters(), self.storage_mb),
            **self._network(self._phases().setup),
            "workdir": self.directory,
            "env": env or None,
        }

    def _steps(self) -> Iterator[dict[str, Any]]:
        for step in self.view.steps or []:
            yield {
                "name": step.name,
                "min_reward": step.min_reward
                if isinstance(step.min_reward, dict)
                else _float(step.min_reward),
                "agent": {"timeout_sec": step.agent_timeout_sec} if step.agent_timeout_sec else None,
            }


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _size(launch: LaunchParameters, storage_mb: int | None) -> dict[str, Any]:
    if launch.resource_size_request is not Size.CUSTOM_SIZE:
        return {"storage_mb": storage_mb}
    memory, disk = launch.custom_gb_memory, launch.custom_disk_size
    return {
        "cpus": launch.custom_cpu_cores,
        "memory_mb": memory * _MB if memory else None,
        "storage_mb": max(disk * _MB, storage_mb or 0) if disk else storage_mb,
    }


def task_name(view: ScenarioView) -> str:
    """Return the name of a task where tasks are published: `ORG/NAME`."""
    for name in (view.metadata.get("task", ""), view.name):
        if _NAME.fullmatch(name) and ".." not in name:
            return name
    return f"{ORG}/{slug(view.name).lstrip('-_.') or 'unnamed'}"


def tree_digest(tree: FileTree) -> str:
    """Return the content hash of a task folder, as manifests of datasets have it."""
    whole = hashlib.sha256()
    for name in sorted(file for file in tree.files if file.split("/")[0] in _HASHED):
        whole.update(f"{name}\0{hashlib.sha256(tree.files[name].content).hexdigest()}\n".encode())
    return f"sha256:{whole.hexdigest()}"


def dataset_toml(name: str, about: Mapping[str, Any], tasks: Sequence[tuple[str, str]]) -> str:
    """Return the `dataset.toml` of a benchmark: its tasks, each by name and content hash."""
    full = (
        name if _NAME.fullmatch(name) and ".." not in name else f"{ORG}/{slug(name).lstrip('-_.') or 'set'}"
    )
    return toml_writer.dump(
        {
            "dataset": {"name": full, **{key: value for key, value in about.items() if value}},
            "tasks": [{"name": task, "digest": digest} for task, digest in tasks],
        }
    )


_OVERRIDES = {**{name: name for name in TaskOptions.model_fields}, "scoring_isolation": "isolation"}
_OTHER_NAMES = ("name", "attachments", "scoring_network", "agent_network_policy", "scoring_blueprint_id")
"""Fields that differ only because ids and names do."""


def original_task(view: ScenarioView, parts: ExportParts) -> FileTree | None:
    """Return the task folder that a scenario was imported from; None without one, or if it is not kept."""
    kept = parts.attachments.get(unmapped_parts.ATTACHMENT)
    if kept is None or NAME not in kept or parts.image is None:
        return None
    files = dict(kept)
    tree = _environment(parts.image, kept[NAME].content).below(FOLDER)
    shared = parts.attachments.get(TESTS, {})
    tests = FileTree(dict(shared))
    if parts.scoring_image is not None and not shared:
        tests = build_context(parts.scoring_image)
    files |= tree.files | tests.below(TESTS).files
    solution = solutions.read_back(view.reference_output or "")
    files |= FileTree(dict(solution.files) if solution else {}).below(SOLUTION).files
    for index, step in enumerate(view.steps or []):
        here = f"{STEPS}/{step.name}"
        both = parts.attachments.get(f"{STEPS}/{index}/{TESTS}", {})
        own = {name: file for name, file in both.items() if shared.get(name) != file}
        solution = solutions.read_back(step.reference_output or "")
        files |= FileTree(own).below(f"{here}/{TESTS}").files
        files |= FileTree(dict(solution.files) if solution else {}).below(f"{here}/{SOLUTION}").files
        files |= FileTree(dict(parts.step_files.get(step.name, {}))).below(f"{here}/{WORKDIR}").files
    return FileTree(
        files, tree.links | tests.below(TESTS).links, (*tree.folders, *tests.below(TESTS).folders)
    )


def _environment(image: ImageParts, task: bytes) -> FileTree:
    """Return a task's `environment/`: the context of its Dockerfile, or the loose files beside its image."""
    try:
        file = TaskFile.model_validate(tomllib.loads(task.decode()))
    except ValueError as error:
        raise UsageError(f"the {NAME} that is kept beside the scenario cannot be read: {error}") from error
    if file.environment.docker_image and image.prebuilt is None:
        return image.context.inside("files") if image.context else FileTree()
    return build_context(image)


def overrides(view: ScenarioView, read: ScenarioRequest) -> unmapped_parts.BenchyardTable | None:
    """Return the changes since a task's import, as `[metadata.benchyard]`; None if it cannot express them."""
    environment = view.environment or ScenarioEnvironment()
    launch = environment.launch_parameters or LaunchParameters()
    plain = environment.model_copy(
        update={
            "blueprint_id": None,
            "snapshot_id": None,
            "launch_parameters": launch.model_copy(update={"network_policy_id": None}),
        }
    )
    steps = [step.model_copy(update={"files": None}) for step in view.steps or []]
    same = view.model_copy(update={"environment": plain, "steps": steps or None})
    changed: dict[str, Any] = {}
    for place, old, _ in comparison.scenario_differences(same, read):
        if place in _OTHER_NAMES or place.startswith("metadata."):
            continue
        if place not in _OVERRIDES:
            return None
        changed[_OVERRIDES[place]] = old
    if view.validated_isolation is not None:
        # A task without this field does not undo a later validation.
        changed["validated_isolation"] = view.validated_isolation
    return unmapped_parts.BenchyardTable.model_validate(changed)


def with_overrides(text: str, part: unmapped_parts.BenchyardTable) -> str:
    """Return a `task.toml` with this table added; the text is unchanged if the table is empty."""
    said = part.model_dump(exclude_none=True)
    if not said:
        return text
    data = tomllib.loads(text)
    table = toml_writer.dump({"metadata": {unmapped_parts.SECTION: said}})
    longer = f"{text.rstrip()}\n\n{table}"
    try:
        tomllib.loads(longer)
    except tomllib.TOMLDecodeError:
        # The file already has such a table, or its metadata are an inline table.
        own = data.setdefault("metadata", {})
        own[unmapped_parts.SECTION] = {**own.get(unmapped_parts.SECTION, {}), **said}
        return toml_writer.dump(data)
    return longer
