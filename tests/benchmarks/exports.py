"""Scenarios and their parts, as a server would have them after an import, without a server."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchyard.benchmarks.files.scenario_draft import EnvironmentOrigin, ScenarioDraft
from benchyard.benchmarks.harbor import task_folders
from benchyard.benchmarks.harbor.environments import FileTree, ImageParts, tree_of
from benchyard.benchmarks.harbor.export import ExportParts
from benchyard.benchmarks.harbor.task_folders import HarborOptions
from benchyard.client.build_context import context_archive
from benchyard.models.scenarios import ScenarioRequest, ScenarioView
from benchyard.models.scoring.attachments import PackedFile, unpack_files


def read(path: Path, work: Path) -> ScenarioDraft:
    """A task folder as it is imported."""
    return task_folders.read_task(path, f"set/{path.name}", HarborOptions(work))


def view_of(request: ScenarioRequest) -> ScenarioView:
    """A scenario as the wire shows it, of the request that made it."""
    said = request.model_dump(exclude={"environment_parameters"})
    return ScenarioView(
        **{**said, "metadata": request.metadata or {}},
        id="scn_1",
        status="active",
        environment=request.environment_parameters,
        create_time_ms=1,
    )


def parts_of(draft: ScenarioDraft) -> ExportParts:
    """What a draft has beside its request, as an export gets it."""
    return ExportParts(
        image=_image(draft, draft.origin),
        scoring_image=_image(draft, draft.scoring_origin) if draft.scoring_origin else None,
        phases=draft.phases,
        attachments={name: dict(unpack_files(each)) for name, each in draft.attachments.items()},
        step_files={name: dict(unpack_files(each)) for name, each in draft.step_files.items()},
    )


def _image(draft: ScenarioDraft, origin: EnvironmentOrigin) -> ImageParts:
    if origin.kind == "image-reference":
        return ImageParts(f"FROM {origin.name}\n")
    path = draft.folder.inside(origin.name)
    with context_archive(path.parent, path) as archive:
        context = tree_of(archive.read_bytes())
    return ImageParts(draft.folder.text(origin.name), context, origin.prebuilt)


def written(tree: FileTree, folder: Path) -> Path:
    """A tree on disk."""
    for name, file in tree.files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(file.mode)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def scenario(scorers: Sequence[Mapping[str, Any]], **fields: Any) -> ScenarioView:
    """A scenario of ours with these scorers, each with its weight in its fields."""
    functions = [
        {"name": f"s{number}", "weight": each.get("weight", 1.0), "scorer": dict(each)}
        for number, each in enumerate(scorers)
    ]
    said: dict[str, Any] = {
        "name": "own/one",
        "input_context": {"problem_statement": "Do it.\n"},
        "scoring_contract": {"scoring_function_parameters": functions},
        **fields,
    }
    return view_of(ScenarioRequest.model_validate(said))


def text(file: PackedFile) -> str:
    """What a file says."""
    return file.content.decode()
