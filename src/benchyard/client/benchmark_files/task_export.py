"""Exports of scenarios and benchmarks as Harbor task folders, which Harbor and Benchyard can read."""

import io
import tempfile
from collections.abc import Iterable, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from benchyard.benchmarks import catalog
from benchyard.benchmarks.base import PUBLIC_KEY, BrokenItem
from benchyard.benchmarks.files import bounded_folder
from benchyard.benchmarks.files.scenario_draft import NetworkAccess, PhaseAccess, ScenarioDraft
from benchyard.benchmarks.files.writer import slug
from benchyard.benchmarks.harbor import export, task_folders
from benchyard.benchmarks.harbor.environments import FileTree, ImageParts, tree_of
from benchyard.benchmarks.harbor.export import ExportParts
from benchyard.benchmarks.harbor.task_file import NAME
from benchyard.benchmarks.harbor.task_folders import HarborOptions
from benchyard.benchmarks.harbor.verifiers import ScorerPrograms, scorer_key
from benchyard.client.benchmark_files.results import ExportResult
from benchyard.client.lookup import find_custom_scorer, find_policy
from benchyard.client.nouns import SyncNouns
from benchyard.errors import NotFound, UsageError
from benchyard.models.benchmarks import BenchmarkView
from benchyard.models.scenarios import SCORER_SECONDS_DEFAULT, ScenarioView
from benchyard.models.scoring.attachments import MOST_PACKED_BYTES, PackedFile, unpack_files
from benchyard.models.scoring.exports import Attachments, PythonNeeds, ScorerExport
from benchyard.scorers import exports
from benchyard.scorers.kits import answer_command
from benchyard.scorers.python_script import PythonScriptConfig

_AST_GREP = "ast-grep-cli"
_PYTHON = "/usr/bin/env python3"
_CANARY = "<!-- canary: items of {} must not be published in plain text, nor learned from -->"
_UNEXPORTABLE = (
    "base_blueprint_id",
    "base_blueprint_name",
    "code_mounts",
    "services",
    "secrets",
    "build_args",
)


def export_benchmark(client: SyncNouns, view: BenchmarkView, folder: Path, *, private: bool) -> ExportResult:
    """Write the scenarios of a benchmark as task folders, and the manifest of the set."""
    _check_publication(view.metadata.get(PUBLIC_KEY), private=private)
    exporter = _Exporter(client, private=private)
    tasks: list[str] = []
    refused: list[BrokenItem] = []
    listed: list[tuple[str, str]] = []
    for scenario in client.benchmarks.definitions(view.id, limit=100):
        name = _free_name(slug(scenario.name.rpartition("/")[2]), tasks)
        try:
            tree = exporter.write(scenario, folder / name)
        except UsageError as error:
            refused.append(BrokenItem(scenario.name, error.message))
            continue
        tasks.append(name)
        listed.append((export.task_name(scenario), export.tree_digest(tree)))
    if not tasks:
        told = "; ".join(f"{each.name}: {each.reason}" for each in refused[:3])
        raise UsageError(f"nothing of {view.name} can be exported: {told or 'it has no scenarios'}")
    about = {"description": view.description or ""}
    manifest = export.dataset_toml(view.name, about, listed)
    bounded_folder.write(folder, export.DATASET, manifest.encode())
    return ExportResult(folder, tasks, refused)


def export_scenario(client: SyncNouns, view: ScenarioView, folder: Path, *, private: bool) -> ExportResult:
    """Write one scenario as a task folder."""
    _Exporter(client, private=private).write(view, folder)
    return ExportResult(folder, [folder.name])


def _check_publication(name: str | None, *, private: bool) -> None:
    """Raise UsageError for a benchmark that must not be published, unless the export is private."""
    if private or name is None or name not in catalog.names():
        return
    if catalog.load(name).about.not_for_publication:
        raise UsageError(
            f"the authors of {name} ask that its items are not shown in plain text where everybody can read "
            "them; if the folder stays with you, say so: --private"
        )


def _free_name(name: str, taken: list[str]) -> str:
    found, count = name, 1
    while found.lower() in {each.lower() for each in taken} or found == export.DATASET:
        count += 1
        found = f"{name}-{count}"
    return found


