"""Harbor task folders that were imported, given back as they were."""

import tomllib
from typing import Any

from benchyard.benchmarks import comparing, harbor_kept, harbor_solutions, toml_text
from benchyard.benchmarks.harbor_environments import FOLDER
from benchyard.benchmarks.harbor_file import NAME, TaskFile
from benchyard.benchmarks.harbor_images import Image, Tree, context_of
from benchyard.benchmarks.harbor_parts import Parts
from benchyard.benchmarks.harbor_tasks import SOLUTION, STEPS, TESTS, WORKDIR
from benchyard.errors import UsageError
from benchyard.models.launch import LaunchParameters
from benchyard.models.scenarios import ScenarioEnvironment, ScenarioRequest, ScenarioView

_OVERRIDES = {name: name for name in (*harbor_kept.RULES, "scorer_timeout_sec", "agent_timeout_sec")}
_OVERRIDES["scoring_isolation"] = "isolation"
_OTHER_NAMES = ("name", "attachments", "scoring_network", "agent_network_policy", "scoring_blueprint_id")
"""What differs because ids and names do."""


def given_back(view: ScenarioView, parts: Parts) -> Tree | None:
    """The task folder that a scenario was imported from; None where it was not, or that is not kept."""
    kept = parts.attachments.get(harbor_kept.ATTACHMENT)
    if kept is None or NAME not in kept or parts.image is None:
        return None
    files = dict(kept)
    tree = _environment(parts.image, kept[NAME].content).below(FOLDER)
    shared = parts.attachments.get(TESTS, {})
    tests = Tree(dict(shared))
    if parts.scoring_image is not None and not shared:
        tests = context_of(parts.scoring_image)
    files |= tree.files | tests.below(TESTS).files
    solution = harbor_solutions.read_back(view.reference_output or "")
    files |= Tree(dict(solution.files) if solution else {}).below(SOLUTION).files
    for index, step in enumerate(view.steps or []):
        here = f"{STEPS}/{step.name}"
        both = parts.attachments.get(f"{STEPS}/{index}/{TESTS}", {})
        own = {name: file for name, file in both.items() if shared.get(name) != file}
        solution = harbor_solutions.read_back(step.reference_output or "")
        files |= Tree(own).below(f"{here}/{TESTS}").files
        files |= Tree(dict(solution.files) if solution else {}).below(f"{here}/{SOLUTION}").files
        files |= Tree(dict(parts.step_files.get(step.name, {}))).below(f"{here}/{WORKDIR}").files
    return Tree(files, tree.links | tests.below(TESTS).links, (*tree.folders, *tests.below(TESTS).folders))


def _environment(image: Image, task: bytes) -> Tree:
    """`environment/` of a task: the context of its Dockerfile, or the loose files beside its image."""
    try:
        file = TaskFile.model_validate(tomllib.loads(task.decode()))
    except ValueError as error:
        raise UsageError(f"the {NAME} that is kept beside the scenario cannot be read: {error}") from error
    if file.environment.docker_image and image.prebuilt is None:
        return image.context.inside("files") if image.context else Tree()
    return context_of(image)


def overrides(view: ScenarioView, read: ScenarioRequest) -> harbor_kept.KeptPart | None:
    """What has changed since a task was imported, as far as `[metadata.benchyard]` can tell; None if more."""
    environment = view.environment or ScenarioEnvironment()
    launch = environment.launch_parameters or LaunchParameters()
    plain = environment.model_copy(
        update={
            "blueprint_id": None,
            "snapshot_id": None,
            "launch_parameters": launch.model_copy(update={"network_policy_id": None}),
        }
    )
    steps = [each.model_copy(update={"files": None}) for each in view.steps or []]
    same = view.model_copy(update={"environment": plain, "steps": steps or None})
    changed: dict[str, Any] = {}
    for place, old, _ in comparing.scenario_differences(same, read):
        if place in _OTHER_NAMES or place.startswith("metadata."):
            continue
        if place not in _OVERRIDES:
            return None
        changed[_OVERRIDES[place]] = old
    if view.validated_isolation is not None:
        # A task that says nothing of it does not take back what was found out since.
        changed["validated_isolation"] = view.validated_isolation
    return harbor_kept.KeptPart.model_validate(changed)


def with_overrides(text: str, part: harbor_kept.KeptPart) -> str:
    """A `task.toml` that says this too; the text of before stays where nothing is to be said."""
    said = part.model_dump(exclude_none=True)
    if not said:
        return text
    data = tomllib.loads(text)
    table = toml_text.dumped({"metadata": {harbor_kept.SECTION: said}}).removeprefix("[metadata]\n\n")
    longer = f"{text.rstrip()}\n\n{table}"
    try:
        tomllib.loads(longer)
    except tomllib.TOMLDecodeError:
        # It has such a table already, or its metadata stand in one line.
        own = data.setdefault("metadata", {})
        own[harbor_kept.SECTION] = {**own.get(harbor_kept.SECTION, {}), **said}
        return toml_text.dumped(data)
    return longer