class _Exporter:
    """Exports scenarios of one server; shared parts are requested once."""

    def __init__(self, client: SyncNouns, *, private: bool) -> None:
        self._client = client
        self._private = private
        self._images: dict[str, ImageParts] = {}

    def write(self, view: ScenarioView, folder: Path) -> FileTree:
        """Write a scenario's task folder; one that cannot be exported leaves no files."""
        public = view.metadata.get(PUBLIC_KEY)
        _check_publication(public, private=self._private)
        tree = self._tree(view, self._parts(view))
        _write(tree, folder)
        return tree

    def _tree(self, view: ScenarioView, parts: ExportParts) -> FileTree:
        with tempfile.TemporaryDirectory(prefix="benchyard-export-") as work:
            back = export.original_task(view, parts)
            if back is not None:
                read = _read(back, Path(work) / "back")
                changed = export.overrides(view, read.request)
                if changed is not None:
                    text = back.files[NAME].content.decode()
                    said = PackedFile(export.with_overrides(text, changed).encode())
                    return FileTree({**back.files, NAME: said}, back.links, back.folders)
            made = export.make_task(view, parts)
            # A task that Benchyard itself cannot read is not written.
            _read(made, Path(work) / "made")
            return made

    def _parts(self, view: ScenarioView) -> ExportParts:
        environment = view.environment
        if environment and environment.snapshot_id:
            raise UsageError(
                "its devbox starts from a snapshot, which is not a Dockerfile; describe it by one"
            )
        image = self._image(environment.blueprint_id) if environment and environment.blueprint_id else None
        scoring = self._image(view.scoring_blueprint_id) if view.scoring_blueprint_id else None
        steps = {each.name: self._archive(each.files) for each in view.steps or [] if each.files}
        attachments = {name: self._archive(id) for name, id in (view.attachments or {}).items()}
        public = view.metadata.get(PUBLIC_KEY)
        is_secret = public in catalog.names() and catalog.load(str(public)).about.not_for_publication
        return ExportParts(
            image=image,
            scoring_image=scoring,
            phases=self._phases(view),
            attachments=attachments,
            step_files=steps,
            programs=self._programs_of(view, attachments),
            canary=view.metadata.get("canary") or (_CANARY.format(public) if is_secret else None),
        )

    def _object(self, id: str) -> bytes:
        content = io.BytesIO()
        if (self._client.objects.get(id).size_bytes or 0) > MOST_PACKED_BYTES:
            raise UsageError(f"the object {id} that belongs to it has more than {MOST_PACKED_BYTES} bytes")
        self._client.objects.download(id, content)
        return content.getvalue()

    def _archive(self, id: str) -> Mapping[str, PackedFile]:
        return dict(unpack_files(self._object(id)))

    def _image(self, id: str) -> ImageParts:
        if id not in self._images:
            self._images[id] = self._told_image(id)
        return self._images[id]

    def _told_image(self, id: str) -> ImageParts:
        try:
            parameters = self._client.blueprints.get(id).parameters
        except NotFound as error:
            raise UsageError(
                f"its devbox starts from {id}, an image of this server without a Dockerfile; "
                "describe it by a Dockerfile"
            ) from error
        odd = [name for name in _UNEXPORTABLE if getattr(parameters, name)]
        if odd or not parameters.dockerfile:
            raise UsageError(f"its blueprint has {odd[0] if odd else 'no dockerfile'}, which Harbor has not")
        context = parameters.build_context
        launch = parameters.launch_parameters
        return ImageParts(
            dockerfile=parameters.dockerfile,
            context=tree_of(self._object(context.object_id)) if context else None,
            prebuilt=parameters.prebuilt_image,
            commands=tuple(parameters.system_setup_commands or ()),
            mounts=parameters.file_mounts or {},
            user=launch.user_parameters if launch else None,
        )

    def _phases(self, view: ScenarioView) -> PhaseAccess | None:
        launch = view.environment.launch_parameters if view.environment else None
        own = launch.network_policy_id if launch else None
        if own is None and view.agent_network_policy is None and view.scoring_network in (None, "none"):
            return None
        setup = self._access(own)
        agent = self._access(view.agent_network_policy) if view.agent_network_policy else setup
        scoring = view.scoring_network
        return PhaseAccess(
            setup, agent, NetworkAccess("none") if scoring in (None, "none") else self._access(scoring)
        )

    def _access(self, given: str | None) -> NetworkAccess:
        if given is None:
            return NetworkAccess("none")
        if given == "host":
            return NetworkAccess("open")
        egress = find_policy(self._client, given).egress
        if egress.allow_all:
            return NetworkAccess("open")
        hosts = (*egress.allowed_hostnames, *(allowed_cidr.cidr for allowed_cidr in egress.allowed_cidrs))
        return NetworkAccess("allow-list", hosts) if hosts else NetworkAccess("none")

    def _programs_of(self, view: ScenarioView, attachments: Attachments) -> ScorerPrograms:
        contracts = [view.scoring_contract, *(each.scoring_contract for each in view.steps or [])]
        scorers = [
            parameter.scorer for one in contracts if one for parameter in one.scoring_function_parameters
        ]
        custom = {}
        for type in {
            str(scorer["custom_scorer_type"]) for scorer in scorers if scorer.get("custom_scorer_type")
        }:
            known = find_custom_scorer(self._client, type)
            if known is not None:
                custom[type] = known.bash_script
        pythons = {
            str(scorer["python_script"]): _python_needs(scorer)
            for scorer in scorers
            if scorer.get("type") == "python_script_scorer"
        }
        return ScorerPrograms(
            custom,
            shipped_graders(scorers, attachments, view.scorer_timeout_sec),
            pythons,
            _ast_grep(),
            partial(answer_command.program, _PYTHON),
        )


def shipped_graders(
    scorers: Iterable[Mapping[str, Any]], attachments: Attachments, seconds: float | None
) -> dict[str, ScorerExport]:
    """Return the scorers of public benchmarks among these, in the form that is run elsewhere."""
    known = exports.types()
    return {
        scorer_key(scorer): exports.export(scorer, attachments, seconds or SCORER_SECONDS_DEFAULT)
        for scorer in scorers
        if scorer.get("type") in known
    }


def _python_needs(scorer: Mapping[str, Any]) -> PythonNeeds:
    config = PythonScriptConfig.model_validate(dict(scorer))
    version = config.python()
    return PythonNeeds(str(version) if version is not None else None, config.requirements())


def _ast_grep() -> str:
    try:
        return f"{_AST_GREP}=={metadata.version(_AST_GREP)}"
    except metadata.PackageNotFoundError:
        return _AST_GREP


def _read(tree: FileTree, folder: Path) -> ScenarioDraft:
    """Return a task folder as an import reads it."""
    _write(tree, folder)
    return task_folders.read_task(
        folder, "export/check", HarborOptions(folder.with_name(f"{folder.name}-work"))
    )


def _write(tree: FileTree, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in tree.files.items():
        bounded_folder.write(folder, name, file.content, file.mode)
    for name in tree.folders:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, target in tree.links.items():
        link = folder / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
